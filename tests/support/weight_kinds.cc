#include "support/weight_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>

#include "base/check.h"
#include "base/file_system.h"
#include "base/json.h"
#include "formats/convert.h"
#include "formats/hf_config.h"
#include "formats/safetensors.h"
#include "tensor/dtype.h"
#include "tensor/quant.h"

namespace cairn::testing {
namespace {

// As `cairn convert` and llama.cpp mix types, so that one product has several.
constexpr std::string_view kMixed = "q4_k_mix";

constexpr int64_t kLayers = 2;
constexpr int64_t kFfn = 512;

struct OwnedTensor {
  TensorInfo info;
  std::vector<std::byte> bytes;
};

std::vector<DType> dtypes() {
  std::vector<DType> all = {DType::kF32, DType::kF16, DType::kBf16};
  all.insert(all.end(), std::begin(kBlockTypes), std::end(kBlockTypes));
  return all;
}

DType dtype_named(const std::string& name) {
  for (const DType dtype : dtypes()) {
    if (to_string(dtype) == name) return dtype;
  }
  CAIRN_CHECK(false, name);
  return DType::kF32;
}

std::vector<AffineFormat> affine_formats() {
  std::vector<AffineFormat> all;
  for (const uint32_t bits : {2U, 3U, 4U, 5U, 6U, 8U}) {
    for (const uint32_t group : {32U, 64U, 128U}) all.push_back({bits, group});
  }
  return all;
}

std::string name_of(const AffineFormat& format) {
  return fmt::format("mlx_{}_g{}", format.bits, format.group_size);
}

// The first rows and columns of a matrix; other tensors whole.
OwnedTensor cut(const TensorView& view, const std::string& name) {
  OwnedTensor out;
  out.info.name = name;
  out.info.dtype = view.dtype;
  out.info.shape = view.shape;
  if (view.shape.size() != 2) {
    out.bytes.assign(view.bytes.begin(), view.bytes.end());
    return out;
  }
  const bool is_embedding = name.find("embed_tokens") != std::string::npos;
  out.info.shape[0] = std::min<int64_t>(view.shape[0], is_embedding ? kSmallDemoVocab : kFfn);
  out.info.shape[1] = std::min(view.shape[1], kFfn);
  const size_t item = dtype_bytes(view.dtype);
  const size_t row_bytes = static_cast<size_t>(view.shape[1]) * item;
  const size_t kept_bytes = static_cast<size_t>(out.info.shape[1]) * item;
  for (size_t row = 0; row < static_cast<size_t>(out.info.shape[0]); ++row) {
    const auto kept = view.bytes.subspan(row * row_bytes, kept_bytes);
    out.bytes.insert(out.bytes.end(), kept.begin(), kept.end());
  }
  return out;
}

bool is_kept(const std::string& name) {
  const std::string at = "model.layers.";
  return !name.starts_with(at) || std::stoll(name.substr(at.size())) < kLayers;
}

void write_tensors(const std::string& path, const std::vector<OwnedTensor>& tensors) {
  std::vector<TensorInfo> infos;
  for (const OwnedTensor& tensor : tensors) infos.push_back(tensor.info);
  SafetensorsWriter writer = SafetensorsWriter::create(path, infos).value();
  for (const OwnedTensor& tensor : tensors) CAIRN_CHECK(writer.write(tensor.bytes).is_ok());
  CAIRN_CHECK(writer.finish().is_ok());
}

void put_float(DType dtype, float value, std::byte* out) {
  if (dtype == DType::kF32) {
    std::memcpy(out, &value, sizeof(value));
    return;
  }
  const uint16_t half = dtype == DType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
  std::memcpy(out, &half, sizeof(half));
}

// What one matrix becomes.
struct AffineMatrix {
  OwnedTensor words, scales, biases;
};

// w = scale * code + bias, with the least value as bias, both rounded before codes are chosen.
AffineMatrix quantize_affine(const OwnedTensor& from, const AffineFormat& format, DType scales) {
  const auto n_out = static_cast<size_t>(from.info.shape[0]);
  const auto n_in = static_cast<size_t>(from.info.shape[1]);
  const size_t group = format.group_size;
  const std::string module = from.info.name.substr(0, from.info.name.rfind('.'));
  AffineMatrix to;
  const auto make = [&](const char* suffix, DType dtype, size_t n_columns) {
    OwnedTensor tensor;
    tensor.info.name = module + suffix;
    tensor.info.dtype = dtype;
    tensor.info.shape = {from.info.shape[0], static_cast<int64_t>(n_columns)};
    tensor.bytes.resize(n_out * n_columns * dtype_bytes(dtype));
    return tensor;
  };
  to.words = make(".weight", DType::kU32, n_in * format.bits / 32);
  to.scales = make(".scales", scales, n_in / group);
  to.biases = make(".biases", scales, n_in / group);
  const float top = static_cast<float>((1U << format.bits) - 1);
  std::vector<float> values(n_out * n_in);
  dequantize_row(from.info.dtype, from.bytes.data(), values.size(), values.data());
  for (size_t g = 0; g < values.size() / group; ++g) {
    const auto part = std::span(values).subspan(g * group, group);
    const auto [low, high] = std::minmax_element(part.begin(), part.end());
    std::byte* const scale_at = to.scales.bytes.data() + g * dtype_bytes(scales);
    std::byte* const bias_at = to.biases.bytes.data() + g * dtype_bytes(scales);
    put_float(scales, (*high - *low) / top, scale_at);
    put_float(scales, *low, bias_at);
    const float scale = float_element(scales, scale_at, 0);
    const float bias = float_element(scales, bias_at, 0);
    for (size_t i = 0; i < group; ++i) {
      const float steps = scale == 0 ? 0 : std::round((part[i] - bias) / scale);
      const auto code = static_cast<uint32_t>(std::clamp(steps, 0.0F, top));
      for (uint32_t bit = 0; bit < format.bits; ++bit) {
        const size_t at = (g * group + i) * format.bits + bit;
        to.words.bytes[at / 8] |= std::byte(((code >> bit) & 1U) << (at % 8));
      }
    }
  }
  return to;
}

std::vector<OwnedTensor> quantize_all(const std::vector<OwnedTensor>& tensors,
                                      const AffineFormat& format) {
  // Published folders have all three types of scales; here the widths take turns.
  constexpr DType kScales[] = {DType::kBf16, DType::kF16, DType::kF32};
  const DType scales = kScales[(format.bits + format.group_size / 64) % 3];
  std::vector<OwnedTensor> out;
  for (const OwnedTensor& tensor : tensors) {
    if (tensor.info.shape.size() != 2) {
      out.push_back(tensor);
      continue;
    }
    AffineMatrix matrix = quantize_affine(tensor, format, scales);
    out.push_back(std::move(matrix.words));
    out.push_back(std::move(matrix.scales));
    out.push_back(std::move(matrix.biases));
  }
  return out;
}

void write_config(const std::string& demo,
                  const std::optional<AffineFormat>& affine,
                  const std::string& folder) {
  const std::string text =
      read_text_file(posix_file_system(), demo + "/config.json", 1 << 20).value();
  Json config = parse_json(text, "the demo's config").value();
  config["num_hidden_layers"] = kLayers;
  config["intermediate_size"] = kFfn;
  config["vocab_size"] = kSmallDemoVocab;
  config["max_window_layers"] = kLayers;
  config["eos_token_id"] = kSmallDemoVocab - 1;
  if (affine) {
    config["quantization"] = {{"bits", affine->bits}, {"group_size", affine->group_size}};
  }
  std::ofstream(folder + "/config.json", std::ios::binary) << dump_json(config);
}

// The kind's folder with safetensors.
void write_folder(const std::string& demo,
                  const std::optional<AffineFormat>& affine,
                  const std::string& folder) {
  const auto checkpoint = Checkpoint::open(demo).value();
  std::vector<OwnedTensor> tensors;
  for (const std::string& name : checkpoint->names()) {
    if (is_kept(name)) tensors.push_back(cut(checkpoint->find(name).value(), name));
  }
  write_tensors(folder + "/model.safetensors", affine ? quantize_all(tensors, *affine) : tensors);
  write_config(demo, affine, folder);
}

}  // namespace

std::vector<std::string> weight_kinds() {
  std::vector<std::string> names;
  for (const DType dtype : dtypes()) names.emplace_back(to_string(dtype));
  names.emplace_back(kMixed);
  for (const AffineFormat& format : affine_formats()) names.push_back(name_of(format));
  return names;
}

std::string make_small_demo(const std::string& demo,
                            const std::string& kind,
                            const std::string& folder) {
  for (const AffineFormat& format : affine_formats()) {
    if (name_of(format) != kind) continue;
    write_folder(demo, format, folder);
    return folder;
  }
  write_folder(demo, std::nullopt, folder);
  const std::string path = folder + "/" + kind + ".gguf";
  const auto source = Checkpoint::open(folder).value();
  const bool is_mixed = kind == kMixed;
  const DType dtype = is_mixed ? DType::kQ4K : dtype_named(kind);
  const ConvertSummary summary =
      convert_to_gguf(*source, path, {.dtype = dtype, .pure = !is_mixed, .progress = {}}).value();
  // The type, norms, and a second type of matrices in a mix.
  const size_t n_types = dtype == DType::kF32 ? 1 : is_mixed ? 3 : 2;
  CAIRN_CHECK(summary.n_tensors.contains(std::string(to_string(dtype))) &&
                  summary.n_tensors.size() == n_types,
              kind);
  return path;
}

}  // namespace cairn::testing
