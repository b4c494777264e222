#include "kernels/packed_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace cairn {

namespace {

constexpr size_t kMaxBytes = size_t{1} << 46;  // what a process can address, and then some

bool is_float_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16;
}

Status check_tensor(const TensorView& tensor, size_t rank, const char* what) {
  if (!is_float_type(tensor.dtype)) {
    return Status::unsupported(fmt::format(
        "{}: dtype {}; f32, bf16 and f16 can be packed", what, to_string(tensor.dtype)));
  }
  if (tensor.shape.size() != rank) {
    return Status::invalid_argument(fmt::format(
        "{}: shape {} where {} dimensions are needed", what, tensor.shape_text(), rank));
  }
  size_t n = dtype_bytes(tensor.dtype);
  for (const int64_t dim : tensor.shape) {
    if (dim <= 0 || static_cast<size_t>(dim) > kMaxBytes / n) {
      return Status::invalid_argument(
          fmt::format("{}: shape {} is empty or too large", what, tensor.shape_text()));
    }
    n *= static_cast<size_t>(dim);
  }
  if (tensor.bytes.size() != n) {
    return Status::invalid_argument(fmt::format("{}: {} bytes, but shape {} of {} needs {}",
                                                what,
                                                tensor.bytes.size(),
                                                tensor.shape_text(),
                                                to_string(tensor.dtype),
                                                n));
  }
  return Status::ok();
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

Status check_request(const PackRequest& request) {
  if (request.parts.empty()) return Status::invalid_argument("weight: no parts to pack");
  if (!request.biases.empty() && request.biases.size() != request.parts.size()) {
    return Status::invalid_argument(
        fmt::format("weight: {} biases for {} parts", request.biases.size(), request.parts.size()));
  }
  size_t n_out = 0;
  for (size_t i = 0; i < request.parts.size(); ++i) {
    const TensorView& part = request.parts[i].values;
    if (request.parts[i].affine.has_value()) {
      return Status::unsupported("weight: affine groups cannot be packed");
    }
    CAIRN_RETURN_IF_ERROR(check_tensor(part, 2, "weight"));
    CAIRN_RETURN_IF_ERROR(check_row_order(request.parts[i]));
    if (part.shape[1] != request.parts[0].values.shape[1]) {
      return Status::invalid_argument(
          fmt::format("weight: stacked parts {} and {} differ in their input size",
                      request.parts[0].values.shape_text(),
                      part.shape_text()));
    }
    n_out += static_cast<size_t>(part.shape[0]);
    if (request.biases.empty() || !request.biases[i].has_value()) continue;
    CAIRN_RETURN_IF_ERROR(check_tensor(*request.biases[i], 1, "bias"));
    if (request.biases[i]->shape[0] != part.shape[0]) {
      return Status::invalid_argument(fmt::format("bias: shape {} for a weight of shape {}",
                                                  request.biases[i]->shape_text(),
                                                  part.shape_text()));
    }
  }
  const size_t n_in = static_cast<size_t>(request.parts[0].values.shape[1]);
  if (n_out > kMaxBytes / (4 * (n_in + 1)) - kPanelRows) {
    return Status::invalid_argument(fmt::format("weight: [{}, {}] is too large", n_out, n_in));
  }
  return Status::ok();
}

// Element `i`; the bytes of a file need not be aligned.
float widen(DType dtype, const std::byte* bytes, size_t i) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, bytes + 4 * i, sizeof(value));
    return value;
  }
  uint16_t half;
  std::memcpy(&half, bytes + 2 * i, sizeof(half));
  return dtype == DType::kBf16 ? bf16_to_f32(half) : f16_to_f32(half);
}

struct SourceRow {
  DType dtype = DType::kF32;
  const std::byte* bytes = nullptr;
};

// The rows of one panel; null past n_out.
void find_rows(const PackRequest& request, size_t first, SourceRow* rows) {
  size_t part_begin = 0;
  size_t lane = 0;
  for (const WeightPart& part : request.parts) {
    const TensorView& values = part.values;
    const size_t part_end = part_begin + static_cast<size_t>(values.shape[0]);
    const size_t row_bytes = static_cast<size_t>(values.shape[1]) * dtype_bytes(values.dtype);
    while (lane < kPanelRows && first + lane < part_end) {
      const size_t idx = first + lane - part_begin;
      rows[lane].dtype = values.dtype;
      rows[lane].bytes =
          values.bytes.data() + (part.row_order.empty() ? idx : part.row_order[idx]) * row_bytes;
      ++lane;
    }
    part_begin = part_end;
  }
}

// Blocks of 16 words, so that a block of the panel (4 KiB) stays in the first-level cache.
constexpr size_t kBlockSteps = 16;

void pack_panel_bf16(const SourceRow* rows, size_t n_in, std::byte* panel) {
  const size_t steps = (n_in + 1) / 2;
  for (size_t block = 0; block < steps; block += kBlockSteps) {
    const size_t end = std::min(steps, block + kBlockSteps);
    for (size_t lane = 0; lane < kPanelRows && rows[lane].bytes != nullptr; ++lane) {
      for (size_t step = block; step < end; ++step) {
        std::memcpy(panel + (step * kPanelRows + lane) * 4,
                    rows[lane].bytes + 4 * step,
                    std::min<size_t>(4, 2 * n_in - 4 * step));
      }
    }
  }
}

void pack_panel_f32(const SourceRow* rows, size_t n_in, std::byte* panel) {
  float* out = reinterpret_cast<float*>(panel);
  for (size_t block = 0; block < n_in; block += kBlockSteps) {
    const size_t end = std::min(n_in, block + kBlockSteps);
    for (size_t lane = 0; lane < kPanelRows && rows[lane].bytes != nullptr; ++lane) {
      for (size_t k = block; k < end; ++k) {
        out[k * kPanelRows + lane] = widen(rows[lane].dtype, rows[lane].bytes, k);
      }
    }
  }
}

}  // namespace

Result<std::shared_ptr<const PackedWeight>> CpuPackedWeight::pack(const PackRequest& request,
                                                                  KernelPool& pool) {
  CAIRN_RETURN_IF_ERROR(check_request(request));
  std::shared_ptr<CpuPackedWeight> packed(new CpuPackedWeight());
  packed->n_in_ = static_cast<size_t>(request.parts[0].values.shape[1]);
  packed->dtype_ = DType::kBf16;
  for (const WeightPart& part : request.parts) {
    packed->n_out_ += static_cast<size_t>(part.values.shape[0]);
    if (part.values.dtype != DType::kBf16) packed->dtype_ = DType::kF32;
  }
  const bool has_bias = std::any_of(request.biases.begin(),
                                    request.biases.end(),
                                    [](const auto& bias) { return bias.has_value(); });
  const size_t n_bytes = packed->n_panels() * packed->panel_bytes();
  packed->panels_ = Buffer::try_allocate(n_bytes);
  if (has_bias) packed->bias_ = Buffer::try_allocate(packed->n_out_ * sizeof(float));
  if (!packed->panels_ || (has_bias && !packed->bias_)) {
    return Status::no_space(fmt::format(
        "weight [{}, {}]: no memory for {} bytes", packed->n_out_, packed->n_in_, n_bytes));
  }

  CpuPackedWeight& to = *packed;
  pool.run(to.n_panels(), [&](size_t panel) {
    SourceRow rows[kPanelRows];
    find_rows(request, panel * kPanelRows, rows);
    std::byte* out = to.panels_.data() + panel * to.panel_bytes();
    if (to.dtype_ == DType::kBf16) {
      pack_panel_bf16(rows, to.n_in_, out);
    } else {
      pack_panel_f32(rows, to.n_in_, out);
    }
  });

  size_t at = 0;
  for (size_t i = 0; i < request.parts.size() && has_bias; ++i) {
    const size_t n = static_cast<size_t>(request.parts[i].values.shape[0]);
    if (request.biases[i].has_value()) {
      const TensorView& bias = *request.biases[i];
      float* out = to.bias_.as<float>().data() + at;
      for (size_t o = 0; o < n; ++o) out[o] = widen(bias.dtype, bias.bytes.data(), o);
    }
    at += n;
  }
  return std::shared_ptr<const PackedWeight>(std::move(packed));
}

void CpuPackedWeight::gather_row(size_t idx, float* out) const {
  const std::byte* panel = panels_.data() + idx / kPanelRows * panel_bytes();
  const std::byte* word = panel + idx % kPanelRows * 4;
  if (dtype_ == DType::kF32) {
    for (size_t k = 0; k < n_in_; ++k) std::memcpy(out + k, word + k * kPanelRows * 4, 4);
    return;
  }
  for (size_t k = 0; k < n_in_; k += 2) {
    uint32_t pair;
    std::memcpy(&pair, word + k / 2 * kPanelRows * 4, 4);
    out[k] = bf16_to_f32(static_cast<Bf16>(pair & 0xffffU));
    if (k + 1 < n_in_) out[k + 1] = bf16_to_f32(static_cast<Bf16>(pair >> 16));
  }
}

}  // namespace cairn
