// The parts of a tokenizer.json reader. Nothing in the file is trusted: ids and sizes are bounded
// by the file's own size, and every kind that Cairn does not implement is named in the error.
// Format: docs of Hugging Face tokenizers 0.20, file version "1.0"; docs/formats/tokenizers.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_view.h"
#include "base/result.h"
#include "text/tokenizer_builder.h"

namespace cairn::tokenizer_json {

using Members = JsonMembers;

// `Owner` is a JsonView or Members. The member, or nothing when it is missing or null.
template <typename Owner>
std::optional<JsonView> member(const Owner& owner, std::string_view key) {
  auto value = owner.find(key);
  if (value && value->is_null()) value.reset();
  return value;
}

// `value` is the member called `key`, or nothing. Errors: kCorruption when it is missing (but for a
// bool with a default) or of another type, kUnsupported for a text of more than 8 MiB.
Result<std::string> to_text(const std::optional<JsonView>& value, std::string_view key);
Result<bool> to_bool(const std::optional<JsonView>& value, std::string_view key, bool when_missing);
Result<JsonView> to_array(const std::optional<JsonView>& value, std::string_view key);

template <typename Owner>
Result<std::string> text_member(const Owner& owner, std::string_view key) {
  return to_text(member(owner, key), key);
}

template <typename Owner>
Result<bool> bool_member(const Owner& owner, std::string_view key, bool when_missing) {
  return to_bool(member(owner, key), key, when_missing);
}

template <typename Owner>
Result<JsonView> array_member(const Owner& owner, std::string_view key) {
  return to_array(member(owner, key), key);
}

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
Result<Normalizer> read_normalizer(const Members& root, TokenizerBuilder& builder);
Result<Cutting> read_pre_tokenizer(const Members& root, TokenizerBuilder& builder);
Result<Spelling> read_decoder(const Members& root, TokenizerBuilder& builder);

// Fills prefix and suffix; the vocabulary is placed.
Status read_post_processor(const Members& root, TokenizerBuilder& builder);

// tokenizer_json_model.cc. Places the vocabulary and the added tokens and fills in the model.
Status read_model(const Members& root, const Spelling& spelling, TokenizerBuilder& builder);

}  // namespace cairn::tokenizer_json
