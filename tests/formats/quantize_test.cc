#include "formats/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tensor/quant.h"

namespace cairn {
namespace {

struct Case {
  DType dtype;
  // What a value may be off by, as a share of the block's peak: half a step of the codes, half a
  // step of the scales, and f16.
  double bound;
};

constexpr Case kCases[] = {{DType::kF32, 0.0},
                           {DType::kF16, 1.0 / 2048},
                           {DType::kBf16, 1.0 / 256},
                           {DType::kQ8_0, 0.5 / 127 + 0.001},
                           {DType::kQ4_0, 1.0 / 8 + 0.002},
                           {DType::kQ4_1, 1.0 / 15 + 0.002},
                           {DType::kQ5_0, 1.0 / 16 + 0.002},
                           {DType::kQ5_1, 1.0 / 31 + 0.002},
                           {DType::kQ2K, 0.5},
                           {DType::kQ3K, 0.36},
                           {DType::kQ4K, 0.12},
                           {DType::kQ5K, 0.07},
                           {DType::kQ6K, 0.05},
                           {DType::kIq4Nl, 0.12},
                           {DType::kIq4Xs, 0.15},
                           {DType::kMxfp4, 0.26}};

std::vector<float> random_values(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

std::vector<float> through(DType dtype, const std::vector<float>& values) {
  const BlockShape block = block_shape(dtype);
  std::vector<std::byte> bytes(values.size() / block.n_elements * block.n_bytes + 1,
                               std::byte{0xa5});
  quantize_row(dtype, values, bytes.data());
  EXPECT_EQ(bytes.back(), std::byte{0xa5}) << to_string(dtype);  // wrote no more than its size
  std::vector<float> out(values.size());
  dequantize_row(dtype, bytes.data(), values.size(), out.data());
  return out;
}

TEST(Quantize, EveryValueIsWithinAStep) {
  const std::vector<float> values = random_values(256 * 40, 1);
  for (const Case& c : kCases) {
    ASSERT_TRUE(can_quantize(c.dtype));
    const std::vector<float> out = through(c.dtype, values);
    double worst = 0;
    double squares = 0;
    for (size_t begin = 0; begin < values.size(); begin += 32) {
      double peak = 0;
      for (size_t i = begin; i < begin + 32; ++i) {
        peak = std::max(peak, std::abs(static_cast<double>(values[i])));
      }
      for (size_t i = begin; i < begin + 32; ++i) {
        const double error = std::abs(static_cast<double>(out[i]) - static_cast<double>(values[i]));
        worst = std::max(worst, error / peak);
        squares += error * error;
      }
    }
    EXPECT_LE(worst, c.bound) << to_string(c.dtype);
    // Misplaced codes would leave errors of the size of the values, whatever single ones do.
    const double rms = std::sqrt(squares / static_cast<double>(values.size()));
    EXPECT_LE(rms, 0.026 * std::max(c.bound, 1e-9)) << to_string(c.dtype);
  }
}

// The stored values are their own nearest neighbours.
TEST(Quantize, WhatWasQuantisedStaysNearlyTheSame) {
  const std::vector<float> values = random_values(256 * 4, 2);
  for (const Case& c : kCases) {
    const std::vector<float> once = through(c.dtype, values);
    const std::vector<float> twice = through(c.dtype, once);
    double drift = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      drift =
          std::max(drift, std::abs(static_cast<double>(twice[i]) - static_cast<double>(once[i])));
    }
    EXPECT_LE(drift, 0.06 * c.bound) << to_string(c.dtype);
  }
}

TEST(Quantize, ZerosAndLonelyPeaksSurvive) {
  for (const Case& c : kCases) {
    EXPECT_EQ(through(c.dtype, std::vector<float>(256, 0.0F)), std::vector<float>(256, 0.0F))
        << to_string(c.dtype);
    for (const float peak : {1.0F, -1.0F}) {
      std::vector<float> lonely(256, 0.0F);
      lonely[77] = peak;
      const std::vector<float> out = through(c.dtype, lonely);
      EXPECT_NEAR(out[77], peak, 0.15) << to_string(c.dtype);
      EXPECT_NEAR(out[200], 0.0F, 0.01) << to_string(c.dtype);
    }
  }
}

TEST(Quantize, RowsOfOddLengthsTakeATypeThatFits) {
  EXPECT_EQ(fitting_dtype(DType::kQ4K, 512), DType::kQ4K);
  EXPECT_EQ(fitting_dtype(DType::kQ4K, 64), DType::kQ5_0);
  EXPECT_EQ(fitting_dtype(DType::kQ5K, 64), DType::kQ5_1);
  EXPECT_EQ(fitting_dtype(DType::kQ6K, 64), DType::kQ8_0);
  EXPECT_EQ(fitting_dtype(DType::kIq4Xs, 32), DType::kIq4Nl);
  EXPECT_EQ(fitting_dtype(DType::kQ4K, 48), DType::kF16);
  EXPECT_EQ(fitting_dtype(DType::kBf16, 48), DType::kBf16);
  EXPECT_FALSE(can_quantize(DType::kI8));
}

}  // namespace
}  // namespace cairn
