#include "formats/inspect.h"

#include <filesystem>
#include <utility>

#include "formats/checkpoint.h"

namespace cairn {
namespace {

void add_file(const SafetensorsFile& file, InspectReport* report) {
  for (const TensorInfo& tensor : file.tensors()) {
    const uint64_t n_elements = cairn::n_elements(tensor);
    InspectDType& dtype = report->dtypes[std::string(to_string(tensor.dtype))];
    ++dtype.n_tensors;
    dtype.n_elements += n_elements;
    dtype.n_bytes += tensor.n_bytes;
    ++report->n_tensors;
    report->n_elements += n_elements;
    report->n_bytes += tensor.n_bytes;
  }
  report->files.push_back({file.path(), file.size_bytes(), file.metadata(), file.tensors()});
}

void add_configs(const std::string& folder, InspectReport* report) {
  Result<HfConfig> config = load_hf_config(folder);
  if (config.is_ok()) {
    report->config = std::move(config).value();
  } else {
    report->config_error = config.status().message();
  }
  Result<GenerationConfig> generation = load_generation_config(folder);
  if (generation.is_ok()) {
    report->generation = std::move(generation).value();
  } else {
    report->generation_error = generation.status().message();
  }
}

}  // namespace

Result<InspectReport> inspect_checkpoint(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint,
                         Checkpoint::open(path));
  InspectReport report;
  report.path = path;
  for (const SafetensorsFile& file : checkpoint->safetensors_files()) add_file(file, &report);
  if (std::filesystem::path(path).extension() != ".safetensors") add_configs(path, &report);
  return report;
}

}  // namespace cairn
