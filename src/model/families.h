// Adapters from a Hugging Face config to a ModelSpec, one short file a family.
//
// What the families have in common is dense_spec(); an adapter adds only what sets its family
// apart. Source: transformers models/{llama,mistral,qwen2,qwen3}. Thread: any; no state.
#pragma once

#include <string_view>

#include "base/result.h"
#include "formats/hf_config.h"
#include "model/model_spec.h"

namespace cairn {

// The pre-norm decoder with SwiGLU and half-layout rope that every family here starts from: no
// biases, no q/k norm, no windows; scores are scaled by 1 / sqrt(head_dim). Errors: kUnsupported
// for an activation, a rope setting or a second rope that it cannot run.
Result<ModelSpec> dense_spec(const HfConfig& config, std::string_view family);

// Sets the window of the layers that layer_types calls sliding.
// Errors: kUnsupported for a kind of layer that is neither full nor sliding attention.
Status set_windows(const HfConfig& config, ModelSpec* spec);

Result<ModelSpec> llama_spec(const HfConfig& config);
Result<ModelSpec> mistral_spec(const HfConfig& config);
Result<ModelSpec> qwen2_spec(const HfConfig& config);
Result<ModelSpec> qwen3_spec(const HfConfig& config);

}  // namespace cairn
