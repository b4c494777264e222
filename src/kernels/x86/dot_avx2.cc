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
constexpr size_t kQuantRows = 2;

template <int R>
constexpr int kQuantColumns = R == 1 ? 2 : 1;

CAIRN_INLINE __m256i multiply_half(__m256i w, __m256i x, bool is_signed) {
  if (!is_signed) return _mm256_maddubs_epi16(w, x);
  const __m256i level = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
  return _mm256_maddubs_epi16(_mm256_abs_epi8(level), _mm256_sign_epi8(x, level));
}

template <bool kSigned>
CAIRN_INLINE Words multiply_bytes(Words w, Words x) {
  return {multiply_half(w.lo, x.lo, kSigned), multiply_half(w.hi, x.hi, kSigned)};
}

CAIRN_INLINE Words add_shorts(Words a, Words b) {
  return {_mm256_add_epi16(a.lo, b.lo), _mm256_add_epi16(a.hi, b.hi)};
}

CAIRN_INLINE Words sum_pairs(Words a) {
  const __m256i one = _mm256_set1_epi16(1);
  return {_mm256_madd_epi16(a.lo, one), _mm256_madd_epi16(a.hi, one)};
}

#include "kernels/x86/byte_pairs.inc"
#include "kernels/x86/quant.inc"

}  // namespace

const DotKernels& dot_kernels_avx2() {
  static constexpr DotKernels kKernels = {
      .matmul_f32 = matmul_part<F32Kind>,
      .matmul_f16 = matmul_part<HalfKind>,
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
