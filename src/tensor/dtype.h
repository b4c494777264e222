// Element types, block-quantised ones included, and the exact conversions between the small floats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn {

enum class DType {
  kF32,
  kF16,
  kBf16,
  kF64,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool,
  // Blocks along the innermost axis, byte for byte as GGUF stores them (ggml's names).
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Nl,
  kIq4Xs,
  kMxfp4,
};

// The block types, for those who walk over all of them.
inline constexpr DType kBlockTypes[] = {DType::kQ8_0,
                                        DType::kQ4_0,
                                        DType::kQ4_1,
                                        DType::kQ5_0,
                                        DType::kQ5_1,
                                        DType::kQ2K,
                                        DType::kQ3K,
                                        DType::kQ4K,
                                        DType::kQ5K,
                                        DType::kQ6K,
                                        DType::kIq4Nl,
                                        DType::kIq4Xs,
                                        DType::kMxfp4};

// n_elements values in n_bytes bytes; {1, size} for the plain types. The innermost dimension of a
// tensor is a whole number of blocks.
struct BlockShape {
  size_t n_elements = 1;
  size_t n_bytes = 0;
};

BlockShape block_shape(DType dtype);
bool is_block_type(DType dtype);
size_t dtype_bytes(DType dtype);          // of one element; aborts for block types
std::string_view to_string(DType dtype);  // "f32", "bf16", "q4_k", ...

using Bf16 = uint16_t;  // bit patterns; arithmetic happens in f32
using F16 = uint16_t;

inline float bf16_to_f32(Bf16 v) {
  return std::bit_cast<float>(static_cast<uint32_t>(v) << 16);
}

// Round half to even; NaN stays NaN (quiet).
inline Bf16 f32_to_bf16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  if ((u & 0x7fffffffU) > 0x7f800000U) return static_cast<Bf16>((u >> 16) | 0x40U);
  return static_cast<Bf16>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
}

float f16_to_f32(F16 v);
F16 f32_to_f16(float v);  // round half to even

}  // namespace cairn
