// The merges that a vocabulary with scores implies: two tokens merge when their texts together are
// a token, the one with the best score first. SentencePiece's BPE models and the "llama"
// vocabularies of GGUF files are written so. Source: SentencePiece 0.1.97, bpe_model.cc.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/char_bpe.h"

namespace cairn {

struct ScoredPiece {
  std::string_view text;  // valid UTF-8, not empty
  TokenId id = 0;
  float score = 0;
};

struct ScoredMerges {
  MergeTable merges{0};
  JoinFilter joins;
};

//   table         holds the pieces
//   is_mergeable  [vocab_size], by id: false for what the table holds besides
// Equal scores have equal rank: then the leftmost pair goes first.
// Errors: kCorruption for a score that is no number, kUnsupported for a piece of more than 512
// bytes (they are cut at every place, so the cost grows with the square) and for more than 2^20
// merges.
Result<ScoredMerges> make_scored_merges(std::vector<ScoredPiece> pieces,
                                        const TokenTable& table,
                                        const std::vector<bool>& is_mergeable);

}  // namespace cairn
