// A model as data: what its layers are, not how they run. Adapters (one short file a family) turn a
// Hugging Face config into this; the decoder runs any of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "cache/geometry.h"
#include "cache/token.h"
#include "formats/hf_config.h"
#include "kernels/backend.h"

namespace cairn {

// Rotary positions: angle(pos, i) = pos * inv_freq[i] in double, rounded once after the
// multiplication by attention_factor. Pairs are (i, i + rope_dim / 2). Scaling (linear, llama3,
// yarn) is folded in.
struct RopeSpec {
  std::vector<double> inv_freq;  // [rope_dim / 2]
  double attention_factor = 1.0;
};

struct AttentionSpec {
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;  // even; n_heads * head_dim need not be hidden_dim
  bool qkv_bias = false;
  bool out_bias = false;
  bool qk_norm = false;  // RMS norm of each head of q and k before the turn
  uint32_t window = 0;   // last positions a row sees, its own included; 0 = all
  double scale = 0;      // of the scores
};

struct FfnSpec {
  uint32_t ffn_dim = 0;
  Activation activation = Activation::kSilu;
  bool bias = false;
};

struct LayerSpec {
  AttentionSpec attention;
  FfnSpec ffn;
};

struct ModelSpec {
  std::string family;  // "llama", "mistral", "qwen2", "qwen3"
  uint32_t vocab_size = 0;
  uint32_t hidden_dim = 0;
  uint32_t max_positions = 0;  // what the config says; does not change numbers
  double norm_eps = 0;
  bool tied_head = false;
  RopeSpec rope;
  std::vector<LayerSpec> layers;

  // One full group over all layers for the families of today.
  CacheGeometry cache_geometry(RowEncoding encoding) const;
  // SHA-256 over the fields that change numbers.
  Digest digest() const;
  uint64_t n_matmul_parameters() const;  // without embedding and head; for benchmarks
};

// Errors: kUnsupported for an unknown architecture, quantisation or rope type, naming what is
// supported.
Result<ModelSpec> make_model_spec(const HfConfig& config);

}  // namespace cairn
