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

}  // namespace

const DotKernels& dot_kernels_avx512() {
  static constexpr DotKernels kKernels = {
      .matmul_f32 = matmul_part<F32Kind>,
      .matmul_bf16 = matmul_part<WideKind>,
      .matmul_bf16_exact = matmul_part<WideKind>,
      .round_rows = round_rows_wide,
      .rounds_to_pairs = false,
      .attend_f32 = attend_part<F32Rows>,
      .attend_bf16 = attend_part<WideRows>,
      .attend_merge = attend_merge_part,
  };
  return kKernels;
}

}  // namespace cairn
