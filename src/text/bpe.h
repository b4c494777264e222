// Byte-pair encoding over bytes: a vocabulary, ranked merges, and the merging of one piece.
//
// The pair with the lowest rank is merged first, the leftmost among equals, until no pair is left.
// Pieces come from a pre-tokenizer. Cost of encode(): O(n log n) in the bytes of the piece, also
// for a piece of one repeated character, which a loop over all pairs would take quadratic time for.
// Thread: any, once built. Source: Sennrich et al. 2016, arXiv 1508.07909, algorithm 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/token.h"

namespace cairn {

// Bytes to id, open addressing. The bytes live in the vocabulary's arena.
class TokenTable {
 public:
  // Room for n_tokens.
  explicit TokenTable(size_t n_tokens);

  struct Entry {
    std::string_view bytes;
    TokenId id = 0;
  };

  // False when the bytes are there already. `bytes` must outlive the table.
  bool insert(std::string_view bytes, TokenId id);
  std::optional<TokenId> find(std::string_view bytes) const;

 private:
  size_t slot_of(std::string_view bytes) const;

  std::vector<Entry> slots_;  // empty slots have bytes.data() == nullptr
  size_t mask_ = 0;
};

// (left, right) to (rank, merged id), open addressing.
class MergeTable {
 public:
  explicit MergeTable(size_t n_merges);

  struct Merge {
    uint32_t rank = 0;
    TokenId id = 0;
  };

  // A pair that is there already keeps its first rank.
  void insert(TokenId left, TokenId right, Merge merge);
  const Merge* find(TokenId left, TokenId right) const;

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

class Bpe {
 public:
  struct Options {
    bool ignore_merges = false;      // a piece that is a token is taken whole, without merging
    std::optional<TokenId> unknown;  // for bytes without a token; without it they are dropped
  };

  // Scratch memory of one caller, reused from piece to piece.
  struct Scratch {
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

    std::vector<TokenId> ids;
    std::vector<uint32_t> ranks;
    std::vector<TokenId> merged;
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  Bpe(TokenTable tokens, MergeTable merges, Options options);

  // Appends the ids of one piece. Requires piece.size() < 2^32 - 1.
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  std::optional<TokenId> find(std::string_view bytes) const { return tokens_.find(bytes); }

 private:
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;

  TokenTable tokens_;
  MergeTable merges_;
  Options options_;
  std::array<std::optional<TokenId>, 256> byte_ids_;
};

}  // namespace cairn
