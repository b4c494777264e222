// The vocabulary inside a GGUF file, as its reader hands it over.
//
// Field names follow the metadata keys tokenizer.ggml.*; a field without its key keeps the default.
// All views belong to the caller and are needed only while the Tokenizer is made.
// Source: the GGUF specification, section "Tokenizer".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cache/token.h"

namespace cairn {

struct GgufVocabulary {
  // Values of token_types.
  enum : int32_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
  };

  std::string_view model;                // "llama" (SentencePiece-like) or "gpt2" (byte-level)
  std::string_view pre;                  // how "gpt2" cuts text; see gguf_pre_tokenizers.h
  std::vector<std::string_view> tokens;  // by id
  std::span<const float> scores;         // by id; "llama" needs them
  std::span<const int32_t> token_types;  // by id; empty: all normal
  std::vector<std::string_view> merges;  // "left right", best first; "gpt2" needs them
  std::optional<uint32_t> bos_token_id;
  std::optional<uint32_t> eos_token_id;
  std::optional<uint32_t> unknown_token_id;
  std::optional<bool> add_bos_token;  // default: true for "llama", else as `pre` has it
  std::optional<bool> add_eos_token;  // default: false
  std::optional<bool> add_space_prefix;
};

}  // namespace cairn
