#include "formats/quantize_k.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/coding.h"
#include "tensor/dtype.h"

namespace cairn {
namespace {

constexpr size_t kSuperBlock = 256;

using SuperCodes = std::array<uint8_t, kSuperBlock>;

F16 to_f16(double value) {
  return f32_to_f16(static_cast<float>(value));
}

double from_f16(F16 value) {
  return static_cast<double>(f16_to_f32(value));
}

std::byte to_byte(unsigned value) {
  return static_cast<std::byte>(value & 255U);
}

// A block as groups of codes with a scale and a minimum each:
// value = d * scale[g] * code - dmin * minimum[g].
struct MinBlock {
  F16 d = 0;
  F16 dmin = 0;
  std::array<uint8_t, 16> scales{};
  std::array<uint8_t, 16> minimums{};
  SuperCodes codes{};
};

//   bits        of a code
//   scale_bits  of a group's scale and minimum
MinBlock with_minimums(const float* x, size_t group_size, unsigned bits, unsigned scale_bits) {
  const size_t n_groups = kSuperBlock / group_size;
  const double top = std::exp2(bits) - 1;
  const double scale_top = std::exp2(scale_bits) - 1;
  std::array<double, 16> scales{};
  std::array<double, 16> minimums{};
  for (size_t g = 0; g < n_groups; ++g) {
    const auto [low, high] = std::minmax_element(x + g * group_size, x + (g + 1) * group_size);
    // The format can only subtract, so the least value is at most 0.
    const double least = std::min(0.0, static_cast<double>(*low));
    scales[g] = std::max(0.0, static_cast<double>(*high) - least) / top;
    minimums[g] = -least;
  }
  MinBlock block;
  block.d = to_f16(*std::max_element(scales.begin(), scales.end()) / scale_top);
  block.dmin = to_f16(*std::max_element(minimums.begin(), minimums.end()) / scale_top);
  const double d = from_f16(block.d);
  const double dmin = from_f16(block.dmin);
  for (size_t g = 0; g < n_groups; ++g) {
    const double s = d == 0 ? 0 : std::min(scale_top, round_half_up(scales[g] / d));
    const double m = dmin == 0 ? 0 : std::min(scale_top, round_half_up(minimums[g] / dmin));
    block.scales[g] = static_cast<uint8_t>(s);
    block.minimums[g] = static_cast<uint8_t>(m);
    const double inverse = inverse_of(d * s);
    for (size_t i = g * group_size; i < (g + 1) * group_size; ++i) {
      const double q = round_half_up((static_cast<double>(x[i]) + dmin * m) * inverse);
      block.codes[i] = static_cast<uint8_t>(std::clamp(q, 0.0, top));
    }
  }
  return block;
}

// Groups of 16 with a signed scale each: value = d * scale[g] * (code - 2^(bits - 1)).
struct ScaledBlock {
  F16 d = 0;
  std::array<int, 16> scales{};  // [-2^(scale_bits - 1), 2^(scale_bits - 1))
  SuperCodes codes{};
};

ScaledBlock with_scales(const float* x, unsigned bits, unsigned scale_bits) {
  constexpr size_t kGroup = 16;
  const double half = std::exp2(bits - 1);
  const double scale_half = std::exp2(scale_bits - 1);
  std::array<double, kSuperBlock / kGroup> scales{};
  double extreme = 0;
  for (size_t g = 0; g < scales.size(); ++g) {
    double peak = 0;  // the signed value of the largest magnitude
    for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      const auto v = static_cast<double>(x[i]);
      if (std::abs(v) > std::abs(peak)) peak = v;
    }
    scales[g] = peak / -half;
    if (std::abs(scales[g]) > std::abs(extreme)) extreme = scales[g];
  }
  ScaledBlock block;
  block.d = to_f16(extreme / -scale_half);
  const double d = from_f16(block.d);
  for (size_t g = 0; g < scales.size(); ++g) {
    const double s =
        d == 0 ? 0 : std::clamp(round_half_up(scales[g] / d), -scale_half, scale_half - 1);
    block.scales[g] = static_cast<int>(s);
    const double inverse = inverse_of(d * s);
    for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      const double q = round_half_up(static_cast<double>(x[i]) * inverse) + half;
      block.codes[i] = static_cast<uint8_t>(std::clamp(q, 0.0, 2 * half - 1));
    }
  }
  return block;
}

// Eight 6-bit scales and minimums in 12 bytes.
void put_scales(const MinBlock& block, std::byte* out) {
  std::array<unsigned, 12> packed{};
  for (size_t g = 0; g < 4; ++g) {
    const unsigned s = block.scales[4 + g];
    const unsigned m = block.minimums[4 + g];
    packed[g] = block.scales[g] | ((s >> 4) << 6);
    packed[4 + g] = block.minimums[g] | ((m >> 4) << 6);
    packed[8 + g] = (s & 15U) | ((m & 15U) << 4);
  }
  for (size_t i = 0; i < packed.size(); ++i) out[i] = to_byte(packed[i]);
}

// Low four bits: 64 values in 32 bytes, the first 32 in the low nibbles.
void put_super_nibbles(const SuperCodes& codes, std::byte* out) {
  for (size_t i = 0; i < kSuperBlock / 2; ++i) {
    const size_t low = i / 32 * 64 + i % 32;
    out[i] = to_byte((codes[low] & 15U) | ((codes[low + 32] & 15U) << 4));
  }
}

// Two bits of each code from bit `shift` on: 128 values in 32 bytes.
void put_crumbs(const SuperCodes& codes, unsigned shift, std::byte* out) {
  for (size_t i = 0; i < kSuperBlock / 4; ++i) {
    const size_t first = i / 32 * 128 + i % 32;
    unsigned packed = 0;
    for (unsigned j = 0; j < 4; ++j) {
      packed |= ((codes[first + j * 32] >> shift) & 3U) << (2 * j);
    }
    out[i] = to_byte(packed);
  }
}

}  // namespace

void encode_q2_k(const float* x, std::byte* out) {
  const MinBlock block = with_minimums(x, 16, 2, 4);
  for (size_t g = 0; g < 16; ++g)
    out[g] = to_byte(static_cast<unsigned>(block.scales[g] | (block.minimums[g] << 4)));
  put_crumbs(block.codes, 0, out + 16);
  store_le(out + 80, block.d);
  store_le(out + 82, block.dmin);
}

void encode_q3_k(const float* x, std::byte* out) {
  const ScaledBlock block = with_scales(x, 3, 6);
  for (size_t i = 0; i < 32; ++i) {
    unsigned high = 0;
    for (size_t j = 0; j < 8; ++j) {
      high |= static_cast<unsigned>(block.codes[j * 32 + i] >> 2) << j;
    }
    out[i] = to_byte(high);
  }
  put_crumbs(block.codes, 0, out + 32);
  // 16 scales of 6 bits: low nibbles in 8 bytes, the upper two bits in 4.
  std::array<unsigned, 12> packed{};
  for (size_t g = 0; g < 16; ++g) {
    const auto s = static_cast<unsigned>(block.scales[g] + 32);
    packed[g % 8] |= (s & 15U) << (g / 8 * 4);
    packed[8 + g % 4] |= (s >> 4) << (g / 4 * 2);
  }
  for (size_t i = 0; i < packed.size(); ++i) out[96 + i] = to_byte(packed[i]);
  store_le(out + 108, block.d);
}

void encode_q4_k(const float* x, std::byte* out) {
  const MinBlock block = with_minimums(x, 32, 4, 6);
  store_le(out, block.d);
  store_le(out + 2, block.dmin);
  put_scales(block, out + 4);
  put_super_nibbles(block.codes, out + 16);
}

void encode_q5_k(const float* x, std::byte* out) {
  const MinBlock block = with_minimums(x, 32, 5, 6);
  store_le(out, block.d);
  store_le(out + 2, block.dmin);
  put_scales(block, out + 4);
  for (size_t i = 0; i < 32; ++i) {
    unsigned high = 0;
    for (size_t g = 0; g < 8; ++g) {
      high |= static_cast<unsigned>(block.codes[g * 32 + i] >> 4) << g;
    }
    out[16 + i] = to_byte(high);
  }
  put_super_nibbles(block.codes, out + 48);
}

void encode_q6_k(const float* x, std::byte* out) {
  const ScaledBlock block = with_scales(x, 6, 8);
  // Low four bits: 128 values in 64 bytes, values 64 apart in one byte.
  for (size_t i = 0; i < kSuperBlock / 2; ++i) {
    const size_t low = i / 64 * 128 + i % 64;
    out[i] = to_byte((block.codes[low] & 15U) | ((block.codes[low + 64] & 15U) << 4));
  }
  put_crumbs(block.codes, 4, out + 128);
  for (size_t g = 0; g < 16; ++g) out[192 + g] = to_byte(static_cast<unsigned>(block.scales[g]));
  store_le(out + 208, block.d);
}

}  // namespace cairn
