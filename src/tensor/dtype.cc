#include "tensor/dtype.h"

#include "base/check.h"

namespace cairn {

BlockShape block_shape(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return {1, 1};
    case DType::kF16:
    case DType::kBf16:
    case DType::kI16:
    case DType::kU16:
      return {1, 2};
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
      return {1, 4};
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
      return {1, 8};
    case DType::kQ8_0:
      return {32, 34};
    case DType::kQ4_0:
    case DType::kIq4Nl:
      return {32, 18};
    case DType::kQ4_1:
      return {32, 20};
    case DType::kQ5_0:
      return {32, 22};
    case DType::kQ5_1:
      return {32, 24};
    case DType::kQ2K:
      return {256, 84};
    case DType::kQ3K:
      return {256, 110};
    case DType::kQ4K:
      return {256, 144};
    case DType::kQ5K:
      return {256, 176};
    case DType::kQ6K:
      return {256, 210};
    case DType::kIq4Xs:
      return {256, 136};
    case DType::kMxfp4:
      return {32, 17};
  }
  check_failed("known dtype", __FILE__, __LINE__, "the enum holds a value outside its list");
}

bool is_block_type(DType dtype) {
  return block_shape(dtype).n_elements > 1;
}

size_t dtype_bytes(DType dtype) {
  CAIRN_CHECK(!is_block_type(dtype), "an element of a block type has no bytes of its own");
  return block_shape(dtype).n_bytes;
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBf16:
      return "bf16";
    case DType::kF64:
      return "f64";
    case DType::kI8:
      return "i8";
    case DType::kU8:
      return "u8";
    case DType::kI16:
      return "i16";
    case DType::kU16:
      return "u16";
    case DType::kI32:
      return "i32";
    case DType::kU32:
      return "u32";
    case DType::kI64:
      return "i64";
    case DType::kU64:
      return "u64";
    case DType::kBool:
      return "bool";
    case DType::kQ8_0:
      return "q8_0";
    case DType::kQ4_0:
      return "q4_0";
    case DType::kQ4_1:
      return "q4_1";
    case DType::kQ5_0:
      return "q5_0";
    case DType::kQ5_1:
      return "q5_1";
    case DType::kQ2K:
      return "q2_k";
    case DType::kQ3K:
      return "q3_k";
    case DType::kQ4K:
      return "q4_k";
    case DType::kQ5K:
      return "q5_k";
    case DType::kQ6K:
      return "q6_k";
    case DType::kIq4Nl:
      return "iq4_nl";
    case DType::kIq4Xs:
      return "iq4_xs";
    case DType::kMxfp4:
      return "mxfp4";
  }
  return "unknown";
}

float f16_to_f32(F16 v) {
  const uint32_t sign = (v & 0x8000U) << 16;
  const uint32_t exponent = (v >> 10) & 0x1fU;
  const uint32_t fraction = v & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  // Subnormal: fraction * 2^-24, exact in f32.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

F16 f32_to_f16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  const uint32_t sign = (u >> 16) & 0x8000U;
  const uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<F16>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));  // NaN, made quiet
  }
  // From 65520 = halfway between the largest f16 and 2^16, everything rounds to infinity.
  if (magnitude >= 0x477ff000U) return static_cast<F16>(sign | 0x7c00U);
  if (magnitude < 0x38800000U) {
    // Below 2^-14 the result is subnormal: adding 0.5 lines its unit, 2^-24, up with the last bit
    // of the sum, so the hardware does the rounding.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<F16>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000U));
  }
  const uint32_t rounded = magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<F16>(sign | (rounded >> 13));
}

}  // namespace cairn
