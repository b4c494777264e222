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

}  // namespace

const DotKernels& dot_kernels_avx2() {
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
