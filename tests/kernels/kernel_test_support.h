// Shared by the kernel tests: inputs that depend on a seed only, page tables, and the matrix of ISA
// classes that this processor has.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tensor/dtype.h"

namespace cairn::kernel_test {

// SplitMix64 (Steele et al. 2014): small, and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  // In [-1, 1), 24 bits.
  float value() {
    return static_cast<float>(static_cast<int64_t>(next() >> 39) - (1 << 24)) * 0x1p-24F;
  }

  std::vector<float> values(size_t n, float scale = 1.0F) {
    std::vector<float> out(n);
    for (float& x : out) x = value() * scale;
    return out;
  }

 private:
  uint64_t state_;
};

inline std::vector<float> rounded(std::vector<float> x) {
  for (float& v : x) v = bf16_to_f32(f32_to_bf16(v));
  return x;
}

inline std::vector<Bf16> to_bf16(const std::vector<float>& x) {
  std::vector<Bf16> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = f32_to_bf16(x[i]);
  return out;
}

template <typename T>
TensorView view_of(const std::vector<T>& data, DType dtype, std::vector<int64_t> shape) {
  return {dtype, std::move(shape), std::as_bytes(std::span(data))};
}

// A part of a weight, its rows as they lie.
inline WeightPart part_of(TensorView values) {
  return {std::move(values), std::nullopt, {}};
}

inline std::unique_ptr<Backend> backend_of(Isa isa,
                                           Precision precision = Precision::kFast,
                                           unsigned n_threads = 1) {
  return make_cpu_backend({isa, precision, n_threads});
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Largest |a - b|.
inline double distance(const std::vector<float>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - b[i]);
    worst = d <= worst ? worst : d;  // NaN counts
  }
  return worst;
}

// The pages of one sequence, zeroed.
class Pages {
 public:
  Pages(const PageLayout& layout, size_t n_tokens) : layout_(layout) {
    const size_t n = (n_tokens + layout.page_tokens - 1) / layout.page_tokens;
    for (size_t i = 0; i < n; ++i) {
      buffers_.push_back(Buffer::allocate(layout.page_bytes()));
      pages_.push_back(buffers_.back().data());
    }
  }

  std::byte* const* table() const { return pages_.data(); }

  std::byte* page(size_t i) const { return pages_[i]; }

  size_t n_pages() const { return pages_.size(); }

  const PageLayout& layout() const { return layout_; }

 private:
  PageLayout layout_;
  std::vector<Buffer> buffers_;
  std::vector<std::byte*> pages_;
};

// Runs once for every class of this processor.
class EachIsa : public testing::TestWithParam<Isa> {};

inline std::string isa_name(const testing::TestParamInfo<Isa>& info) {
  return std::string(to_string(info.param));
}

}  // namespace cairn::kernel_test

#define CAIRN_EACH_ISA(suite) \
  INSTANTIATE_TEST_SUITE_P(, suite, testing::ValuesIn(supported_isas()), kernel_test::isa_name)
