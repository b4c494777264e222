// The unigram language model: of all ways to cut a piece into tokens, the one with the largest sum
// of scores (log probabilities), found by dynamic programming over the bytes.
//
// Cost of encode(): O(n * longest token). Thread: any, once built.
// Source: Kudo 2018, arXiv 1804.10959, section 3.2; ties and unknown characters as SentencePiece
// 0.1.97 and Hugging Face tokenizers 0.20 break them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/byte_tokens.h"
#include "text/piece_trie.h"

namespace cairn {

class Unigram {
 public:
  struct Options {
    TokenId unknown = 0;
    double unknown_score = 0;  // of a character without a token
    bool has_byte_fallback = false;
    bool has_f32_sums = false;      // SentencePiece adds in f32, Hugging Face in f64
    bool looks_up_unknown = false;  // a run of unknown characters that spells a token is that token
  };

  struct Scratch {
    struct Step {
      double score = 0;
      uint32_t begin = 0;
      TokenId id = 0;
    };

    std::vector<Step> best;  // by end of the token
    std::vector<Step> path;  // last token first
  };

  // `pieces` are valid UTF-8. scores[id] for every id in it.
  Unigram(PieceTrie pieces, std::vector<double> scores, ByteTokens byte_tokens, Options options);

  // Appends the ids of one piece of valid UTF-8. Requires piece.size() < 2^32 - 1.
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  std::optional<TokenId> find(std::string_view spelling) const { return pieces_.find(spelling); }

 private:
  void find_best(std::string_view piece, Scratch& scratch) const;
  void append_unknown(std::string_view characters, std::vector<TokenId>& out) const;

  PieceTrie pieces_;
  std::vector<double> scores_;
  ByteTokens byte_tokens_;
  Options options_;
};

}  // namespace cairn
