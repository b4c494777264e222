// The text files of a Hugging Face folder from what a GGUF file says: the reverse of
// gguf_from_hf.h.
#pragma once

#include <string>

#include "base/result.h"
#include "formats/convert.h"
#include "formats/gguf_vocabulary.h"

namespace cairn {

// A complete tokenizer.json ("version": "1.0") that gives the ids that the vocabulary gives.
// Byte-level vocabularies keep their merges; pieces with scores get the merges that the scores
// imply. Filler tokens ("[PAD7]" with id 7, unused) are left out. One thing the format cannot say:
// the decoder of a byte-level tokenizer.json takes an added token of letters such as U+00FC for
// bytes.
// Errors: kUnsupported for other models, pre-tokenizers without a name, texts that are not UTF-8 or
// given twice, pieces of more than 512 bytes; kInvalidArgument for merges that are none.
Result<std::string> tokenizer_json_of(const GgufVocabulary& vocabulary);

// Writes tokenizer.json, tokenizer_config.json, generation_config.json and, where the file has a
// template, chat_template.jinja into `folder`, which exists. What has no place there becomes a
// note. Errors: kIo, kNoSpace; kInvalidArgument for metadata out of range.
Status write_text_files(const GgufMetadata& metadata,
                        const std::string& folder,
                        ConvertSummary* summary);

}  // namespace cairn
