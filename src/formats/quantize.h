// Writing weights in GGUF's block types: straightforward quantisers that round to nearest.
//
// Good for tests, benchmarks and everyday files; llama.cpp's own search harder for scales and lose
// a little less. tensor/quant.h is the other direction. The arithmetic is double, so the same
// values give the same bytes everywhere. Thread: any; no state. Source of the layouts:
// ggml-quants.h.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "tensor/dtype.h"

namespace cairn {

// Whether quantize_row writes the type: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, q3_k,
// q4_k, q5_k, q6_k, iq4_nl, iq4_xs and mxfp4.
bool can_quantize(DType dtype);

// Writes values.size() elements, a whole number of blocks, as n / block.n_elements * block.n_bytes
// bytes. Values must be finite. Requires can_quantize(dtype).
void quantize_row(DType dtype, std::span<const float> values, std::byte* out);

// The type that stands in for `dtype` when a row of n_in elements is no whole number of its blocks:
// one of blocks of 32 with as many bits or more, else f16. Source: llama.cpp, llama-quant.cpp.
DType fitting_dtype(DType dtype, size_t n_in);

}  // namespace cairn
