#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace cairn {
namespace {

// The value of an f16 by the definition of the format (IEEE 754-2019, 3.4).
double f16_by_definition(F16 v) {
  const int exponent = (v >> 10) & 31;
  const int fraction = v & 1023;
  const double sign = (v & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(F16, EveryPatternHasItsValueAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto v = static_cast<F16>(bits);
    const double expected = f16_by_definition(v);
    const float value = f16_to_f32(v);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000U) != 0) << bits;
    ASSERT_EQ(f32_to_f16(value), v) << bits;
  }
}

TEST(F16, HalfwayGoesToTheEvenNeighbour) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = f16_by_definition(static_cast<F16>(bits));
    const double high = f16_by_definition(static_cast<F16>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact in f32
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(f32_to_f16(middle), even);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, HUGE_VALF)), bits + 1);
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000U);
  }
}

TEST(F16, LargeValuesBecomeInfinity) {
  EXPECT_EQ(f32_to_f16(65504.0F), 0x7bff);
  EXPECT_EQ(f32_to_f16(std::nextafter(65520.0F, 0.0F)), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30F), 0xfc00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Bf16, RoundsHalfToEven) {
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000U)), 0x3f80) << "halfway, even below";
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000U)), 0x3f82) << "halfway, even above";
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001U)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001U)))));
}

TEST(Bf16, EveryPatternComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_to_f32(static_cast<Bf16>(bits));
    ASSERT_EQ(f32_to_bf16(value), std::isnan(value) ? bits | 0x40U : bits);
  }
}

TEST(DType, HasASizeAndAName) {
  EXPECT_EQ(dtype_bytes(DType::kBool), 1U);
  EXPECT_EQ(dtype_bytes(DType::kBf16), 2U);
  EXPECT_EQ(dtype_bytes(DType::kF32), 4U);
  EXPECT_EQ(dtype_bytes(DType::kI64), 8U);
  EXPECT_EQ(to_string(DType::kBf16), "bf16");
  EXPECT_EQ(to_string(DType::kBool), "bool");
}

}  // namespace
}  // namespace cairn
