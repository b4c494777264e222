// Byte-level byte-pair encoding: every byte of a piece is a token, then merges apply.
//
// Pieces come from a pre-tokenizer. Cost of encode(): O(n log n) in the bytes of the piece.
// Thread: any, once built.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "text/merges.h"
#include "text/token_table.h"

namespace cairn {

class Bpe {
 public:
  struct Options {
    bool ignore_merges = false;      // a piece that is a token is taken whole, without merging
    std::optional<TokenId> unknown;  // for bytes without a token; without it they are dropped
  };

  using Scratch = MergeScratch;

  Bpe(TokenTable tokens, MergeTable merges, Options options);

  // Appends the ids of one piece. Requires piece.size() < 2^32 - 1.
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  std::optional<TokenId> find(std::string_view bytes) const { return tokens_.find(bytes); }

 private:
  TokenTable tokens_;
  MergeTable merges_;
  Options options_;
  std::array<std::optional<TokenId>, 256> byte_ids_;
};

}  // namespace cairn
