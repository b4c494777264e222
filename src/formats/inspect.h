// What a checkpoint is, as plain values for `cairn inspect` to print. Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/hf_config.h"
#include "formats/safetensors.h"

namespace cairn {

struct InspectFile {
  std::string path;
  uint64_t size_bytes = 0;
  std::map<std::string, std::string> metadata;  // of the safetensors header
  std::vector<TensorInfo> tensors;              // in the order of their bytes
};

struct InspectDType {
  uint64_t n_tensors = 0;
  uint64_t n_elements = 0;
  uint64_t n_bytes = 0;
};

struct InspectReport {
  std::string path;
  std::vector<InspectFile> files;
  std::map<std::string, InspectDType> dtypes;  // key: "bf16", "f32", ...
  uint64_t n_tensors = 0;
  uint64_t n_elements = 0;  // of all tensors: the parameter count where nothing is quantised
  uint64_t n_bytes = 0;

  // Empty for a lone safetensors file, or when config.json is missing or refused.
  std::optional<HfConfig> config;
  std::string config_error;  // why there is none; empty for a lone file
  GenerationConfig generation;
  std::string generation_error;
};

// Reads headers and configurations, no weights. A configuration that Cairn refuses is reported in
// the report, so that people can look at models that this version cannot run.
//   path  a model folder, or one safetensors file
// Errors: those of Checkpoint::open.
Result<InspectReport> inspect_checkpoint(const std::string& path);

}  // namespace cairn
