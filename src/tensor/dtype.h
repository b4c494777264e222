// Element types, and the exact conversions between the small ones.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn {

enum class DType { kF32, kF16, kBf16, kF64, kI8, kU8, kI16, kU16, kI32, kU32, kI64, kU64, kBool };

size_t dtype_bytes(DType dtype);
std::string_view to_string(DType dtype);  // "f32", "bf16", ...

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
