// Qwen2: biases on q, k and v without saying so in the config, none on the output product.
#include "model/families.h"

namespace cairn {

Result<ModelSpec> qwen2_spec(const HfConfig& config) {
  CAIRN_ASSIGN_OR_RETURN(ModelSpec spec, dense_spec(config, "qwen2"));
  CAIRN_RETURN_IF_ERROR(set_windows(config, &spec));
  for (LayerSpec& layer : spec.layers) layer.attention.qkv_bias = true;
  return spec;
}

}  // namespace cairn
