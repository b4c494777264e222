// The parts of a tokenizer.json reader. Nothing in the file is trusted: ids and sizes are bounded
// by the file's own size, and every kind that Cairn does not implement is named in the error.
// Format: docs of Hugging Face tokenizers 0.20, file version "1.0"; docs/formats/tokenizers.md.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_builder.h"

namespace cairn::tokenizer_json {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

// The member, or nothing when it is missing or null.
std::optional<element> member(const element& parent, std::string_view key);

// Errors: kCorruption when the member has another type.
Result<std::string_view> text_member(const element& parent, std::string_view key);
Result<bool> bool_member(const element& parent, std::string_view key, bool when_missing);
Result<array> array_member(const element& parent, std::string_view key);

// How the spelling of a token in the vocabulary becomes the bytes that it stands for.
struct Spelling {
  bool is_byte_level = false;
  std::vector<std::pair<std::string, std::string>> replacements;
  bool has_byte_tokens = false;  // "<0x0A>" is a byte
  FrontSpace front = FrontSpace::kKept;

  std::string bytes_of(std::string_view spelling) const;
};

// What the pre-tokenizer says.
struct Cutting {
  std::vector<Split> splits;
  FrontMark front;
  bool is_byte_level = false;
};

// tokenizer_json_steps.cc
Result<Normalizer> read_normalizer(const element& root, TokenizerBuilder& builder);
Result<Cutting> read_pre_tokenizer(const element& root, TokenizerBuilder& builder);
Result<Spelling> read_decoder(const element& root, TokenizerBuilder& builder);

// Fills prefix and suffix; the vocabulary is placed.
Status read_post_processor(const element& root, TokenizerBuilder& builder);

// tokenizer_json_model.cc. Places the vocabulary and the added tokens and fills in the model.
Status read_model(const element& root, const Spelling& spelling, TokenizerBuilder& builder);

}  // namespace cairn::tokenizer_json
