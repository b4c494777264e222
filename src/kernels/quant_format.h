// Group-quantised weights in panels: 64 outputs in SIMD lanes, walked along n_in in chunks.
//
// A value is w = (d * scale) * (code - zero) + m * min, as in tensor/quant.h. A chunk is one group
// (one level of scales) or 256 elements (two levels), and a panel is its chunks in order:
//
//   d      [64] f16, bf16 or f32
//   m      [64] the same                          where there are minima
//   scale  [chunk groups][64] i8                  two levels only
//   min    [chunk groups][64] i8                  two levels only, where there are minima
//   codes  per 32 elements: a low plane, a high plane
//
// The planes of b-bit codes have 8 | 4 | 2 low bits and 0 | 1 | 2 high bits (5 = 4 + 1). A plane of
// p bits is p words of 4 bytes a lane, [p][64]: byte i of word j holds, from its lowest bit on, the
// bits of elements 4 * q + i for the 8 / p quads q from j * 8 / p on. So a word masked and shifted
// is four neighbouring codes of one output, what the byte dot products want.
//
// Bytes a weight equal the source's, except that 4- and 6-bit scales take 8 (q4_k + 2.8 %, q5_k
// + 2.3 %, q3_k + 3.6 %, q2_k + 19 %) and the codebook types (iq4, mxfp4) hold their values as
// 8-bit codes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace cairn {

inline constexpr size_t kSegmentElements = 32;  // what one run of planes holds
inline constexpr size_t kChunkElements = 256;   // largest chunk

struct QuantFormat {
  uint32_t bits = 0;        // 2, 3, 4, 5, 6 or 8
  uint32_t group_size = 0;  // 16, 32, 64 or 128
  uint32_t zero = 0;
  bool has_min = false;
  bool two_level = false;
  DType scale_dtype = DType::kF16;  // of d and m

  // Derived by complete().
  uint32_t chunk_elements = 0;
  uint32_t chunk_groups = 0;
  uint32_t m_offset = 0;  // from the chunk's first byte
  uint32_t scales_offset = 0;
  uint32_t mins_offset = 0;
  uint32_t codes_offset = 0;
  uint32_t chunk_bytes = 0;

  friend bool operator==(const QuantFormat&, const QuantFormat&) = default;
};

// Fills the derived fields.
QuantFormat complete(QuantFormat format);
// Of the packed form of a block type.
QuantFormat quant_format_of(DType block_type);

// One row as it lies in a file; the bytes may be unaligned.
struct QuantRow {
  DType dtype = DType::kU32;          // a block type, or kU32 for affine groups
  const std::byte* values = nullptr;  // blocks, or words of codes; null: no row, left zero
  const std::byte* scales = nullptr;  // affine only: [n_in / group_size] of format.scale_dtype
  const std::byte* biases = nullptr;
};

// Writes one panel, n_in / chunk_elements chunks, from rows [64]. The panel must be zero before.
// Requires: n_in a multiple of chunk_elements.
void pack_quant_panel(const QuantFormat& format,
                      const QuantRow* rows,
                      size_t n_in,
                      std::byte* panel);

// Row `lane` of a panel, exactly.
void gather_quant_row(
    const QuantFormat& format, const std::byte* panel, size_t lane, size_t n_in, float* out);

}  // namespace cairn
