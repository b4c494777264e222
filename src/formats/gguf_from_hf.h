// The metadata of a GGUF file for a Hugging Face model: the reverse of gguf_config.h. Private to
// formats.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "formats/hf_config.h"

namespace cairn {

// "llama" (also Mistral), "qwen2" or "qwen3". Errors: kUnsupported for other families.
Result<std::string> gguf_architecture(const HfConfig& config);

// general.architecture and everything that parse_gguf_config reads. Errors: as above.
Status add_gguf_config(const HfConfig& config, GgufMetadataBuilder* metadata);

// rope_freqs.weight, [rotary pairs]: empty unless the scaling is llama3's, which GGUF keeps there.
std::vector<float> gguf_rope_divisors(const HfConfig& config);

// The tokenizer of `folder` (tokenizer.json, chat template, special tokens) as the tokenizer keys,
// filled up to config.vocab_size. Byte-level BPE with a known split only. Errors: kUnsupported for
// other tokenizers, kNotFound without a tokenizer.json, kInvalidArgument for a broken one.
Status add_gguf_tokenizer(const std::string& folder,
                          const HfConfig& config,
                          GgufMetadataBuilder* metadata);

// The sampling that generation_config.json recommends, as general.sampling.*. Errors: those of
// load_generation_config.
Status add_gguf_sampling(const std::string& folder, GgufMetadataBuilder* metadata);

}  // namespace cairn
