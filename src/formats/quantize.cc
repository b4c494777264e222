#include "formats/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/coding.h"
#include "formats/quantize_k.h"

namespace cairn {
namespace {

constexpr size_t kBlock = 32;

using Codes = std::array<uint8_t, kBlock>;

void store_f16(std::byte* out, F16 value) {
  store_le(out, value);
}

double signed_peak(const float* x, size_t n) {
  double peak = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto v = static_cast<double>(x[i]);
    if (std::abs(v) > std::abs(peak)) peak = v;
  }
  return peak;
}

// Value i in the low nibble of byte i, value i + 16 in the high one.
void put_nibbles(const Codes& codes, std::byte* out) {
  for (size_t i = 0; i < kBlock / 2; ++i) {
    out[i] = static_cast<std::byte>((codes[i] & 15U) | ((codes[i + kBlock / 2] & 15U) << 4));
  }
}

void put_fifth_bits(const Codes& codes, std::byte* out) {
  uint32_t bits = 0;
  for (size_t i = 0; i < kBlock; ++i) bits |= static_cast<uint32_t>(codes[i] >> 4) << i;
  store_le(out, bits);
}

void encode_q8_0(const float* x, std::byte* out) {
  const F16 scale = f32_to_f16(static_cast<float>(std::abs(signed_peak(x, kBlock)) / 127));
  const double inverse = inverse_of(static_cast<double>(f16_to_f32(scale)));
  store_f16(out, scale);
  for (size_t i = 0; i < kBlock; ++i) {
    const double q = round_half_up(static_cast<double>(x[i]) * inverse);
    out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::clamp(q, -127.0, 127.0)));
  }
}

// value = scale * (code - 2^(bits - 1)); the value of the largest magnitude becomes code 0.
Codes symmetric_codes(const float* x, unsigned bits, F16* scale) {
  const double half = std::exp2(bits - 1);
  *scale = f32_to_f16(static_cast<float>(signed_peak(x, kBlock) / -half));
  const double inverse = inverse_of(static_cast<double>(f16_to_f32(*scale)));
  Codes codes{};
  for (size_t i = 0; i < kBlock; ++i) {
    const double q = std::floor(static_cast<double>(x[i]) * inverse + half + 0.5);
    codes[i] = static_cast<uint8_t>(std::clamp(q, 0.0, 2 * half - 1));
  }
  return codes;
}

// value = scale * code + least.
Codes offset_codes(const float* x, unsigned bits, F16* scale, F16* least) {
  const auto [low, high] = std::minmax_element(x, x + kBlock);
  const double top = std::exp2(bits) - 1;
  *least = f32_to_f16(*low);
  *scale = f32_to_f16(
      static_cast<float>((static_cast<double>(*high) - static_cast<double>(*low)) / top));
  const double inverse = inverse_of(static_cast<double>(f16_to_f32(*scale)));
  const auto offset = static_cast<double>(f16_to_f32(*least));
  Codes codes{};
  for (size_t i = 0; i < kBlock; ++i) {
    const double q = round_half_up((static_cast<double>(x[i]) - offset) * inverse);
    codes[i] = static_cast<uint8_t>(std::clamp(q, 0.0, top));
  }
  return codes;
}

// Codes of `bits` bits, 4 or 5: the fifth bits of all come first.
void put_codes(const Codes& codes, unsigned bits, std::byte* out) {
  if (bits == 5) {
    put_fifth_bits(codes, out);
    out += sizeof(uint32_t);
  }
  put_nibbles(codes, out);
}

template <unsigned kBits>
void encode_symmetric(const float* x, std::byte* out) {
  F16 scale = 0;
  const Codes codes = symmetric_codes(x, kBits, &scale);
  store_f16(out, scale);
  put_codes(codes, kBits, out + 2);
}

template <unsigned kBits>
void encode_offset(const float* x, std::byte* out) {
  F16 scale = 0;
  F16 least = 0;
  const Codes codes = offset_codes(x, kBits, &scale, &least);
  store_f16(out, scale);
  store_f16(out + 2, least);
  put_codes(codes, kBits, out + 4);
}

constexpr std::array<double, 16> kIq4Values = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr std::array<double, 16> kE2m1Values = {
    0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};

uint8_t nearest(const std::array<double, 16>& values, double x) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (std::abs(values[i] - x) < std::abs(values[best] - x)) best = i;
  }
  return static_cast<uint8_t>(best);
}

void encode_iq4_nl(const float* x, std::byte* out) {
  const F16 scale = f32_to_f16(static_cast<float>(signed_peak(x, kBlock) / kIq4Values[0]));
  const double inverse = inverse_of(static_cast<double>(f16_to_f32(scale)));
  Codes codes{};
  for (size_t i = 0; i < kBlock; ++i) {
    codes[i] = nearest(kIq4Values, static_cast<double>(x[i]) * inverse);
  }
  store_f16(out, scale);
  put_nibbles(codes, out + 2);
}

// Eight groups of 32 with 6-bit scales of their own: d * (scale - 32) * value.
void encode_iq4_xs(const float* x, std::byte* out) {
  constexpr size_t kGroups = 8;
  std::array<double, kGroups> scales{};
  double extreme = 0;
  for (size_t g = 0; g < kGroups; ++g) {
    scales[g] = signed_peak(x + g * kBlock, kBlock) / kIq4Values[0];
    if (std::abs(scales[g]) > std::abs(extreme)) extreme = scales[g];
  }
  const F16 d16 = f32_to_f16(static_cast<float>(extreme / -32));
  const auto d = static_cast<double>(f16_to_f32(d16));
  store_f16(out, d16);
  uint16_t high = 0;
  std::array<uint8_t, kGroups / 2> low{};
  for (size_t g = 0; g < kGroups; ++g) {
    const double s = std::clamp(round_half_up(scales[g] * inverse_of(d)), -32.0, 31.0);
    const auto code = static_cast<unsigned>(s + 32);
    high = static_cast<uint16_t>(high | ((code >> 4) << (2 * g)));
    low[g / 2] = static_cast<uint8_t>(low[g / 2] | ((code & 15U) << (4 * (g % 2))));
    Codes codes{};
    for (size_t i = 0; i < kBlock; ++i) {
      codes[i] = nearest(kIq4Values, static_cast<double>(x[g * kBlock + i]) * inverse_of(d * s));
    }
    put_nibbles(codes, out + 8 + g * kBlock / 2);
  }
  store_le(out + 2, high);
  std::memcpy(out + 4, low.data(), low.size());
}

// One power of two a block (biased by 127), chosen so that the peak is at most 6 times it where
// that loses least; OCP Microscaling 1.0, section 6.3.
void encode_mxfp4(const float* x, std::byte* out) {
  const double peak = std::abs(signed_peak(x, kBlock));
  const int exponent = peak == 0 ? -127 : std::clamp(std::ilogb(peak) - 2, -127, 127);
  Codes codes{};
  for (size_t i = 0; i < kBlock; ++i) {
    codes[i] = nearest(kE2m1Values, std::ldexp(static_cast<double>(x[i]), -exponent));
  }
  out[0] = static_cast<std::byte>(exponent + 127);
  put_nibbles(codes, out + 1);
}

void encode_f32(const float* x, std::byte* out) {
  store_le(out, *x);
}

void encode_f16(const float* x, std::byte* out) {
  store_le(out, f32_to_f16(*x));
}

void encode_bf16(const float* x, std::byte* out) {
  store_le(out, f32_to_bf16(*x));
}

// Writes one block.
using Encoder = void (*)(const float* x, std::byte* out);

Encoder encoder_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return encode_f32;
    case DType::kF16:
      return encode_f16;
    case DType::kBf16:
      return encode_bf16;
    case DType::kQ8_0:
      return encode_q8_0;
    case DType::kQ4_0:
      return encode_symmetric<4>;
    case DType::kQ4_1:
      return encode_offset<4>;
    case DType::kQ5_0:
      return encode_symmetric<5>;
    case DType::kQ5_1:
      return encode_offset<5>;
    case DType::kQ2K:
      return encode_q2_k;
    case DType::kQ3K:
      return encode_q3_k;
    case DType::kQ4K:
      return encode_q4_k;
    case DType::kQ5K:
      return encode_q5_k;
    case DType::kQ6K:
      return encode_q6_k;
    case DType::kIq4Nl:
      return encode_iq4_nl;
    case DType::kIq4Xs:
      return encode_iq4_xs;
    case DType::kMxfp4:
      return encode_mxfp4;
    default:
      return nullptr;
  }
}

// The type with blocks of 32 that has at least the bits of one with blocks of 256.
DType smaller_blocks(DType dtype) {
  switch (dtype) {
    case DType::kQ2K:
    case DType::kQ3K:
    case DType::kIq4Xs:
      return DType::kIq4Nl;
    case DType::kQ4K:
      return DType::kQ5_0;
    case DType::kQ5K:
      return DType::kQ5_1;
    case DType::kQ6K:
      return DType::kQ8_0;
    default:
      return dtype;
  }
}

}  // namespace

bool can_quantize(DType dtype) {
  return encoder_of(dtype) != nullptr;
}

void quantize_row(DType dtype, std::span<const float> values, std::byte* out) {
  const Encoder encode = encoder_of(dtype);
  const BlockShape block = block_shape(dtype);
  CAIRN_CHECK(encode != nullptr && values.size() % block.n_elements == 0, to_string(dtype));
  for (size_t i = 0; i < values.size(); i += block.n_elements, out += block.n_bytes) {
    encode(values.data() + i, out);
  }
}

DType fitting_dtype(DType dtype, size_t n_in) {
  if (n_in % block_shape(dtype).n_elements == 0) return dtype;
  const DType smaller = smaller_blocks(dtype);
  return n_in % block_shape(smaller).n_elements == 0 ? smaller : DType::kF16;
}

}  // namespace cairn
