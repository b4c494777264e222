// The tokenizer inside a GGUF file, as plain values; the text layer makes a Tokenizer of it.
//
// Field names follow the metadata keys tokenizer.ggml.*; a field without its key keeps the default.
// Thread: any; no state. Source: the GGUF specification, section "Tokenizer".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "formats/gguf_metadata.h"

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

  std::string model;                     // "llama" (SentencePiece-like) or "gpt2" (byte-level)
  std::string pre;                       // how "gpt2" cuts text; see gguf_pre_tokenizers.h
  std::vector<std::string_view> tokens;  // by id; views of the file
  std::vector<float> scores;             // by id, or empty; "llama" needs them
  std::vector<int32_t> token_types;      // by id; empty: all normal
  std::vector<std::string_view> merges;  // "left right", best first, views of the file; "gpt2"
  std::optional<uint32_t> bos_token_id;
  std::optional<uint32_t> eos_token_id;
  std::optional<uint32_t> unknown_token_id;
  std::optional<uint32_t> padding_token_id;
  std::optional<bool> add_bos_token;     // default: true for "llama", else as `pre` has it
  std::optional<bool> add_eos_token;     // default: false
  std::optional<bool> add_space_prefix;  // default: true for "llama", else false
  std::string chat_template;             // Jinja; empty when the file has none

  int32_t type_of(size_t id) const {
    return token_types.empty() ? int32_t{kNormal} : token_types[id];
  }

  bool is_scored() const { return model == "llama"; }
};

// The metadata's file must outlive the result. Errors: kNotFound for a file without a tokenizer;
// kInvalidArgument for arrays of different lengths, token ids outside the vocabulary, unknown token
// types.
Result<GgufVocabulary> parse_gguf_vocabulary(const GgufMetadata& metadata);

// The tokens that the file names, under the variables by which templates print them: "bos_token",
// "eos_token", "unk_token", "pad_token".
std::vector<std::pair<std::string, std::string>> gguf_special_tokens(
    const GgufVocabulary& vocabulary);

}  // namespace cairn
