#include "formats/inspect.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "formats/checkpoint.h"
#include "formats/gguf_vocabulary.h"
#include "formats/model_config.h"

namespace cairn {
namespace {

constexpr size_t kShownValueBytes = 200;  // of a metadata string

void add_tensors(std::span<const TensorInfo> tensors, InspectReport* report) {
  for (const TensorInfo& tensor : tensors) {
    const uint64_t n = n_elements(tensor);
    InspectDType& dtype = report->dtypes[std::string(to_string(tensor.dtype))];
    ++dtype.n_tensors;
    dtype.n_elements += n;
    dtype.n_bytes += tensor.n_bytes;
    ++report->n_tensors;
    report->n_elements += n;
    report->n_bytes += tensor.n_bytes;
  }
}

void add_gguf(const GgufFile& file, InspectReport* report) {
  InspectFile entry{file.path(), file.size_bytes(), {}, file.tensors()};
  for (const GgufEntry& item : file.metadata().entries()) {
    entry.metadata[item.key] = describe(item.value, kShownValueBytes);
  }
  report->files.push_back(std::move(entry));
}

void add_tokenizer(const GgufMetadata& metadata, InspectReport* report) {
  const Result<GgufVocabulary> vocabulary = parse_gguf_vocabulary(metadata);
  if (!vocabulary.is_ok()) {
    report->tokenizer_error = vocabulary.status().message();
    return;
  }
  report->tokenizer = InspectTokenizer{vocabulary->model,
                                       vocabulary->pre,
                                       vocabulary->tokens.size(),
                                       vocabulary->merges.size(),
                                       vocabulary->chat_template.size()};
}

void add_configs(const Checkpoint& checkpoint, InspectReport* report) {
  Result<HfConfig> config = load_model_config(checkpoint);
  if (config.is_ok()) {
    report->config = std::move(config).value();
  } else {
    report->config_error = config.status().message();
  }
  Result<GenerationConfig> generation = load_model_generation_config(checkpoint);
  if (generation.is_ok()) {
    report->generation = std::move(generation).value();
  } else {
    report->generation_error = generation.status().message();
  }
}

// Words of MLX's groups count as the weights they hold; scales and biases are none.
uint64_t count_parameters(const InspectReport& report, const Checkpoint& checkpoint) {
  if (!report.config || !report.config->affine) return report.n_elements;
  constexpr std::string_view kWeight = ".weight";
  uint64_t n = 0;
  for (const InspectFile& file : report.files) {
    for (const TensorInfo& tensor : file.tensors) {
      const std::string_view name = tensor.name;
      if (name.ends_with(".scales") || name.ends_with(".biases")) continue;
      const std::string module(name.substr(0, name.size() - std::min(name.size(), kWeight.size())));
      const auto format = report.config->affine->of(module);
      const bool is_packed = name.ends_with(kWeight) && format.has_value() &&
                             tensor.dtype == DType::kU32 && checkpoint.has(module + ".scales");
      n += is_packed ? n_elements(tensor) * 32 / format->bits : n_elements(tensor);
    }
  }
  return n;
}

}  // namespace

Result<InspectReport> inspect_checkpoint(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint,
                         Checkpoint::open(path));
  InspectReport report;
  report.path = path;
  report.checkpoint = checkpoint;
  report.format = "safetensors";
  for (const SafetensorsFile& file : checkpoint->safetensors_files()) {
    report.files.push_back({file.path(), file.size_bytes(), file.metadata(), file.tensors()});
  }
  for (const GgufFile& file : checkpoint->gguf_files()) {
    report.format = fmt::format("GGUF version {}", file.version());
    add_gguf(file, &report);
  }
  for (const InspectFile& file : report.files) add_tensors(file.tensors, &report);
  if (std::filesystem::path(path).extension() != ".safetensors") add_configs(*checkpoint, &report);
  if (checkpoint->gguf_metadata() != nullptr) add_tokenizer(*checkpoint->gguf_metadata(), &report);
  report.n_parameters = count_parameters(report, *checkpoint);
  return report;
}

}  // namespace cairn
