// The parts of parse_hf_config, one file each. Private to formats.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "formats/config_fields.h"
#include "formats/hf_config.h"

namespace cairn {

inline constexpr uint64_t kMaxConfigBytes = 2 << 20;

// Fills rope and sliding_rope. Requires model_type, max_position_embeddings.
Status parse_rope(const ConfigFields& fields, HfConfig* config);
// Fills layer_types and the sliding window. Requires model_type, num_hidden_layers.
Status parse_layer_types(const ConfigFields& fields, HfConfig* config);

// Fills affine where "quantization" or "quantization_config" is MLX's. Other kinds of quantisation
// are left to make_model_spec to refuse; an affine setting that Cairn cannot read is an error here.
Status parse_affine(const ConfigFields& fields, HfConfig* config);

}  // namespace cairn
