// Byte-pair encoding over characters, as SentencePiece does it: every character of a piece is a
// token, then merges apply; characters without a token fall back to bytes or to the unknown token.
//
// Such tokenizers have no pre-tokenizer: a whole prompt is one piece. The piece is therefore cut
// here, exactly, at places that no merge can cross: where no merge has a left half that ends with
// the one character and a right half that begins with the other. In ordinary text these places are
// the beginnings of words, and a cut piece costs no more than in a byte-level vocabulary.
// Cost of encode(): O(n log n). Thread: any, once built.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/byte_tokens.h"
#include "text/merges.h"
#include "text/token_table.h"

namespace cairn {

// Which two characters a merge may join. May say yes when the answer is no, never the reverse.
class JoinFilter {
 public:
  JoinFilter() : bits_(kBits / 64) {}

  // Takes the halves of one merge, as text. Empty halves join nothing.
  void add(std::string_view left, std::string_view right);

  // For merges whose halves are not spelt in characters.
  void allow_all() { allows_all_ = true; }

  bool may_join(char32_t left, char32_t right) const {
    const size_t bit = bit_of(left, right);
    return allows_all_ || ((bits_[bit / 64] >> (bit % 64)) & 1U) != 0;
  }

 private:
  // 128 KiB. The 580,604 merges of Gemma join 27,575 pairs of characters, 3 % of the bits.
  static constexpr size_t kBits = size_t{1} << 20U;

  static size_t bit_of(char32_t left, char32_t right) {
    uint64_t key = ((uint64_t{left} << 21U) | right) * 0x9E3779B97F4A7C15U;
    key = (key ^ (key >> 32U)) * 0xBF58476D1CE4E5B9U;
    return static_cast<size_t>(key >> 44U);
  }

  std::vector<uint64_t> bits_;
  bool allows_all_ = false;
};

class CharBpe {
 public:
  struct Options {
    bool ignore_merges = false;      // a piece that is a token is taken whole, without merging
    std::optional<TokenId> unknown;  // without it characters that have no token are dropped
    bool fuses_unknown = false;      // neighbouring unknown characters are one token
    bool has_byte_fallback = false;  // before the unknown token is tried
  };

  using Scratch = MergeScratch;

  // `pieces` by their spelling in the vocabulary.
  CharBpe(TokenTable pieces, MergeTable merges, JoinFilter joins, Options options);

  // Appends the ids of one piece of valid UTF-8. Requires piece.size() < 2^32 - 1.
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  std::optional<TokenId> find(std::string_view spelling) const { return pieces_.find(spelling); }

 private:
  std::optional<TokenId> find_character(std::string_view character) const;

  TokenTable pieces_;
  MergeTable merges_;
  JoinFilter joins_;
  Options options_;
  ByteTokens byte_tokens_;
  std::array<std::optional<TokenId>, 128> ascii_ids_;
};

}  // namespace cairn
