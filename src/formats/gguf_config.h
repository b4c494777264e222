// What a GGUF file's metadata says about the model: the same HfConfig that a config.json gives.
//
// Keys are "<architecture>.<setting>"; their meaning is llama.cpp's, which decides where files are
// silent. Thread: any; no state. Source: ggml/docs/gguf.md; gguf-py constants.py; llama.cpp
// llama-model.cpp (load_hparams) and llama-vocab.cpp (end-of-generation tokens).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

// The tokenizer that a file holds, as plain values; the text layer builds it (its GgufVocabulary
// has the same fields). Field names follow the keys tokenizer.ggml.*.
struct GgufTokenizerFields {
  enum : int32_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
  };

  std::string model;                     // "gpt2" (byte-level BPE), "llama" (SPM with scores), ...
  std::string pre;                       // pre-tokenizer of gpt2 models: "llama-bpe", "qwen2", ...
  std::vector<std::string_view> tokens;  // [vocab_size], views of the file
  std::vector<float> scores;             // [vocab_size] or empty
  std::vector<int32_t> token_types;      // [vocab_size] or empty: all normal
  std::vector<std::string_view> merges;  // "left right", best first, views of the file
  std::optional<uint32_t> bos_token_id;
  std::optional<uint32_t> eos_token_id;
  std::optional<uint32_t> unknown_token_id;
  std::optional<uint32_t> padding_token_id;
  // Missing: what llama.cpp does for the model and pre-tokenizer.
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::optional<bool> add_space_prefix;
  std::string chat_template;  // Jinja; empty when the file has none
};

// The metadata's file must outlive the result. Errors: kNotFound for a file without a tokenizer;
// kInvalidArgument for arrays of different lengths, token ids outside the vocabulary, unknown token
// types.
Result<GgufTokenizerFields> parse_gguf_tokenizer(const GgufMetadata& metadata);

}  // namespace cairn
