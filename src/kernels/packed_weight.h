// Weights in panels: 64 outputs side by side in SIMD lanes, walked along n_in.
//
//   f32   [n_panels][n_in][64]
//   bf16  [n_panels][(n_in + 1) / 2][64][2]    pairs along the summed axis, an odd last one
//   zero-padded
//
// Outputs past n_out are zero. One copy serves the product and the gather of embedding rows. A page
// of 256 bytes a step keeps decode a single forward stream. Thread: immutable once packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/kernel_pool.h"
#include "base/result.h"
#include "kernels/backend.h"
#include "kernels/dispatch.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace cairn {

class CpuPackedWeight final : public PackedWeight {
 public:
  // Stacks the parts along n_out. All bf16 stays bf16; f16, f32 and mixtures become f32.
  // Errors: kUnsupported (dtype), kInvalidArgument (shapes, sizes), kNoSpace (memory).
  static Result<std::shared_ptr<const PackedWeight>> pack(const PackRequest& request,
                                                          KernelPool& pool);

  size_t n_out() const override { return n_out_; }

  size_t n_in() const override { return n_in_; }

  size_t n_bytes() const override { return panels_.size() + bias_.size(); }

  DType dtype() const { return dtype_; }  // kF32 or kBf16

  size_t n_panels() const { return (n_out_ + kPanelRows - 1) / kPanelRows; }

  size_t steps() const { return dtype_ == DType::kBf16 ? (n_in_ + 1) / 2 : n_in_; }

  size_t panel_bytes() const { return steps() * kPanelRows * 4; }

  const std::byte* panels() const { return panels_.data(); }

  const float* bias() const {
    return bias_ ? bias_.as<float>().data() : nullptr;
  }  // [n_out] or null

  // Row `idx` widened to f32, exactly. idx < n_out.
  void gather_row(size_t idx, float* out) const;

 private:
  CpuPackedWeight() = default;

  size_t n_out_ = 0;
  size_t n_in_ = 0;
  DType dtype_ = DType::kF32;
  Buffer panels_;
  Buffer bias_;
};

}  // namespace cairn
