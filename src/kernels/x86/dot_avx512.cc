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
struct HalfKind;

template <class Kind>
constexpr int kMaxRows = 6;

template <>
constexpr int kMaxRows<WideKind> = 4;

template <>
constexpr int kMaxRows<HalfKind> = 4;

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
constexpr size_t kQuantRows = 3;

template <int R>
constexpr int kQuantColumns = 4;

template <bool kSigned>
CAIRN_INLINE Words multiply_bytes(Words w, Words x) {
  if constexpr (kSigned) {
    const __m512i level = _mm512_xor_si512(w.v, _mm512_set1_epi8(-128));
    const __mmask64 negative = _mm512_movepi8_mask(level);
    x.v = _mm512_mask_sub_epi8(x.v, negative, _mm512_setzero_si512(), x.v);
    w.v = _mm512_abs_epi8(level);
  }
  return {_mm512_maddubs_epi16(w.v, x.v)};
}

CAIRN_INLINE Words add_shorts(Words a, Words b) {
  return {_mm512_add_epi16(a.v, b.v)};
}

CAIRN_INLINE Words sum_pairs(Words a) {
  return {_mm512_madd_epi16(a.v, _mm512_set1_epi16(1))};
}

#include "kernels/x86/byte_pairs.inc"
#include "kernels/x86/quant.inc"

}  // namespace

const DotKernels& dot_kernels_avx512() {
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
