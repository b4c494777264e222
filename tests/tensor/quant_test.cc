#include "tensor/quant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace cairn {
namespace {

// Three blocks of SplitMix64 bytes (seed 77), their halves set to finite numbers: the first value
// after d at 0x2a3d, the second (m) at 0x9c3e; mxfp4's exponents to 121, 0 and 1. The expected
// values were computed in numpy from the definitions (gguf-py's quants.py and ggml's
// dequantize_row_*, llama.cpp 150f157; q6_k by the project's float64 peer reference). `hash` is
// FNV-1a (64 bits) over the values as little-endian f32, -0 made 0.
struct Golden {
  DType dtype;
  uint64_t hash;
  float second, last;
  std::vector<size_t> halves;
};

const Golden kGolden[] = {
    {DType::kQ8_0, 0x756e5f38d7fe914eU, 6.0433349609375F, -0.1949462890625F, {0}},
    {DType::kQ4_0, 0x74491681ef53d152U, 0.1949462890625F, 0.09747314453125F, {0}},
    {DType::kQ4_1, 0xd2ff18a06d525e42U, 0.5319595336914062F, 0.19080352783203125F, {0, 2}},
    {DType::kQ5_0, 0x7c41a256631e730eU, 0.09747314453125F, -0.68231201171875F, {0}},
    {DType::kQ5_1, 0x292c7039a32ccf4dU, 0.6781692504882812F, 1.0680618286132812F, {0, 2}},
    {DType::kQ2K, 0xbe278cfdc13a859aU, 0.130615234375F, 0.0F, {80, 82}},
    {DType::kQ3K, 0x17f37989ea4773f5U, -2.777984619140625F, 3.947662353515625F, {108}},
    {DType::kQ4K, 0xeb025553d3934c03U, 9.440277099609375F, 1.07611083984375F, {0, 2}},
    {DType::kQ5K, 0xd5bc9dfe7694693dU, 23.476409912109375F, 13.435699462890625F, {0, 2}},
    {DType::kQ6K, 0xa81248528ddd476bU, -53.025390625F, -15.839385986328125F, {208}},
    {DType::kIq4Nl, 0x00b10847206189d3U, 2.583038330078125F, 1.218414306640625F, {0}},
    {DType::kIq4Xs, 0x4a00274736ce0d7eU, 69.40087890625F, -22.0289306640625F, {0}},
    {DType::kMxfp4, 0x23cd55bfea08989eU, -0.09375F, -5.877471754111438e-39F, {}},
};

std::vector<std::byte> split_mix_bytes(uint64_t state, size_t n) {
  std::vector<std::byte> out;
  while (out.size() < n) {
    state += 0x9e3779b97f4a7c15U;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    z ^= z >> 31;
    for (unsigned i = 0; i < 8 && out.size() < n; ++i) out.push_back(std::byte(z >> (8 * i)));
  }
  return out;
}

std::vector<std::byte> golden_blocks(const Golden& golden) {
  const size_t n = block_shape(golden.dtype).n_bytes;
  std::vector<std::byte> bytes = split_mix_bytes(77, 3 * n);
  for (size_t block = 0; block < 3; ++block) {
    for (size_t i = 0; i < golden.halves.size(); ++i) {
      bytes[block * n + golden.halves[i]] = std::byte(0x3d + i);
      bytes[block * n + golden.halves[i] + 1] = std::byte(i == 0 ? 0x2a : 0x9c);
    }
  }
  if (golden.dtype == DType::kMxfp4) {
    bytes[0] = std::byte{121};
    bytes[n] = std::byte{0};
    bytes[2 * n] = std::byte{1};
  }
  return bytes;
}

uint64_t fnv1a(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const float value : values) {
    const float plain = value == 0 ? 0 : value;
    unsigned char bytes[4];
    std::memcpy(bytes, &plain, 4);
    for (const unsigned char b : bytes) hash = (hash ^ b) * 0x100000001b3U;
  }
  return hash;
}

TEST(Quant, BlocksHaveTheValuesOfTheirDefinition) {
  for (const Golden& golden : kGolden) {
    // One byte further on, because a file aligns nothing.
    std::vector<std::byte> bytes = golden_blocks(golden);
    bytes.insert(bytes.begin(), std::byte{0});
    std::vector<float> values(3 * block_shape(golden.dtype).n_elements);
    dequantize_row(golden.dtype, bytes.data() + 1, values.size(), values.data());
    EXPECT_EQ(values[1], golden.second) << to_string(golden.dtype);
    EXPECT_EQ(values.back(), golden.last) << to_string(golden.dtype);
    EXPECT_EQ(fnv1a(values), golden.hash) << to_string(golden.dtype);
  }
}

TEST(Quant, ASchemeSaysWhatItsCodesMean) {
  for (const Golden& golden : kGolden) {
    const BlockScheme scheme = block_scheme(golden.dtype);
    const BlockShape shape = block_shape(golden.dtype);
    EXPECT_EQ(shape.n_elements % scheme.group_size, 0U);
    EXPECT_LE(shape.n_elements / scheme.group_size, kBlockGroupsMax);
    BlockCodes block;
    decode_block(golden.dtype, golden_blocks(golden).data(), &block);
    for (size_t i = 0; i < shape.n_elements; ++i) ASSERT_LT(block.codes[i], 1U << scheme.bits);
  }
}

TEST(Quant, PlainTypesAreWidened) {
  const float value = -1.5F;
  const F16 half = f32_to_f16(value);
  const Bf16 brain = f32_to_bf16(value);
  float out = 0;
  dequantize_row(DType::kF32, reinterpret_cast<const std::byte*>(&value), 1, &out);
  EXPECT_EQ(out, value);
  dequantize_row(DType::kF16, reinterpret_cast<const std::byte*>(&half), 1, &out);
  EXPECT_EQ(out, value);
  dequantize_row(DType::kBf16, reinterpret_cast<const std::byte*>(&brain), 1, &out);
  EXPECT_EQ(out, value);
}

TEST(Quant, AffineRowsOfEveryWidthAndScaleType) {
  const size_t n = 96;
  const size_t group = 32;
  for (const uint32_t bits : {2U, 3U, 4U, 5U, 6U, 8U}) {
    std::vector<uint32_t> codes(n);
    std::vector<uint32_t> words(n * bits / 32);
    for (size_t i = 0; i < n; ++i) {
      codes[i] = static_cast<uint32_t>(i * 37 + 5) & ((1U << bits) - 1);
      for (uint32_t b = 0; b < bits; ++b) {  // bit by bit: the definition
        const size_t at = i * bits + b;
        words[at / 32] |= ((codes[i] >> b) & 1U) << (at % 32);
      }
    }
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
      const std::vector<float> scales = {0.125F, -3.0F, 0x1.8p-9F};
      const std::vector<float> biases = {-1.0F, 0.0F, 0.375F};
      std::vector<uint16_t> narrow[2] = {std::vector<uint16_t>(3), std::vector<uint16_t>(3)};
      for (size_t g = 0; g < 3; ++g) {
        narrow[0][g] = dtype == DType::kF16 ? f32_to_f16(scales[g]) : f32_to_bf16(scales[g]);
        narrow[1][g] = dtype == DType::kF16 ? f32_to_f16(biases[g]) : f32_to_bf16(biases[g]);
      }
      const bool wide = dtype == DType::kF32;
      const AffineRow row{
          std::as_bytes(std::span(words)),
          wide ? std::as_bytes(std::span(scales)) : std::as_bytes(std::span(narrow[0])),
          wide ? std::as_bytes(std::span(biases)) : std::as_bytes(std::span(narrow[1])),
          dtype,
          bits,
          group};
      std::vector<float> out(n);
      dequantize_affine_row(row, n, out.data());
      for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(out[i], scales[i / group] * static_cast<float>(codes[i]) + biases[i / group])
            << bits << " bits, element " << i;
      }
      uint8_t some[16];
      decode_affine_codes(row.words.data(), bits, 40, 16, some);
      for (size_t i = 0; i < 16; ++i) ASSERT_EQ(some[i], codes[40 + i]);
    }
  }
}

}  // namespace
}  // namespace cairn
