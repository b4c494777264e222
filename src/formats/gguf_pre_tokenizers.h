// How byte-level vocabularies in GGUF files cut text: the files name a pre-tokenizer and leave its
// regular expressions to the reader.
//
// The expressions are those of the models' own tokenizer.json files; which name means which is
// llama.cpp's (llama-vocab.cpp). Thread: any.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn {

struct GgufPreTokenizer {
  std::span<const std::string_view> splits;  // each isolates its matches, one after another
  bool ignore_merges = false;                // a piece that is a token is taken whole
  bool adds_bos = false;                     // unless the file says otherwise
  bool composes = false;                     // NFC first, as the model's own tokenizer does
};

// `name` is tokenizer.ggml.pre; empty means "default".
// Errors: kUnsupported for unknown names; the message lists the known ones.
Result<GgufPreTokenizer> find_gguf_pre_tokenizer(std::string_view name);

// GPT-2's expression, which byte-level tokenizers use where they name none.
std::string_view gpt2_split();

// The name for text cut by these expressions, the common one first; nullopt when none is.
//   ignore_merges  nullopt: the tokenizer does not say, and any name will do
std::optional<std::string_view> find_gguf_pre_tokenizer_name(std::span<const std::string> splits,
                                                             std::optional<bool> ignore_merges,
                                                             bool composes);

}  // namespace cairn
