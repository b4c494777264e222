#include "kernels/packed_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/pack_request.h"
#include "tensor/quant.h"

namespace cairn {

namespace {

struct SourceRow {
  const WeightPart* part = nullptr;  // null past the end of the section
  size_t idx = 0;                    // in the part's tensors
};

size_t rows_of(const WeightPart& part) {
  return static_cast<size_t>(part.values.shape[0]);
}

bool is_quantised(const WeightPart& part) {
  return part.affine.has_value() || is_block_type(part.values.dtype);
}

// A row of the tensor's innermost axis.
const std::byte* row_bytes(const TensorView& tensor, size_t idx) {
  const BlockShape block = block_shape(tensor.dtype);
  const size_t n = static_cast<size_t>(tensor.shape[1]) / block.n_elements * block.n_bytes;
  return tensor.bytes.data() + idx * n;
}

QuantFormat format_of(const WeightPart& part) {
  if (!part.affine.has_value()) return quant_format_of(part.values.dtype);
  QuantFormat format;
  format.bits = part.affine->bits;
  format.group_size = part.affine->group_size;
  format.has_min = true;
  format.scale_dtype = part.affine->scales.dtype;
  return complete(format);
}

// The rows of one panel of outputs, which end at `end`.
void find_rows(const PackRequest& request, size_t first, size_t end, SourceRow* rows) {
  size_t part_begin = 0;
  size_t lane = 0;
  for (const WeightPart& part : request.parts) {
    const size_t part_end = part_begin + rows_of(part);
    while (lane < kPanelRows && first + lane < std::min(end, part_end)) {
      const size_t idx = first + lane - part_begin;
      rows[lane++] = {&part, part.row_order.empty() ? idx : part.row_order[idx]};
    }
    part_begin = part_end;
  }
}

// Blocks of 16 words, so that a block of the panel (4 KiB) stays in the first-level cache.
constexpr size_t kBlockSteps = 16;

void pack_panel_pairs(const SourceRow* rows, size_t n_in, std::byte* panel) {
  const std::byte* bytes[kPanelRows] = {};
  size_t n_lanes = 0;
  for (; n_lanes < kPanelRows && rows[n_lanes].part != nullptr; ++n_lanes) {
    bytes[n_lanes] = row_bytes(rows[n_lanes].part->values, rows[n_lanes].idx);
  }
  const size_t steps = (n_in + 1) / 2;
  for (size_t block = 0; block < steps; block += kBlockSteps) {
    const size_t end = std::min(steps, block + kBlockSteps);
    for (size_t lane = 0; lane < n_lanes; ++lane) {
      for (size_t step = block; step < end; ++step) {
        std::memcpy(panel + (step * kPanelRows + lane) * 4,
                    bytes[lane] + 4 * step,
                    std::min<size_t>(4, 2 * n_in - 4 * step));
      }
    }
  }
}

void pack_panel_f32(const SourceRow* rows, size_t n_in, std::byte* panel) {
  float* out = reinterpret_cast<float*>(panel);
  for (size_t block = 0; block < n_in; block += kBlockSteps) {
    const size_t end = std::min(n_in, block + kBlockSteps);
    for (size_t lane = 0; lane < kPanelRows && rows[lane].part != nullptr; ++lane) {
      const TensorView& values = rows[lane].part->values;
      const std::byte* bytes = row_bytes(values, rows[lane].idx);
      for (size_t k = block; k < end; ++k) {
        out[k * kPanelRows + lane] = float_element(values.dtype, bytes, k);
      }
    }
  }
}

void pack_panel_quant(const QuantFormat& format,
                      const SourceRow* rows,
                      size_t n_in,
                      std::byte* panel) {
  QuantRow quant_rows[kPanelRows];
  for (size_t lane = 0; lane < kPanelRows && rows[lane].part != nullptr; ++lane) {
    const WeightPart& part = *rows[lane].part;
    const size_t idx = rows[lane].idx;
    quant_rows[lane].dtype = part.values.dtype;
    quant_rows[lane].values = row_bytes(part.values, idx);
    if (!part.affine.has_value()) continue;
    quant_rows[lane].scales = row_bytes(part.affine->scales, idx);
    quant_rows[lane].biases = row_bytes(part.affine->biases, idx);
  }
  pack_quant_panel(format, quant_rows, n_in, panel);
}

size_t float_panel_bytes(DType dtype, size_t n_in) {
  return (dtype == DType::kF32 ? n_in : (n_in + 1) / 2) * kPanelRows * 4;
}

// The type that all float parts have, else f32, which holds every one exactly.
DType common_float_type(const PackRequest& request) {
  std::optional<DType> common;
  for (const WeightPart& part : request.parts) {
    if (is_quantised(part)) continue;
    if (common.has_value() && *common != part.values.dtype) return DType::kF32;
    common = part.values.dtype;
  }
  return common.value_or(DType::kF32);
}

// `out` is zero where a part has no bias.
void pack_biases(const PackRequest& request, float* out) {
  for (size_t i = 0; i < request.parts.size(); ++i) {
    const size_t n_rows = rows_of(request.parts[i]);
    if (request.biases[i].has_value()) {
      const TensorView& bias = *request.biases[i];
      dequantize_row(bias.dtype, bias.bytes.data(), n_rows, out);
    }
    out += n_rows;
  }
}

constexpr size_t kPackedAlignment = 64;

}  // namespace

void CpuPackedWeight::plan(const PackRequest& request) {
  n_in_ = part_n_in(request.parts[0]);
  const DType float_type = common_float_type(request);
  for (const WeightPart& part : request.parts) {
    WeightSection section;
    if (is_quantised(part)) {
      section.quant = format_of(part);
      section.panel_bytes =
          n_in_ / section.quant->chunk_elements * size_t{section.quant->chunk_bytes};
    } else {
      section.dtype = float_type;
      section.panel_bytes = float_panel_bytes(section.dtype, n_in_);
    }
    section.out_begin = n_out_;
    n_out_ += rows_of(part);
    const bool joins = !sections_.empty() && sections_.back().quant == section.quant;
    if (!joins) sections_.push_back(section);
    sections_.back().n_out += rows_of(part);
  }
  size_t at = 0;
  for (WeightSection& section : sections_) {
    section.byte_begin = at;
    at += section.n_panels() * section.panel_bytes;
  }
  panels_bytes_ = at;
  has_bias_ = std::any_of(request.biases.begin(), request.biases.end(), [](const auto& bias) {
    return bias.has_value();
  });
}

void CpuPackedWeight::pack_panel(const PackRequest& request,
                                 const WeightSection& section,
                                 size_t panel,
                                 std::byte* out) const {
  SourceRow rows[kPanelRows];
  find_rows(
      request, section.out_begin + panel * kPanelRows, section.out_begin + section.n_out, rows);
  out += section.byte_begin + panel * section.panel_bytes;
  if (section.quant.has_value()) {
    pack_panel_quant(*section.quant, rows, n_in_, out);
  } else if (section.dtype == DType::kF32) {
    pack_panel_f32(rows, n_in_, out);
  } else {
    pack_panel_pairs(rows, n_in_, out);
  }
}

Result<std::shared_ptr<const PackedWeight>> CpuPackedWeight::pack(const PackRequest& request,
                                                                  KernelPool& pool) {
  CAIRN_RETURN_IF_ERROR(check_pack_request(request));
  std::shared_ptr<CpuPackedWeight> packed(new CpuPackedWeight());
  packed->plan(request);
  const Buffer buffer = Buffer::try_allocate(packed->planned_bytes());
  if (!buffer) {
    return Status::no_space(fmt::format("weight [{}, {}]: no memory for {} bytes",
                                        packed->n_out_,
                                        packed->n_in_,
                                        packed->planned_bytes()));
  }
  for (const WeightSection& section : packed->sections_) {
    pool.run(section.n_panels(),
             [&](size_t panel) { packed->pack_panel(request, section, panel, buffer.data()); });
  }
  if (packed->has_bias_) {
    pack_biases(request, reinterpret_cast<float*>(buffer.data() + packed->panels_bytes_));
  }
  packed->packed_ = buffer.share();
  return std::shared_ptr<const PackedWeight>(std::move(packed));
}

Result<std::shared_ptr<const PackedWeight>> CpuPackedWeight::adopt(const PackRequest& request,
                                                                   SharedBytes bytes) {
  CAIRN_RETURN_IF_ERROR(check_pack_request(request));
  std::shared_ptr<CpuPackedWeight> packed(new CpuPackedWeight());
  packed->plan(request);
  if (bytes.bytes.size() != packed->planned_bytes() ||
      reinterpret_cast<uintptr_t>(bytes.bytes.data()) % kPackedAlignment != 0) {
    return Status::corruption(
        fmt::format("weight [{}, {}]: {} packed bytes at {}; wanted are {}, aligned to {}",
                    packed->n_out_,
                    packed->n_in_,
                    bytes.bytes.size(),
                    fmt::ptr(bytes.bytes.data()),
                    packed->planned_bytes(),
                    kPackedAlignment));
  }
  packed->packed_ = std::move(bytes);
  return std::shared_ptr<const PackedWeight>(std::move(packed));
}

void CpuPackedWeight::gather_row(size_t idx, float* out) const {
  const auto section =
      std::find_if(sections_.begin(), sections_.end(), [&](const WeightSection& s) {
        return idx < s.out_begin + s.n_out;
      });
  const size_t row = idx - section->out_begin;
  const size_t lane = row % kPanelRows;
  const std::byte* panel = panels(*section) + row / kPanelRows * section->panel_bytes;
  if (section->quant.has_value()) return gather_quant_row(*section->quant, panel, lane, n_in_, out);
  const std::byte* word = panel + lane * 4;
  if (section->dtype == DType::kF32) {
    for (size_t k = 0; k < n_in_; ++k) std::memcpy(out + k, word + k * kPanelRows * 4, 4);
    return;
  }
  for (size_t k = 0; k < n_in_; k += 2) {
    uint32_t pair;
    std::memcpy(&pair, word + k / 2 * kPanelRows * 4, 4);
    const auto first = static_cast<uint16_t>(pair & 0xffffU);
    const auto second = static_cast<uint16_t>(pair >> 16);
    const bool bf16 = section->dtype == DType::kBf16;
    out[k] = bf16 ? bf16_to_f32(first) : f16_to_f32(first);
    if (k + 1 < n_in_) out[k + 1] = bf16 ? bf16_to_f32(second) : f16_to_f32(second);
  }
}

}  // namespace cairn
