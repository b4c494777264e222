// What block-quantised weights mean: one decoder of their bits, and the exact values in f32.
//
// Every format here is groups of unsigned codes with a scale and at most one offset a group:
//
//   w = (d * scale[g]) * (code - zero) + m * min[g]        g = index in the block / group_size
//
// d and m belong to the block; scale and min are small whole numbers (1 where a format has none).
// The products before the addition are exact in f32, so a value is rounded at most once and every
// program that computes in f32 gets the same one. Bytes may be unaligned and hostile: any bit
// pattern is a valid block. Thread: any. Source: the block structs of ggml (llama.cpp), the OCP
// Microscaling specification 1.0 for mxfp4 (e8m0 scales; 255 is read as 2^128, as llama.cpp does),
// and MLX's affine quantisation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace cairn {

inline constexpr size_t kBlockElementsMax = 256;
inline constexpr size_t kBlockGroupsMax = 16;

// What all blocks of a type share.
struct BlockScheme {
  uint32_t bits = 0;        // of a code; 8 for the codebook types, whose codes are value + 128
  uint32_t group_size = 0;  // 16 or 32
  uint32_t zero = 0;        // the code that stands for 0
  bool has_min = false;
  bool two_level = false;  // scale and min differ from 1
};

BlockScheme block_scheme(DType dtype);  // aborts for types that are not block types

struct BlockCodes {
  float d = 0;
  float m = 0;
  uint8_t codes[kBlockElementsMax];  // the first block_shape(dtype).n_elements are set
  int8_t scales[kBlockGroupsMax];    // the first n_elements / group_size are set
  int8_t mins[kBlockGroupsMax];      // the same; only where the type has them
};

// Reads one block of block_shape(dtype).n_bytes bytes.
void decode_block(DType dtype, const std::byte* block, BlockCodes* out);

// The exact values of a row of n elements, n a multiple of the block's. Also f32, bf16 and f16.
void dequantize_row(DType dtype, const std::byte* blocks, size_t n, float* out);

// A row of MLX's affine groups as it lies in three tensors (see AffineGroups in kernels).
struct AffineRow {
  std::span<const std::byte> words;   // n * bits / 8 bytes, a stream of bits, lowest first
  std::span<const std::byte> scales;  // n / group_size values of `dtype`
  std::span<const std::byte> biases;  // the same
  DType scale_dtype = DType::kF16;    // f16, bf16 or f32
  uint32_t bits = 0;                  // 1..8
  uint32_t group_size = 0;            // a multiple of 8
};

// Codes [begin, begin + n) of a stream of `bits`-bit numbers; begin and n multiples of 8.
void decode_affine_codes(
    const std::byte* words, uint32_t bits, size_t begin, size_t n, uint8_t* out);

// w = fma(scale, code, bias), for the n elements of the row, n a multiple of the group size.
void dequantize_affine_row(const AffineRow& row, size_t n, float* out);

// Element `idx` of f32, bf16 or f16 values that may be unaligned, widened. Aborts for other types.
float float_element(DType dtype, const std::byte* bytes, size_t idx);

}  // namespace cairn
