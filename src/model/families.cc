#include "model/families.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "model/rope.h"

namespace cairn {

Result<ModelSpec> dense_spec(const HfConfig& config, std::string_view family) {
  if (config.hidden_act != "silu" && config.hidden_act != "swish") {
    return Status::unsupported(fmt::format(
        "hidden_act {:?} of a {} model; this version supports silu", config.hidden_act, family));
  }
  if (config.sliding_rope) {
    return Status::unsupported(
        fmt::format("a {} model with rope settings of its own for sliding layers; this version "
                    "supports one setting for all layers",
                    family));
  }
  if (config.head_dim > static_cast<int64_t>(kMaxHeadDim)) {
    return Status::unsupported(fmt::format("head_dim {} of a {} model; attention supports up to {}",
                                           config.head_dim,
                                           family,
                                           kMaxHeadDim));
  }
  ModelSpec spec;
  spec.family = std::string(family);
  spec.vocab_size = static_cast<uint32_t>(config.vocab_size);
  spec.hidden_dim = static_cast<uint32_t>(config.hidden_size);
  spec.max_positions = static_cast<uint32_t>(config.max_position_embeddings);
  spec.norm_eps = config.rms_norm_eps;
  spec.tied_head = config.tie_word_embeddings;
  LayerSpec layer;
  layer.attention.n_heads = static_cast<uint32_t>(config.num_attention_heads);
  layer.attention.n_kv_heads = static_cast<uint32_t>(config.num_key_value_heads);
  layer.attention.head_dim = static_cast<uint32_t>(config.head_dim);
  layer.attention.scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  layer.ffn.ffn_dim = static_cast<uint32_t>(config.intermediate_size);
  spec.layers.assign(static_cast<size_t>(config.num_hidden_layers), layer);
  CAIRN_ASSIGN_OR_RETURN(spec.rope, make_rope_spec(config.rope, layer.attention.head_dim));
  return spec;
}

Status set_windows(const HfConfig& config, ModelSpec* spec) {
  CAIRN_CHECK(config.layer_types.size() == spec->layers.size());
  for (size_t i = 0; i < spec->layers.size(); ++i) {
    const std::string& kind = config.layer_types[i];
    if (kind == kFullAttention) continue;
    if (kind != kSlidingAttention) {
      return Status::unsupported(
          fmt::format("layer {} of a {} model is {:?}; this version supports {} and {}",
                      i,
                      spec->family,
                      kind,
                      kFullAttention,
                      kSlidingAttention));
    }
    CAIRN_CHECK(config.sliding_window.has_value());
    spec->layers[i].attention.window = static_cast<uint32_t>(*config.sliding_window);
  }
  return Status::ok();
}

}  // namespace cairn
