// Weights in panels: 64 outputs side by side in SIMD lanes, walked along n_in.
//
//   f32        [n_panels][n_in][64]
//   bf16, f16  [n_panels][(n_in + 1) / 2][64][2]    pairs along the summed axis, an odd last one
//   zero-padded
//   quantised  see quant_format.h
//
// Stacked parts of different formats become sections, each a whole number of panels; outputs past a
// section's end are zero. One copy serves the product and the gather of embedding rows. A page of
// 256 bytes a step keeps decode a single forward stream. Thread: immutable once packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/kernel_pool.h"
#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/dispatch.h"
#include "kernels/quant_format.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace cairn {

// Outputs [out_begin, out_begin + n_out) of a packed weight: panels of one format.
struct WeightSection {
  std::optional<QuantFormat> quant;
  DType dtype = DType::kF32;  // kF32, kBf16 or kF16, where not quantised
  size_t out_begin = 0;
  size_t n_out = 0;
  size_t byte_begin = 0;  // of the first panel
  size_t panel_bytes = 0;

  size_t n_panels() const { return (n_out + kPanelRows - 1) / kPanelRows; }
};

class CpuPackedWeight final : public PackedWeight {
 public:
  // The same for every instruction-set class. Golden bytes fail when it should have changed.
  static constexpr const char* kPackingVersion = "cpu-panels64-1";

  // Stacks the parts along n_out. Block types and affine groups stay packed, values exact. Float
  // parts keep a type that all of them have; mixtures become f32.
  // Errors: kUnsupported (dtype), kInvalidArgument (shapes, sizes), kNoSpace (memory).
  static Result<std::shared_ptr<const PackedWeight>> pack(const PackRequest& request,
                                                          KernelPool& pool);
  // Errors: those of pack(); kCorruption for another number of bytes, or misaligned ones.
  static Result<std::shared_ptr<const PackedWeight>> adopt(const PackRequest& request,
                                                           SharedBytes packed);

  size_t n_out() const override { return n_out_; }

  size_t n_in() const override { return n_in_; }

  size_t n_bytes() const override { return packed_.bytes.size(); }

  std::span<const std::byte> bytes() const override { return packed_.bytes; }

  std::span<const WeightSection> sections() const { return sections_; }

  const std::byte* panels(const WeightSection& section) const {
    return packed_.bytes.data() + section.byte_begin;
  }

  // [n_out] or null.
  const float* bias() const {
    return has_bias_ ? reinterpret_cast<const float*>(packed_.bytes.data() + panels_bytes_)
                     : nullptr;
  }

  // Row `idx` widened to f32, exactly. idx < n_out.
  void gather_row(size_t idx, float* out) const;

 private:
  CpuPackedWeight() = default;
  void plan(const PackRequest& request);  // all but the bytes

  size_t planned_bytes() const { return panels_bytes_ + (has_bias_ ? n_out_ * sizeof(float) : 0); }

  void pack_panel(const PackRequest& request,
                  const WeightSection& section,
                  size_t panel,
                  std::byte* out) const;

  size_t n_out_ = 0;
  size_t n_in_ = 0;
  std::vector<WeightSection> sections_;
  size_t panels_bytes_ = 0;  // a multiple of 64
  bool has_bias_ = false;
  SharedBytes packed_;  // the sections' panels, then the biases [n_out]
};

}  // namespace cairn
