// Reads SentencePiece's .model file: pieces with scores, and how text is written before it is cut.
//
// The file is one protocol-buffer message, ModelProto. Only the fields that change encoding or
// decoding are kept; others are stepped over, as that format asks. Nothing is trusted: every length
// is checked against what is left of the file, and the views point into it.
// Why not the library: docs/dependencies.md.
// Source: SentencePiece 0.1.97, sentencepiece_model.proto. Thread: any.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn {

struct SentencePieceModel {
  enum class Kind : uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

  enum class Type : uint8_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
  };

  struct Piece {
    std::string_view text;  // valid UTF-8, not empty
    float score = 0;
    Type type = Type::kNormal;
  };

  Kind kind = Kind::kUnigram;
  std::vector<Piece> pieces;  // by id
  uint32_t unknown = 0;       // the one piece of that type
  int64_t bos = 1;            // -1: none
  int64_t eos = 2;
  bool has_byte_fallback = false;
  bool treats_space_as_suffix = false;
  std::string_view unknown_text = " \xE2\x81\x87 ";  // what decoding shows for it
  std::string_view characters_map;                   // see charsmap.h; may be empty
  std::string_view decoder_map;                      // of the denormalizer
  bool adds_dummy_prefix = true;
  bool removes_extra_spaces = true;
  bool escapes_spaces = true;
};

// `bytes` outlive the result.
// Errors: kCorruption for a message that is cut off or damaged, an empty piece, one that is not
// UTF-8, or not exactly one unknown piece; kUnsupported for more than 2^19 pieces.
Result<SentencePieceModel> parse_sentencepiece_model(std::string_view bytes);

}  // namespace cairn
