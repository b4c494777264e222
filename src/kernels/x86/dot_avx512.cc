// Products and attention of the class avx512: bf16 is widened to f32, sums are FMA chains.
#include <immintrin.h>

#include "kernels/dispatch.h"

#define CAIRN_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"
#define CAIRN_UNROLL _Pragma("GCC unroll 8")

namespace cairn {

namespace {

// Thirty-two registers: at most 24 sums, four vectors of weights, a splat of x. Widening needs four
// more for the halves of the pairs, so its tiles are lower.
struct WideKind;

template <class Kind>
constexpr int kMaxRows = 6;

template <>
constexpr int kMaxRows<WideKind> = 4;

template <int R>
constexpr int kColumns = 4;

// In this order: each uses what comes before it.
// clang-format off
#include "kernels/x86/vec512.inc"
#include "kernels/x86/tile.inc"
#include "kernels/x86/matmul.inc"
#include "kernels/x86/softmax.inc"
#include "kernels/x86/attend.inc"
// clang-format on

// Most rows and vectors of a tile of the byte products: 24 sums, two kinds.
constexpr int kQuantRows = 3;
constexpr int kQuantColumns = 4;

// What dot_bytes takes off every code.
template <unsigned kBits>
constexpr int32_t kCodeBias = kBits == 8 ? 128 : 0;

// Without VNNI (the class does not ask for it): codes below 128 cannot overflow the 16 bits of a
// pair; 8-bit ones are made signed, and their signs go over to x, for the same reason.
template <unsigned kBits>
CAIRN_INLINE Words dot_bytes(Words sum, Words w, Words x) {
  if constexpr (kBits == 8) {
    const __m512i level = _mm512_xor_si512(w.v, _mm512_set1_epi8(-128));
    const __mmask64 negative = _mm512_movepi8_mask(level);
    x.v = _mm512_mask_sub_epi8(x.v, negative, _mm512_setzero_si512(), x.v);
    w.v = _mm512_abs_epi8(level);
  }
  const __m512i pairs = _mm512_maddubs_epi16(w.v, x.v);
  return {_mm512_add_epi32(sum.v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
}

#include "kernels/x86/quant.inc"

}  // namespace

const DotKernels& dot_kernels_avx512() {
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
