// What the kernels should compute, in f64 and plain loops: the yardstick of tests, never of
// serving.
//
// Nothing here rounds as the kernels do; a test says how far a kernel may be away. Rows of K and V
// are plain [position][kv_head][head_dim] arrays here, not strips. Thread: any. Source: the
// formulas of the operations in backend.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/page_layout.h"

namespace cairn::reference {

// x [n_rows, n_in], w [n_out, n_in], bias [n_out] or empty; gives [n_rows, n_out].
std::vector<double> matmul(const std::vector<float>& x,
                           const std::vector<float>& w,
                           const std::vector<float>& bias,
                           size_t n_rows,
                           size_t n_in);

// x [n_rows, dim], weight [dim]; gives x / sqrt(mean of squares + eps) * weight.
std::vector<double> rms_norm(const std::vector<float>& x,
                             const std::vector<float>& weight,
                             double eps);

// Pairs (i, i + rope_dim / 2) of x [head_dim] turned by cos_sin [rope_dim / 2, 2].
std::vector<double> rope(const std::vector<double>& x, const float* cos_sin, size_t rope_dim);

// silu(gate) * up of a row [2 * dim].
std::vector<double> gate(const float* gate_up, size_t dim);

struct AttendShape {
  size_t n_heads = 0;
  size_t n_kv_heads = 0;
  size_t head_dim = 0;
  size_t window = 0;  // 0 = all
  double scale = 0;
};

// One query row q [n_heads, head_dim] at position `pos` over k, v [pos + 1 or more, n_kv_heads,
// head_dim]; gives [n_heads, head_dim].
std::vector<double> attend(const AttendShape& shape,
                           const float* q,
                           const std::vector<float>& k,
                           const std::vector<float>& v,
                           size_t pos);

// Element `d` of a row of K or V, read from a page.
float read_k(const PageLayout& layout,
             const std::byte* page,
             uint32_t layer,
             uint32_t kv_head,
             size_t row,
             size_t d);
float read_v(const PageLayout& layout,
             const std::byte* page,
             uint32_t layer,
             uint32_t kv_head,
             size_t row,
             size_t d);

}  // namespace cairn::reference
