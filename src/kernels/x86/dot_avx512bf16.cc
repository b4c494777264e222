// Products and attention of the class avx512bf16: chains of VDPBF16PS, which multiplies pairs of
// bf16. It flushes denormals and rounds as the processor's manual says; f32 products are FMA
// chains.
#include <immintrin.h>

#include "kernels/dispatch.h"

#define CAIRN_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,avx2,fma,f16c"
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

// VPDPBUSD adds in 32 bits at once, so the number says nothing here.
template <unsigned kBits>
constexpr int kSafeQuads = 8;

// Four unsigned codes times four signed ones in each lane, added without saturation.
template <int kSafe>
CAIRN_INLINE void add_bytes(size_t, Words w, Words x, Words& dots, Words&) {
  dots = {_mm512_dpbusd_epi32(dots.v, w.v, x.v)};
}

#include "kernels/x86/quant.inc"

// bf16 pairs times bf16 pairs, one word of x a step. Inside an instruction the odd element of the
// pair is added before the even one.
struct PairKind {
  static constexpr size_t kWords = 1;
  static constexpr size_t kTokens = 2;

  CAIRN_INLINE static Vec dot(Vec sum, Words w, uint32_t x) {
    const __m512i pair = _mm512_set1_epi32(static_cast<int>(x));
    return {
        _mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(w.v), reinterpret_cast<__m512bh>(pair))};
  }

  template <int R, int M>
  CAIRN_INLINE static void step(Vec (&sums)[R][M],
                                const Words (&w)[M],
                                const uint32_t* const (&x)[R],
                                size_t at) {
    CAIRN_UNROLL
    for (int r = 0; r < R; ++r) {
      const uint32_t pair = word_at(x[r] + at);
      CAIRN_UNROLL
      for (int m = 0; m < M; ++m) sums[r][m] = dot(sums[r][m], w[m], pair);
    }
  }
};

CAIRN_INLINE __m256i to_bf16(Vec a) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(a.v));
}

// Sixteen values to eight pairs; fewer lanes leave zeros in the last pair only.
CAIRN_INLINE void store_pairs(uint32_t* out, Vec a, size_t lanes) {
  _mm256_mask_storeu_epi32(out, static_cast<__mmask8>(first_lanes((lanes + 1) / 2)), to_bf16(a));
}

// bf16 rows as they lie: q and p become bf16 pairs.
struct PairRows {
  using Kind = PairKind;
  using Exp2 = CoarseExp2;
  static constexpr size_t kPWords = 8;

  CAIRN_INLINE static void encode_query(const float* q, float scale, size_t n, uint32_t* out) {
    for (size_t d = 0; d < n; d += 16) {
      const size_t lanes = min_of(n - d, 16);
      store_pairs(out + d / 2, mul(load_part(q + d, lanes), splat(scale)), lanes);
    }
  }

  CAIRN_INLINE static Vec keep_two(Vec a, Vec b, Vec sum, uint32_t* out) {
    const Words pairs = {reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b.v, a.v))};
    _mm512_storeu_si512(out, pairs.v);
    return PairKind::dot(sum, pairs, 0x3f803f80U);  // times one, added by lanes
  }

  CAIRN_INLINE static Vec step_masked(
      Vec sum, Words w, const uint32_t* p, bool first, bool second) {
    const uint32_t keep = (first ? 0xffffU : 0U) | (second ? 0xffff0000U : 0U);
    return PairKind::dot(sum, mask_words(w, keep), word_at(p));
  }
};

CAIRN_FUNCTION void round_rows_pairs(const RoundPart& part) {
  for (size_t row = part.row_begin; row < part.row_end; ++row) {
    const float* x = part.x + row * part.dim;
    uint32_t* out = part.out + row * part.out_stride;
    for (size_t i = 0; i < part.dim; i += 16) {
      const size_t lanes = part.dim - i < 16 ? part.dim - i : 16;
      store_pairs(out + i / 2, load_part(x + i, lanes), lanes);
    }
  }
}

}  // namespace

const DotKernels& dot_kernels_avx512bf16() {
  static constexpr DotKernels kKernels = {
      .matmul_f32 = matmul_part<F32Kind>,
      .matmul_f16 = matmul_part<HalfKind>,
      .matmul_bf16 = matmul_part<PairKind>,
      .matmul_bf16_exact = matmul_part<WideKind>,
      .round_rows = round_rows_pairs,
      .matmul_quant = matmul_quant_part,
      .matmul_quant_exact = matmul_quant_exact_part,
      .quantize_rows = quantize_rows_part,
      .rounds_to_pairs = true,
      .attend_f32 = attend_part<F32Rows>,
      .attend_bf16 = attend_part<PairRows>,
      .attend_merge = attend_merge_part,
  };
  return kKernels;
}

}  // namespace cairn
