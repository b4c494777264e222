// Qwen3: each head of q and k is normed before it turns; biases only if attention_bias says so.
#include "model/families.h"

namespace cairn {

Result<ModelSpec> qwen3_spec(const HfConfig& config) {
  CAIRN_ASSIGN_OR_RETURN(ModelSpec spec, dense_spec(config, "qwen3"));
  CAIRN_RETURN_IF_ERROR(set_windows(config, &spec));
  for (LayerSpec& layer : spec.layers) {
    layer.attention.qk_norm = true;
    layer.attention.qkv_bias = config.attention_bias;
    layer.attention.out_bias = config.attention_bias;
  }
  return spec;
}

}  // namespace cairn
