// Llama: optional biases on q, k, v and the output product alike, and on the feed-forward.
#include <fmt/format.h>

#include "model/families.h"

namespace cairn {

Result<ModelSpec> llama_spec(const HfConfig& config) {
  // The reference never lets a Llama slide; a config that asks for it describes another model.
  for (const std::string& kind : config.layer_types) {
    if (kind == kFullAttention) continue;
    return Status::unsupported(fmt::format(
        "layer_types of a llama model has {:?}; every layer must be {}", kind, kFullAttention));
  }
  CAIRN_ASSIGN_OR_RETURN(ModelSpec spec, dense_spec(config, "llama"));
  for (LayerSpec& layer : spec.layers) {
    layer.attention.qkv_bias = config.attention_bias;
    layer.attention.out_bias = config.attention_bias;
    layer.ffn.bias = config.mlp_bias;
  }
  return spec;
}

}  // namespace cairn
