#include "formats/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/coding.h"
#include "base/file_system.h"
#include "formats/convert_parts.h"
#include "formats/gguf.h"
#include "formats/gguf_from_hf.h"
#include "formats/gguf_types.h"
#include "formats/hf_from_gguf.h"
#include "formats/model_config.h"
#include "formats/quantize.h"
#include "formats/safetensors.h"
#include "formats/weight_rows.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCompanions[] = {"tokenizer.json",
                                            "tokenizer_config.json",
                                            "tokenizer.model",
                                            "special_tokens_map.json",
                                            "chat_template.jinja",
                                            "generation_config.json"};

std::vector<TensorInfo> infos_of(const std::vector<PlannedTensor>& plan) {
  std::vector<TensorInfo> infos;
  for (const PlannedTensor& tensor : plan) infos.push_back(tensor.info);
  return infos;
}

template <typename Writer>
Status write_rows(const WeightRows& rows, const PlannedTensor& tensor, Writer* writer) {
  const BlockShape block = block_shape(tensor.info.dtype);
  std::vector<float> values(rows.n_in());
  std::vector<std::byte> bytes(rows.n_in() / block.n_elements * block.n_bytes);
  for (size_t i = 0; i < rows.n_rows(); ++i) {
    const size_t row = tensor.row_order.empty() ? i : tensor.row_order[i];
    if (rows.has_raw(tensor.info.dtype)) {
      CAIRN_RETURN_IF_ERROR(writer->write(rows.raw(row)));
      continue;
    }
    rows.read(row, values);
    quantize_row(tensor.info.dtype, values, bytes.data());
    CAIRN_RETURN_IF_ERROR(writer->write(bytes));
  }
  return Status::ok();
}

// One-dimensional tensors have elements where matrices have rows.
template <typename Writer>
Status write_vector(const WeightRows& rows, const PlannedTensor& tensor, Writer* writer) {
  std::vector<float> values(rows.n_in());
  rows.read(0, values);
  std::vector<float> ordered = values;
  for (size_t i = 0; i < tensor.row_order.size(); ++i) ordered[i] = values[tensor.row_order[i]];
  std::vector<std::byte> bytes(ordered.size() * dtype_bytes(tensor.info.dtype));
  quantize_row(tensor.info.dtype, ordered, bytes.data());
  return writer->write(bytes);
}

template <typename Writer>
Status write_tensors(const Checkpoint& from,
                     const AffineQuantization* affine,
                     const std::vector<PlannedTensor>& plan,
                     const ConvertOptions& options,
                     ConvertSummary* summary,
                     Writer* writer) {
  for (size_t i = 0; i < plan.size(); ++i) {
    const PlannedTensor& tensor = plan[i];
    if (options.progress) {
      options.progress(static_cast<double>(i) / static_cast<double>(plan.size()), tensor.info.name);
    }
    if (tensor.source.empty()) {
      CAIRN_RETURN_IF_ERROR(writer->write(std::as_bytes(std::span(tensor.values))));
    } else {
      CAIRN_ASSIGN_OR_RETURN(const WeightRows rows, WeightRows::open(from, tensor.source, affine));
      CAIRN_RETURN_IF_ERROR(tensor.info.shape.size() == 1 ? write_vector(rows, tensor, writer)
                                                          : write_rows(rows, tensor, writer));
    }
    ++summary->n_tensors[std::string(to_string(tensor.info.dtype))];
    summary->n_bytes += tensor_bytes(tensor.info.dtype, tensor.info.shape).value();
  }
  return writer->finish();
}

Status check_dtype(DType dtype, WeightFormat format) {
  const bool plain = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
  if (plain || (format == WeightFormat::kGguf && can_quantize(dtype))) return Status::ok();
  return Status::unsupported(fmt::format(
      "element type {}; {} are written to this format",
      to_string(dtype),
      format == WeightFormat::kGguf ? "f32, f16, bf16 and block types" : "f32, f16 and bf16"));
}

// Keys about the file rather than the model, which are written anew.
bool is_about_the_file(std::string_view key) {
  return key == "general.alignment" || key == "general.file_type" ||
         key == "general.quantization_version" || key.starts_with("split.");
}

Status add_metadata(const Checkpoint& from,
                    const HfConfig& config,
                    ConvertSummary* summary,
                    GgufMetadataBuilder* metadata) {
  if (from.gguf_metadata() != nullptr) {
    for (const GgufEntry& entry : from.gguf_metadata()->entries()) {
      if (!is_about_the_file(entry.key)) metadata->add(entry);
    }
    return Status::ok();
  }
  CAIRN_RETURN_IF_ERROR(add_gguf_config(config, metadata));
  const fs::path folder = fs::weakly_canonical(from.folder());
  metadata->add_string("general.name", folder.filename().string());
  CAIRN_RETURN_IF_ERROR(add_gguf_sampling(from.folder(), metadata));
  GgufMetadataBuilder tokenizer;
  const Status status = add_gguf_tokenizer(from.folder(), config, &tokenizer);
  if (status.is_ok()) {
    metadata->append(tokenizer);
    return Status::ok();
  }
  if (status.code() != StatusCode::kNotFound && status.code() != StatusCode::kUnsupported) {
    return status;
  }
  summary->notes.push_back("the tokenizer is left out: " + status.message());
  return Status::ok();
}

Status write_config(const HfConfig& config, const fs::path& folder, DType dtype) {
  HfConfig plain = config;
  plain.quantization.clear();
  plain.affine.reset();
  CAIRN_ASSIGN_OR_RETURN(const std::string json, hf_config_json(plain, dtype));
  return write_file_atomically(
      posix_file_system(), (folder / "config.json").string(), as_bytes(json));
}

Status copy_companions(const fs::path& from, const fs::path& to) {
  for (const std::string_view name : kCompanions) {
    std::error_code error;
    if (!fs::is_regular_file(from / name, error)) continue;
    fs::copy_file(from / name, to / name, fs::copy_options::overwrite_existing, error);
    if (error) return Status::io(fmt::format("{}: {}", (to / name).string(), error.message()));
  }
  return Status::ok();
}

}  // namespace

Result<ConvertSummary> convert_to_gguf(const Checkpoint& from,
                                       const std::string& path,
                                       const ConvertOptions& options) {
  CAIRN_RETURN_IF_ERROR(check_dtype(options.dtype, WeightFormat::kGguf));
  CAIRN_ASSIGN_OR_RETURN(const HfConfig config, load_model_config(from));
  ConvertSummary summary;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<PlannedTensor> plan,
                         plan_gguf(from, config, options, &summary));
  GgufMetadataBuilder metadata;
  CAIRN_RETURN_IF_ERROR(add_metadata(from, config, &summary, &metadata));
  metadata.add_u32("general.file_type", ggml_file_type(options.dtype));
  metadata.add_u32("general.quantization_version", 2);
  CAIRN_ASSIGN_OR_RETURN(GgufWriter writer, GgufWriter::create(path, infos_of(plan), metadata));
  CAIRN_RETURN_IF_ERROR(write_tensors(
      from, config.affine ? &*config.affine : nullptr, plan, options, &summary, &writer));
  return summary;
}

Result<ConvertSummary> convert_to_safetensors(const Checkpoint& from,
                                              const std::string& folder,
                                              const ConvertOptions& options) {
  CAIRN_RETURN_IF_ERROR(check_dtype(options.dtype, WeightFormat::kSafetensors));
  std::error_code ignored;
  if (fs::equivalent(from.folder().empty() ? "." : from.folder(), folder, ignored)) {
    return Status::invalid_argument(
        fmt::format("{} is the folder of the model itself; name another", folder));
  }
  CAIRN_ASSIGN_OR_RETURN(const HfConfig config, load_model_config(from));
  ConvertSummary summary;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<PlannedTensor> plan,
                         plan_safetensors(from, config, options, &summary));
  CAIRN_RETURN_IF_ERROR(posix_file_system().make_directories(folder, 0755));
  CAIRN_RETURN_IF_ERROR(write_config(config, folder, options.dtype));
  if (from.format() == WeightFormat::kSafetensors) {
    CAIRN_RETURN_IF_ERROR(copy_companions(from.folder(), folder));
  } else {
    CAIRN_RETURN_IF_ERROR(write_text_files(*from.gguf_metadata(), folder, &summary));
  }
  CAIRN_ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::create(
          (fs::path(folder) / "model.safetensors").string(), infos_of(plan), {{"format", "pt"}}));
  CAIRN_RETURN_IF_ERROR(write_tensors(
      from, config.affine ? &*config.affine : nullptr, plan, options, &summary, &writer));
  return summary;
}

}  // namespace cairn
