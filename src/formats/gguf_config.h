// What a GGUF file's metadata says about the model: the same HfConfig that a config.json gives.
//
// Keys are "<architecture>.<setting>"; their meaning is llama.cpp's, which decides where files are
// silent. Thread: any; no state. Source: ggml/docs/gguf.md; gguf-py constants.py; llama.cpp
// llama-model.cpp (load_hparams) and llama-vocab.cpp (end-of-generation tokens).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "formats/gguf_metadata.h"
#include "formats/hf_config.h"

namespace cairn {

// What only the tensors of the model tell.
struct GgufTensorFacts {
  int64_t n_vocab_rows = 0;           // of token_embd.weight
  bool has_output = false;            // output.weight; without it the head is tied
  bool has_attention_bias = false;    // blk.0.attn_q.bias
  bool has_ffn_bias = false;          // blk.0.ffn_gate.bias
  std::vector<double> rope_divisors;  // rope_freqs.weight, or empty
};

// Architectures llama (Llama, and Mistral where a sliding window is given), qwen2 and qwen3.
// Errors: kUnsupported for another architecture or rope scaling, kInvalidArgument naming the key.
Result<HfConfig> parse_gguf_config(const GgufMetadata& metadata, const GgufTensorFacts& facts);

// Sampling defaults, and the tokens that end a reply: those that the file names, and control tokens
// whose text is known to end a turn (files name one, models use several).
Result<GenerationConfig> parse_gguf_generation_config(const GgufMetadata& metadata);

}  // namespace cairn
