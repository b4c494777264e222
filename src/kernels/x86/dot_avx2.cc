// Products and attention of the class avx2: bf16 is widened to f32, sums are FMA chains.
#include <immintrin.h>

#include "kernels/dispatch.h"

#define CAIRN_TARGET "avx2,fma,f16c"
#define CAIRN_UNROLL _Pragma("GCC unroll 8")

namespace cairn {

namespace {

// Sixteen registers of eight lanes: eight sums, and room for a row's weights and a splat of x.
template <class Kind>
constexpr int kMaxRows = 4;

template <int R>
constexpr int kColumns = R == 1 ? 4 : (R == 2 ? 2 : 1);

// In this order: each uses what comes before it.
// clang-format off
#include "kernels/x86/vec256.inc"
#include "kernels/x86/tile.inc"
#include "kernels/x86/matmul.inc"
#include "kernels/x86/softmax.inc"
#include "kernels/x86/attend.inc"
// clang-format on

// Most rows and vectors of a tile of the byte products: sixteen registers.
constexpr int kQuantRows = 2;
constexpr int kQuantColumns = 1;

// What dot_bytes takes off every code.
template <unsigned kBits>
constexpr int32_t kCodeBias = kBits == 8 ? 128 : 0;

CAIRN_INLINE __m256i add_pairs(__m256i sum, __m256i w, __m256i x) {
  const __m256i pairs = _mm256_maddubs_epi16(w, x);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// Codes below 128 cannot overflow the 16 bits of a pair; 8-bit ones are made signed, and their
// signs go over to x, for the same reason.
CAIRN_INLINE __m256i add_signed_pairs(__m256i sum, __m256i w, __m256i x) {
  const __m256i level = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
  return add_pairs(sum, _mm256_abs_epi8(level), _mm256_sign_epi8(x, level));
}

template <unsigned kBits>
CAIRN_INLINE Words dot_bytes(Words sum, Words w, Words x) {
  if constexpr (kBits == 8) {
    return {add_signed_pairs(sum.lo, w.lo, x.lo), add_signed_pairs(sum.hi, w.hi, x.hi)};
  }
  return {add_pairs(sum.lo, w.lo, x.lo), add_pairs(sum.hi, w.hi, x.hi)};
}

#include "kernels/x86/quant.inc"

}  // namespace

const DotKernels& dot_kernels_avx2() {
  static constexpr DotKernels kKernels = {
      .matmul_f32 = matmul_part<F32Kind>,
      .matmul_bf16 = matmul_part<WideKind>,
      .matmul_bf16_exact = matmul_part<WideKind>,
      .round_rows = round_rows_wide,
      .matmul_quant = matmul_quant_part,
      .matmul_quant_exact = matmul_quant_exact_part,
      .quantize_rows = quantize_rows_part,
      .rounds_to_pairs = false,
      .attend_f32 = attend_part<F32Rows>,
      .attend_bf16 = attend_part<WideRows>,
      .attend_merge = attend_merge_part,
  };
  return kKernels;
}

}  // namespace cairn
