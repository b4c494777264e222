// Ranked merges of token pairs, and the merging of one run of tokens.
//
// The pair with the lowest rank is merged first, the leftmost among equals, until no pair is left.
// Cost of apply(): O(n log n), also for one repeated token, which a loop over all pairs would take
// quadratic time for. Thread: any, once built.
// Source: Sennrich et al. 2016, arXiv 1508.07909, algorithm 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/token.h"

namespace cairn {

// Scratch memory of one caller, reused from run to run.
struct MergeScratch {
  struct Symbol {
    TokenId id = 0;
    uint32_t prev = 0;
    uint32_t next = 0;
    bool is_live = true;
  };

  struct Candidate {
    uint32_t rank = 0;
    uint32_t pos = 0;
    TokenId left = 0;
    TokenId right = 0;
    TokenId merged = 0;
  };

  std::vector<TokenId> ids;  // in: the run; out: what is left of it
  std::vector<uint32_t> ranks;
  std::vector<TokenId> merged;
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

// (left, right) to (rank, merged id), open addressing.
class MergeTable {
 public:
  // Room for n_merges.
  explicit MergeTable(size_t n_merges);

  struct Merge {
    uint32_t rank = 0;
    TokenId id = 0;
  };

  // A pair that is there already keeps its first rank.
  void insert(TokenId left, TokenId right, Merge merge);
  const Merge* find(TokenId left, TokenId right) const;

  // Merges scratch.ids in place. Requires fewer than 2^32 - 1 of them.
  void apply(MergeScratch& scratch) const;

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };

  void apply_short(MergeScratch& scratch) const;
  void apply_long(MergeScratch& scratch) const;

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace cairn
