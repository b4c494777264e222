// What convert.cc is made of. Private to formats.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/convert.h"
#include "formats/hf_config.h"
#include "formats/tensor_info.h"

namespace cairn {

// One tensor to be written.
struct PlannedTensor {
  TensorInfo info;                  // name, dtype and shape of the result
  std::string source;               // name in the checkpoint; empty: `values` are the tensor
  std::vector<uint32_t> row_order;  // result row i is source row row_order[i]; empty: as they lie
  std::vector<float> values;
};

// `config`: load_model_config of the checkpoint.
Result<std::vector<PlannedTensor>> plan_gguf(const Checkpoint& from,
                                             const HfConfig& config,
                                             const ConvertOptions& options,
                                             ConvertSummary* summary);
Result<std::vector<PlannedTensor>> plan_safetensors(const Checkpoint& from,
                                                    const HfConfig& config,
                                                    const ConvertOptions& options,
                                                    ConvertSummary* summary);

// A config.json that parse_hf_config reads as `config`. Errors: kUnsupported for rope divisors that
// no llama3 setting gives.
Result<std::string> hf_config_json(const HfConfig& config, DType dtype);

// The llama3 setting whose divisors these are, for rotary pairs of base `theta`; nullopt when none
// is (low 1 and high 4, as in every published model, are taken for granted).
std::optional<RopeConfig> llama3_of_divisors(std::span<const double> divisors, double theta);

}  // namespace cairn
