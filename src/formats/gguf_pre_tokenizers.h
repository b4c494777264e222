// How byte-level vocabularies in GGUF files cut text: the files name a pre-tokenizer and leave its
// regular expressions to the reader.
//
// The expressions are those of the models' own tokenizer.json files; which name means which is
// llama.cpp's (llama-vocab.cpp). Thread: any.
#pragma once

#include <span>
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

}  // namespace cairn
