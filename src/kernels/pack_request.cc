#include "kernels/pack_request.h"

#include <fmt/format.h>

#include "kernels/dispatch.h"

namespace cairn {

namespace {

constexpr size_t kMaxBytes = size_t{1} << 46;  // what a process can address, and then some

bool is_float_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16;
}

// The bytes must be exactly those of the shape; blocks lie along the innermost axis.
Status check_size(const TensorView& tensor, size_t rank, const char* what) {
  if (tensor.shape.size() != rank) {
    return Status::invalid_argument(fmt::format(
        "{}: shape {} where {} dimensions are needed", what, tensor.shape_text(), rank));
  }
  const BlockShape block = block_shape(tensor.dtype);
  size_t n = 1;
  for (const int64_t dim : tensor.shape) {
    if (dim <= 0 || static_cast<size_t>(dim) > kMaxBytes / block.n_bytes / n) {
      return Status::invalid_argument(
          fmt::format("{}: shape {} is empty or too large", what, tensor.shape_text()));
    }
    n *= static_cast<size_t>(dim);
  }
  if (static_cast<size_t>(tensor.shape.back()) % block.n_elements != 0) {
    return Status::invalid_argument(fmt::format("{}: rows of {} are no multiple of {}'s {}",
                                                what,
                                                tensor.shape.back(),
                                                to_string(tensor.dtype),
                                                block.n_elements));
  }
  const size_t n_bytes = n / block.n_elements * block.n_bytes;
  if (tensor.bytes.size() != n_bytes) {
    return Status::invalid_argument(fmt::format("{}: {} bytes, but shape {} of {} needs {}",
                                                what,
                                                tensor.bytes.size(),
                                                tensor.shape_text(),
                                                to_string(tensor.dtype),
                                                n_bytes));
  }
  return Status::ok();
}

Status check_floats(const TensorView& tensor, size_t rank, const char* what) {
  if (!is_float_type(tensor.dtype)) {
    return Status::unsupported(
        fmt::format("{}: dtype {}; f32, bf16 and f16 can be used", what, to_string(tensor.dtype)));
  }
  return check_size(tensor, rank, what);
}

Status check_affine(const TensorView& values, const AffineGroups& affine) {
  const uint32_t bits = affine.bits;
  const uint32_t group = affine.group_size;
  if (!((bits >= 2 && bits <= 6) || bits == 8) || (group != 32 && group != 64 && group != 128)) {
    return Status::unsupported(fmt::format(
        "weight: affine groups of {} values of {} bits; groups of 32, 64 or 128 values of 2, 3, 4, "
        "5, 6 or 8 bits can be packed",
        group,
        bits));
  }
  if (values.dtype != DType::kU32) {
    return Status::unsupported(
        fmt::format("weight: affine codes in {}; want u32 words", to_string(values.dtype)));
  }
  CAIRN_RETURN_IF_ERROR(check_size(values, 2, "weight"));
  CAIRN_RETURN_IF_ERROR(check_floats(affine.scales, 2, "scales"));
  CAIRN_RETURN_IF_ERROR(check_floats(affine.biases, 2, "affine biases"));
  // Both products are far from overflow: the tensors are in memory.
  const size_t n_in = static_cast<size_t>(affine.scales.shape[1]) * group;
  const bool fits = affine.scales.shape == affine.biases.shape &&
                    affine.scales.dtype == affine.biases.dtype &&
                    affine.scales.shape[0] == values.shape[0] &&
                    static_cast<size_t>(values.shape[1]) * 32 == n_in * bits;
  if (fits) return Status::ok();
  return Status::invalid_argument(fmt::format(
      "weight: words {}, scales {} {} and biases {} {} do not fit {} bits in groups of {}",
      values.shape_text(),
      affine.scales.shape_text(),
      to_string(affine.scales.dtype),
      affine.biases.shape_text(),
      to_string(affine.biases.dtype),
      bits,
      group));
}

Status check_values(const WeightPart& part) {
  const TensorView& values = part.values;
  if (part.affine.has_value()) return check_affine(values, *part.affine);
  if (!is_float_type(values.dtype) && !is_block_type(values.dtype)) {
    return Status::unsupported(fmt::format(
        "weight: dtype {}; f32, bf16, f16, GGUF's block types and affine groups can be packed",
        to_string(values.dtype)));
  }
  return check_size(values, 2, "weight");
}

Status check_row_order(const WeightPart& part) {
  const size_t n_out = static_cast<size_t>(part.values.shape[0]);
  if (!part.row_order.empty() && part.row_order.size() != n_out) {
    return Status::invalid_argument(fmt::format("weight: an order of {} rows for shape {}",
                                                part.row_order.size(),
                                                part.values.shape_text()));
  }
  for (const uint32_t row : part.row_order) {
    if (row < n_out) continue;
    return Status::invalid_argument(
        fmt::format("weight: the order names row {} of shape {}", row, part.values.shape_text()));
  }
  return Status::ok();
}

Status check_bias(const TensorView& bias, const TensorView& values) {
  CAIRN_RETURN_IF_ERROR(check_floats(bias, 1, "bias"));
  if (bias.shape[0] == values.shape[0]) return Status::ok();
  return Status::invalid_argument(fmt::format(
      "bias: shape {} for a weight of shape {}", bias.shape_text(), values.shape_text()));
}

}  // namespace

size_t part_n_in(const WeightPart& part) {
  if (!part.affine.has_value()) return static_cast<size_t>(part.values.shape[1]);
  return static_cast<size_t>(part.affine->scales.shape[1]) * part.affine->group_size;
}

Status check_pack_request(const PackRequest& request) {
  if (request.parts.empty()) return Status::invalid_argument("weight: no parts to pack");
  if (!request.biases.empty() && request.biases.size() != request.parts.size()) {
    return Status::invalid_argument(
        fmt::format("weight: {} biases for {} parts", request.biases.size(), request.parts.size()));
  }
  size_t n_out = 0;
  for (size_t i = 0; i < request.parts.size(); ++i) {
    const WeightPart& part = request.parts[i];
    CAIRN_RETURN_IF_ERROR(check_values(part));
    CAIRN_RETURN_IF_ERROR(check_row_order(part));
    if (part_n_in(part) != part_n_in(request.parts[0])) {
      return Status::invalid_argument(
          fmt::format("weight: stacked parts differ in their input size, {} and {}",
                      part_n_in(request.parts[0]),
                      part_n_in(part)));
    }
    n_out += static_cast<size_t>(part.values.shape[0]);
    if (request.biases.empty() || !request.biases[i].has_value()) continue;
    CAIRN_RETURN_IF_ERROR(check_bias(*request.biases[i], part.values));
  }
  // In f32 with every part padded to whole panels, the largest that packing makes of it.
  const size_t n_in = part_n_in(request.parts[0]);
  const size_t padding = request.parts.size() * kPanelRows;
  if (n_out + padding > kMaxBytes / (4 * (n_in + 1))) {
    return Status::invalid_argument(fmt::format("weight: [{}, {}] is too large", n_out, n_in));
  }
  return Status::ok();
}

}  // namespace cairn
