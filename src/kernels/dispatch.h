// The one table through which the CPU backend reaches code for an instruction set.
//
// An entry is a whole operation on a part of its outputs; it is chosen once, when the backend is
// made, never per row. Entries are plain functions on plain structs, because they are compiled
// under target attributes: nothing inline may be shared between targets (the linker would keep one
// copy of it, perhaps the AVX-512 one). Thread: any; parts write disjoint outputs. Nothing here
// allocates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/quant_format.h"

namespace cairn {

inline constexpr size_t kPanelRows = 64;     // outputs of a weight panel, in SIMD lanes
inline constexpr size_t kSplitTokens = 512;  // absolute split of attention (DESIGN 4.3)
inline constexpr size_t kMaxHeadDim = 512;
inline constexpr size_t kAttendRows = 48;     // most (position, head) rows of one AttendPart
inline constexpr size_t kReduceBlock = 4096;  // logits of one block of sum_exp
inline constexpr size_t kMatmulRows =
    240;  // most rows of one MatmulPart; its sums take 60 KiB of stack

// One group of one row of activations, quantised: x is about scale * code.
struct QuantGroup {
  float scale = 0;       // largest |x| / 127; 0 where that is below 2^-100
  float scaled_sum = 0;  // scale * sum, what a minimum of weights is multiplied by
  int32_t sum = 0;       // of the codes
};

// Rows [row_begin, row_end) x panels [panel_begin, panel_end) of a product.
struct MatmulPart {
  // f32 [panel][n_in][64], bf16 and f16 [panel][(n_in + 1) / 2][64][2], or as *format says.
  const std::byte* panels = nullptr;
  const QuantFormat* format = nullptr;  // null for floats
  size_t n_in = 0;
  size_t n_out = 0;
  const float* bias = nullptr;  // [n_out] or null
  // Row r at x + r * x_stride words of 4 bytes: f32 values, or bf16 pairs (n_in odd: zero-padded).
  const uint32_t* x = nullptr;
  size_t x_stride = 0;
  // Fast products with quantised weights read these instead: codes [n_in] and groups of row r.
  const int8_t* x_codes = nullptr;
  size_t x_codes_stride = 0;
  const QuantGroup* x_groups = nullptr;
  size_t x_groups_stride = 0;
  float* out = nullptr;  // row r at out + r * out_stride, [n_out]
  size_t out_stride = 0;
  bool add_to_out = false;
  size_t row_begin = 0;
  size_t row_end = 0;  // at most kMatmulRows after row_begin
  size_t panel_begin = 0;
  size_t panel_end = 0;
};

// Activations of rows [row_begin, row_end) rounded to bf16 (half to even), once per product.
struct RoundPart {
  const float* x = nullptr;  // [n_rows, dim]
  size_t dim = 0;
  uint32_t* out = nullptr;  // row r at out + r * out_stride words: f32 values or bf16 pairs, as the
  size_t out_stride = 0;    // class's bf16 product wants them; an odd last pair is padded with zero
  size_t row_begin = 0;
  size_t row_end = 0;
};

// Activations quantised: symmetric, a scale for each row and group, halves to even.
struct QuantizePart {
  const float* x = nullptr;  // [n_rows, dim]
  size_t dim = 0;            // a multiple of group_size
  size_t group_size = 0;     // a multiple of 16
  int8_t* codes = nullptr;
  size_t codes_stride = 0;
  QuantGroup* groups = nullptr;
  size_t groups_stride = 0;
  size_t row_begin = 0;
  size_t row_end = 0;
};

// Query rows [row_begin, row_end) of one segment for one kv head, over splits [split_begin,
// split_end).
struct AttendPart {
  const float* q = nullptr;  // of the segment's first row and the group's first query head
  size_t q_stride = 0;
  size_t group = 0;  // query heads of the kv head
  size_t head_dim = 0;
  float scale = 0;
  size_t window = 0;     // 0 = all
  size_t pos_begin = 0;  // of the segment's first row
  std::byte* const* pages = nullptr;
  size_t page_tokens = 0;
  size_t strip_bytes = 0;
  size_t k_offset = 0;  // of the kv head's strips in a page
  size_t v_offset = 0;
  size_t row_begin = 0;
  size_t row_end = 0;     // (row_end - row_begin) * group <= kAttendRows, unless that is one row
  size_t head_begin = 0;  // query heads [head_begin, head_end) of the group
  size_t head_end = 0;
  size_t split_begin = 0;
  size_t split_end = 0;
  float* out = nullptr;  // as q: of the segment's first row and the group's first query head
  size_t out_stride = 0;
  // Null: merge the splits here and write `out`. Else split results {max, sum, acc[head_dim]} go to
  // partial + ((row * group + head) * n_splits + split) * (head_dim + 2), for attend_merge; row
  // counts from row_begin, split is absolute, n_splits is one past the last one.
  float* partial = nullptr;
  size_t n_splits = 0;
};

struct DotKernels {
  void (*matmul_f32)(const MatmulPart&) = nullptr;
  void (*matmul_f16)(const MatmulPart&) = nullptr;         // f16 weights, x in f32
  void (*matmul_bf16)(const MatmulPart&) = nullptr;        // bf16 weights, x as round_rows left it
  void (*matmul_bf16_exact)(const MatmulPart&) = nullptr;  // bf16 weights, x in f32
  void (*round_rows)(const RoundPart&) = nullptr;
  void (*matmul_quant)(const MatmulPart&) = nullptr;        // x as quantize_rows left it
  void (*matmul_quant_exact)(const MatmulPart&) = nullptr;  // x in f32, weights at their values
  void (*quantize_rows)(const QuantizePart&) = nullptr;
  bool rounds_to_pairs = false;  // round_rows makes bf16 pairs (else f32 values)
  void (*attend_f32)(const AttendPart&) = nullptr;
  void (*attend_bf16)(const AttendPart&) = nullptr;
  void (*attend_merge)(const AttendPart&) = nullptr;  // merges `partial` in split order into `out`
};

const DotKernels& dot_kernels_avx2();
const DotKernels& dot_kernels_avx512();
const DotKernels& dot_kernels_avx512bf16();

// Rows [row_begin, row_end) of the step.
struct RopePart {
  const RopeAppendArgs* args = nullptr;
  const RowSegment* segment = nullptr;
  size_t row_begin = 0;
  size_t row_end = 0;
};

struct ElementwiseKernels {
  void (*rms_norm)(const RmsNormArgs&, size_t row_begin, size_t row_end) = nullptr;
  // Norm, turn, and write K and V of rows of one segment (RopePart counts rows of the step).
  void (*rope_append)(const RopePart&) = nullptr;
  // Columns [begin, end) of one row of the output.
  void (*gate)(const GateArgs&, size_t row, size_t begin, size_t end) = nullptr;
  // Largest value of x[0, n) and its first index; NaN never wins.
  void (*arg_max)(const float* x, size_t n, float* max, uint32_t* idx) = nullptr;
  // Sum of exp(x - max) over at most kReduceBlock values.
  double (*sum_exp)(const float* x, size_t n, float max) = nullptr;
};

const ElementwiseKernels& elementwise_kernels(Isa isa);

}  // namespace cairn
