#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/dtype.h"

namespace cairn::reference {

namespace {

float read_element(const PageLayout& layout, const std::byte* strips, size_t element) {
  if (layout.encoding == RowEncoding::kF32) {
    float value;
    std::memcpy(&value, strips + 4 * element, sizeof(value));
    return value;
  }
  Bf16 value;
  std::memcpy(&value, strips + 2 * element, sizeof(value));
  return bf16_to_f32(value);
}

}  // namespace

std::vector<double> matmul(const std::vector<float>& x,
                           const std::vector<float>& w,
                           const std::vector<float>& bias,
                           size_t n_rows,
                           size_t n_in) {
  const size_t n_out = w.size() / n_in;
  std::vector<double> out(n_rows * n_out);
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t o = 0; o < n_out; ++o) {
      double sum = 0;
      for (size_t k = 0; k < n_in; ++k) {
        sum += static_cast<double>(x[row * n_in + k]) * static_cast<double>(w[o * n_in + k]);
      }
      out[row * n_out + o] = sum + (bias.empty() ? 0.0 : static_cast<double>(bias[o]));
    }
  }
  return out;
}

std::vector<double> rms_norm(const std::vector<float>& x,
                             const std::vector<float>& weight,
                             double eps) {
  const size_t dim = weight.size();
  std::vector<double> out(x.size());
  for (size_t row = 0; row < x.size() / dim; ++row) {
    double sum = 0;
    for (size_t i = 0; i < dim; ++i) {
      sum += static_cast<double>(x[row * dim + i]) * static_cast<double>(x[row * dim + i]);
    }
    const double scale = 1.0 / std::sqrt(sum / static_cast<double>(dim) + eps);
    for (size_t i = 0; i < dim; ++i) {
      out[row * dim + i] =
          static_cast<double>(x[row * dim + i]) * scale * static_cast<double>(weight[i]);
    }
  }
  return out;
}

std::vector<double> rope(const std::vector<double>& x, const float* cos_sin, size_t rope_dim) {
  std::vector<double> out = x;
  const size_t half = rope_dim / 2;
  for (size_t i = 0; i < half; ++i) {
    const double c = static_cast<double>(cos_sin[2 * i]);
    const double s = static_cast<double>(cos_sin[2 * i + 1]);
    out[i] = x[i] * c - x[half + i] * s;
    out[half + i] = x[half + i] * c + x[i] * s;
  }
  return out;
}

std::vector<double> gate(const float* gate_up, size_t dim) {
  std::vector<double> out(dim);
  for (size_t i = 0; i < dim; ++i) {
    const double g = static_cast<double>(gate_up[i]);
    out[i] = g / (1.0 + std::exp(-g)) * static_cast<double>(gate_up[dim + i]);
  }
  return out;
}

std::vector<double> attend(const AttendShape& shape,
                           const float* q,
                           const std::vector<float>& k,
                           const std::vector<float>& v,
                           size_t pos) {
  const size_t hd = shape.head_dim;
  const size_t begin = shape.window != 0 && pos + 1 > shape.window ? pos + 1 - shape.window : 0;
  std::vector<double> out(shape.n_heads * hd);
  std::vector<double> scores(pos + 1);
  for (size_t head = 0; head < shape.n_heads; ++head) {
    const size_t kv_head = head / (shape.n_heads / shape.n_kv_heads);
    double top = -HUGE_VAL;
    for (size_t p = begin; p <= pos; ++p) {
      const float* row = k.data() + (p * shape.n_kv_heads + kv_head) * hd;
      double dot = 0;
      for (size_t d = 0; d < hd; ++d) {
        dot += static_cast<double>(q[head * hd + d]) * static_cast<double>(row[d]);
      }
      scores[p] = dot * shape.scale;
      top = std::max(top, scores[p]);
    }
    double sum = 0;
    for (size_t p = begin; p <= pos; ++p) {
      const double weight = std::exp(scores[p] - top);
      const float* row = v.data() + (p * shape.n_kv_heads + kv_head) * hd;
      sum += weight;
      for (size_t d = 0; d < hd; ++d) out[head * hd + d] += weight * static_cast<double>(row[d]);
    }
    for (size_t d = 0; d < hd; ++d) out[head * hd + d] /= sum;
  }
  return out;
}

float read_k(const PageLayout& layout,
             const std::byte* page,
             uint32_t layer,
             uint32_t kv_head,
             size_t row,
             size_t d) {
  const std::byte* strip =
      page + layout.k_offset(layer, kv_head) + row / kStripTokens * layout.strip_bytes();
  const size_t token = row % kStripTokens;
  const bool pairs = layout.encoding == RowEncoding::kBf16;
  return read_element(
      layout, strip, pairs ? (d / 2 * kStripTokens + token) * 2 + d % 2 : d * kStripTokens + token);
}

float read_v(const PageLayout& layout,
             const std::byte* page,
             uint32_t layer,
             uint32_t kv_head,
             size_t row,
             size_t d) {
  const std::byte* strip =
      page + layout.v_offset(layer, kv_head) + row / kStripTokens * layout.strip_bytes();
  const size_t token = row % kStripTokens;
  const bool pairs = layout.encoding == RowEncoding::kBf16;
  return read_element(
      layout,
      strip,
      pairs ? (token / 2 * layout.head_dim + d) * 2 + token % 2 : token * layout.head_dim + d);
}

}  // namespace cairn::reference
