#include "tensor/quant.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace cairn {

namespace {

// The values of iq4_nl and iq4_xs, and twice those of e2m1 (so that they are whole).
constexpr std::array<int8_t, 16> kIq4Values = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr std::array<int8_t, 16> kE2m1Doubled = {
    0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

uint8_t byte_at(const std::byte* p, size_t i) {
  return static_cast<uint8_t>(p[i]);
}

float f16_at(const std::byte* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof(half));
  return f16_to_f32(half);
}

// Half a block's codes in the low nibbles of n bytes, the other half in the high ones.
void split_nibbles(const std::byte* p, size_t n, uint8_t* out) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = byte_at(p, i) & 0xf;
    out[n + i] = byte_at(p, i) >> 4;
  }
}

void look_up(const std::array<int8_t, 16>& values, size_t n, uint8_t* codes) {
  for (size_t i = 0; i < n; ++i) codes[i] = static_cast<uint8_t>(values[codes[i]] + 128);
}

void decode_q8_0(const std::byte* p, BlockCodes* out) {
  out->d = f16_at(p);
  for (size_t i = 0; i < 32; ++i) out->codes[i] = byte_at(p, 2 + i) ^ 0x80U;
}

// The fifth bits of 32 codes, one a bit of a little-endian word.
void add_fifth_bits(const std::byte* p, uint8_t* codes) {
  for (size_t i = 0; i < 32; ++i) {
    const unsigned bit = (byte_at(p, i / 8) >> (i % 8)) & 1U;
    codes[i] = static_cast<uint8_t>(codes[i] | (bit << 4));
  }
}

void decode_q5(const std::byte* p, bool has_min, BlockCodes* out) {
  out->d = f16_at(p);
  if (has_min) out->m = f16_at(p + 2);
  const std::byte* high = p + (has_min ? 4 : 2);
  split_nibbles(high + 4, 16, out->codes);
  add_fifth_bits(high, out->codes);
}

// Two bits of each of 64 bytes, at four shifts: 256 codes, 128 from each half of the bytes.
void decode_crumbs(const std::byte* p, uint8_t* out) {
  for (size_t i = 0; i < 256; ++i) {
    const size_t shift = i % 128 / 32 * 2;
    out[i] = static_cast<uint8_t>((byte_at(p, i / 128 * 32 + i % 32) >> shift) & 3U);
  }
}

void decode_q2_k(const std::byte* p, BlockCodes* out) {
  for (size_t g = 0; g < 16; ++g) {
    out->scales[g] = static_cast<int8_t>(byte_at(p, g) & 0xf);
    out->mins[g] = static_cast<int8_t>(byte_at(p, g) >> 4);
  }
  decode_crumbs(p + 16, out->codes);
  out->d = f16_at(p + 80);
  out->m = -f16_at(p + 82);
}

void decode_q3_k(const std::byte* p, BlockCodes* out) {
  decode_crumbs(p + 32, out->codes);
  for (size_t i = 0; i < 256; ++i) {
    const unsigned high = (byte_at(p, i % 32) >> (i / 32)) & 1U;
    out->codes[i] = static_cast<uint8_t>(out->codes[i] | (high << 2));
  }
  const std::byte* scales = p + 96;  // 16 of 6 bits: eight bytes of low halves, four of high pairs
  for (size_t g = 0; g < 16; ++g) {
    const unsigned low = g < 8 ? byte_at(scales, g) & 0xfU : byte_at(scales, g - 8) >> 4U;
    const unsigned high = (byte_at(scales, 8 + g % 4) >> (2 * (g / 4))) & 3U;
    out->scales[g] = static_cast<int8_t>(static_cast<int>(low | (high << 4)) - 32);
  }
  out->d = f16_at(p + 108);
}

// Eight scales and eight minima of 6 bits in 12 bytes: the upper two bits of the last four of each
// lie above the first four.
void decode_k_scales(const std::byte* p, BlockCodes* out) {
  for (size_t g = 0; g < 4; ++g) {
    out->scales[g] = static_cast<int8_t>(byte_at(p, g) & 63);
    out->mins[g] = static_cast<int8_t>(byte_at(p, 4 + g) & 63);
    out->scales[4 + g] =
        static_cast<int8_t>((byte_at(p, 8 + g) & 0xf) | ((byte_at(p, g) >> 6) << 4));
    out->mins[4 + g] =
        static_cast<int8_t>((byte_at(p, 8 + g) >> 4) | ((byte_at(p, 4 + g) >> 6) << 4));
  }
}

void decode_q45_k(const std::byte* p, bool five_bits, BlockCodes* out) {
  out->d = f16_at(p);
  out->m = -f16_at(p + 2);
  decode_k_scales(p + 4, out);
  const std::byte* low = p + (five_bits ? 48 : 16);
  for (size_t pair = 0; pair < 4; ++pair) {
    split_nibbles(low + 32 * pair, 32, out->codes + 64 * pair);
  }
  for (size_t i = 0; i < 256 && five_bits; ++i) {
    const unsigned high = (byte_at(p, 16 + i % 32) >> (i / 32)) & 1U;
    out->codes[i] = static_cast<uint8_t>(out->codes[i] | (high << 4));
  }
}

void decode_q6_k(const std::byte* p, BlockCodes* out) {
  for (size_t half = 0; half < 2; ++half) {
    uint8_t* codes = out->codes + 128 * half;
    split_nibbles(p + 64 * half, 64, codes);
    for (size_t i = 0; i < 128; ++i) {
      const unsigned high = (byte_at(p, 128 + 32 * half + i % 32) >> (i / 32 * 2)) & 3U;
      codes[i] = static_cast<uint8_t>(codes[i] | (high << 4));
    }
  }
  std::memcpy(out->scales, p + 192, 16);
  out->d = f16_at(p + 208);
}

void decode_iq4_xs(const std::byte* p, BlockCodes* out) {
  out->d = f16_at(p);
  for (size_t g = 0; g < 8; ++g) {
    const unsigned low = (byte_at(p, 4 + g / 2) >> (g % 2 * 4)) & 0xfU;
    const unsigned high = (byte_at(p, 2 + g / 4) >> (g % 4 * 2)) & 3U;
    out->scales[g] = static_cast<int8_t>(static_cast<int>(low | (high << 4)) - 32);
    split_nibbles(p + 8 + 16 * g, 16, out->codes + 32 * g);
  }
  look_up(kIq4Values, 256, out->codes);
}

void decode_mxfp4(const std::byte* p, BlockCodes* out) {
  const uint32_t e = byte_at(p, 0);  // halved, because the values are doubled: 2^(e - 128)
  out->d = std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1) << 23);
  split_nibbles(p + 1, 16, out->codes);
  look_up(kE2m1Doubled, 32, out->codes);
}

}  // namespace

BlockScheme block_scheme(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
    case DType::kIq4Nl:
    case DType::kMxfp4:
      return {8, 32, 128, false, false};
    case DType::kQ4_0:
      return {4, 32, 8, false, false};
    case DType::kQ4_1:
      return {4, 32, 0, true, false};
    case DType::kQ5_0:
      return {5, 32, 16, false, false};
    case DType::kQ5_1:
      return {5, 32, 0, true, false};
    case DType::kQ2K:
      return {2, 16, 0, true, true};
    case DType::kQ3K:
      return {3, 16, 4, false, true};
    case DType::kQ4K:
      return {4, 32, 0, true, true};
    case DType::kQ5K:
      return {5, 32, 0, true, true};
    case DType::kQ6K:
      return {6, 16, 32, false, true};
    case DType::kIq4Xs:
      return {8, 32, 128, false, true};
    default:
      check_failed("block type", __FILE__, __LINE__, "this type has no blocks");
  }
}

void decode_block(DType dtype, const std::byte* block, BlockCodes* out) {
  const BlockScheme scheme = block_scheme(dtype);
  if (!scheme.two_level) {
    out->scales[0] = 1;
    out->mins[0] = 1;
  }
  switch (dtype) {
    case DType::kQ8_0:
      return decode_q8_0(block, out);
    case DType::kQ4_0:
    case DType::kIq4Nl:
      out->d = f16_at(block);
      split_nibbles(block + 2, 16, out->codes);
      if (dtype == DType::kIq4Nl) look_up(kIq4Values, 32, out->codes);
      return;
    case DType::kQ4_1:
      out->d = f16_at(block);
      out->m = f16_at(block + 2);
      return split_nibbles(block + 4, 16, out->codes);
    case DType::kQ5_0:
    case DType::kQ5_1:
      return decode_q5(block, scheme.has_min, out);
    case DType::kQ2K:
      return decode_q2_k(block, out);
    case DType::kQ3K:
      return decode_q3_k(block, out);
    case DType::kQ4K:
    case DType::kQ5K:
      return decode_q45_k(block, dtype == DType::kQ5K, out);
    case DType::kQ6K:
      return decode_q6_k(block, out);
    case DType::kIq4Xs:
      return decode_iq4_xs(block, out);
    case DType::kMxfp4:
      return decode_mxfp4(block, out);
    default:
      check_failed("block type", __FILE__, __LINE__, "this type has no blocks");
  }
}

float float_element(DType dtype, const std::byte* bytes, size_t idx) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, bytes + 4 * idx, sizeof(value));
    return value;
  }
  CAIRN_CHECK(dtype == DType::kBf16 || dtype == DType::kF16, "f32, bf16 or f16");
  uint16_t half;
  std::memcpy(&half, bytes + 2 * idx, sizeof(half));
  return dtype == DType::kBf16 ? bf16_to_f32(half) : f16_to_f32(half);
}

void dequantize_row(DType dtype, const std::byte* blocks, size_t n, float* out) {
  if (!is_block_type(dtype)) {
    for (size_t i = 0; i < n; ++i) out[i] = float_element(dtype, blocks, i);
    return;
  }
  const BlockShape shape = block_shape(dtype);
  const BlockScheme scheme = block_scheme(dtype);
  CAIRN_CHECK(n % shape.n_elements == 0, "a row is a whole number of blocks");
  BlockCodes block;
  for (size_t at = 0; at < n; at += shape.n_elements, blocks += shape.n_bytes) {
    decode_block(dtype, blocks, &block);
    for (size_t i = 0; i < shape.n_elements; ++i) {
      const size_t g = i / scheme.group_size;
      const int level = block.codes[i] - static_cast<int>(scheme.zero);
      const float product = block.d * static_cast<float>(block.scales[g]) *
                            static_cast<float>(level);  // exact, see the header
      out[at + i] =
          scheme.has_min ? product + block.m * static_cast<float>(block.mins[g]) : product;
    }
  }
}

void decode_affine_codes(
    const std::byte* words, uint32_t bits, size_t begin, size_t n, uint8_t* out) {
  // Eight codes fill `bits` whole bytes, whatever the width.
  const std::byte* p = words + begin / 8 * bits;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  for (size_t i = 0; i < n; i += 8, p += bits) {
    uint64_t stream = 0;
    for (size_t b = 0; b < bits; ++b) stream |= uint64_t{byte_at(p, b)} << (8 * b);
    for (size_t j = 0; j < 8; ++j) out[i + j] = static_cast<uint8_t>((stream >> (j * bits)) & mask);
  }
}

void dequantize_affine_row(const AffineRow& row, size_t n, float* out) {
  CAIRN_CHECK(row.group_size != 0 && row.group_size % 8 == 0 && n % row.group_size == 0,
              "a row is a whole number of groups, and those of eight codes");
  CAIRN_CHECK(row.bits >= 1 && row.bits <= 8 && row.words.size() >= n / 8 * row.bits,
              "a row of affine codes has n * bits / 8 bytes");
  uint8_t codes[8];
  for (size_t at = 0; at < n; at += 8) {
    const float scale = float_element(row.scale_dtype, row.scales.data(), at / row.group_size);
    const float bias = float_element(row.scale_dtype, row.biases.data(), at / row.group_size);
    decode_affine_codes(row.words.data(), row.bits, at, 8, codes);
    for (size_t j = 0; j < 8; ++j)
      out[at + j] = std::fma(scale, static_cast<float>(codes[j]), bias);
  }
}

}  // namespace cairn
