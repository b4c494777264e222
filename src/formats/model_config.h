// A model's configuration from wherever its files keep it: config.json, or a GGUF file's metadata.
#pragma once

#include "base/result.h"
#include "formats/checkpoint.h"
#include "formats/gguf_config.h"
#include "formats/hf_config.h"

namespace cairn {

// Errors: those of load_hf_config or parse_gguf_config, with the path in front.
Result<HfConfig> load_model_config(const Checkpoint& checkpoint);
// Errors: those of load_generation_config or parse_gguf_generation_config.
Result<GenerationConfig> load_model_generation_config(const Checkpoint& checkpoint);

}  // namespace cairn
