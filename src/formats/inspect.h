// What a checkpoint is, as plain values for `cairn inspect` to print. Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/checkpoint.h"
#include "formats/hf_config.h"
#include "formats/tensor_info.h"

namespace cairn {

struct InspectFile {
  std::string path;
  uint64_t size_bytes = 0;
  // Of the safetensors header, or GGUF's keys with their values in short.
  std::map<std::string, std::string> metadata;
  std::span<const TensorInfo>
      tensors;  // in the order of their bytes; the report's checkpoint has them
};

struct InspectDType {
  uint64_t n_tensors = 0;
  uint64_t n_elements = 0;
  uint64_t n_bytes = 0;
};

// The tokenizer inside a GGUF file.
struct InspectTokenizer {
  std::string model;
  std::string pre;
  uint64_t n_tokens = 0;
  uint64_t n_merges = 0;
  uint64_t template_bytes = 0;  // of the chat template; 0: none
};

struct InspectReport {
  std::string path;
  std::string format;  // "safetensors", "GGUF version 3"
  std::shared_ptr<const Checkpoint> checkpoint;
  std::vector<InspectFile> files;
  std::map<std::string, InspectDType> dtypes;  // key: "bf16", "f32", ...
  uint64_t n_tensors = 0;
  uint64_t n_elements = 0;    // of all tensors as they are stored
  uint64_t n_parameters = 0;  // the same with MLX's packed words as the weights they stand for
  uint64_t n_bytes = 0;

  // Empty for a lone safetensors file, or when the configuration is missing or refused.
  std::optional<HfConfig> config;
  std::string config_error;  // why there is none; empty for a lone file
  GenerationConfig generation;
  std::string generation_error;
  std::optional<InspectTokenizer> tokenizer;  // GGUF only
  std::string tokenizer_error;
};

// Reads headers and configurations, no weights. A configuration that Cairn refuses is reported in
// the report, so that people can look at models that this version cannot run.
//   path  a model folder, or one safetensors or GGUF file
// Errors: those of Checkpoint::open.
Result<InspectReport> inspect_checkpoint(const std::string& path);

}  // namespace cairn
