// Where the rows of one cache group lie inside a page.
//
// A page holds page_tokens rows of all layers of a group, laid out [layer][part][kv_head][strip],
// part 0 = K, part 1 = V, padded to 4 KiB. A strip is 16 tokens of one kv head:
//   f32   K [head_dim][16]        V [16][head_dim]
//   bf16  K [head_dim/2][16][2]   V [8][head_dim][2]
// so that 16 scores (K) or head_dim outputs (V) fall into SIMD lanes, and bf16 pairs along the
// summed axis feed VDPBF16PS. Row t never depends on later rows; rows not yet written are zero
// bytes. Design: DESIGN.md 3.2. The cache and the store see bytes; only kernels and this file look
// inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn {

inline constexpr uint32_t kStripTokens = 16;

enum class RowEncoding { kF32, kBf16 };

std::string_view to_string(RowEncoding encoding);  // "f32", "bf16"

inline constexpr size_t kMaxHeadDim = 512;  // what the attention kernels hold in their scratch

struct PageLayout {
  RowEncoding encoding = RowEncoding::kBf16;
  uint32_t n_layers = 0;  // layers of the group
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;      // even, at most kMaxHeadDim
  uint32_t page_tokens = 64;  // a multiple of 16

  size_t element_bytes() const { return encoding == RowEncoding::kF32 ? 4 : 2; }

  size_t strip_bytes() const { return size_t{kStripTokens} * head_dim * element_bytes(); }

  size_t head_bytes() const {
    return strip_bytes() * (page_tokens / kStripTokens);
  }  // one part, one kv head

  size_t part_bytes() const { return head_bytes() * n_kv_heads; }

  size_t layer_bytes() const { return 2 * part_bytes(); }

  size_t payload_bytes() const { return layer_bytes() * n_layers; }

  size_t page_bytes() const { return (payload_bytes() + 4095) / 4096 * 4096; }  // as allocated

  // Offset of the first strip of a part. `layer` counts inside the group.
  size_t k_offset(uint32_t layer, uint32_t kv_head) const {
    return layer * layer_bytes() + kv_head * head_bytes();
  }

  size_t v_offset(uint32_t layer, uint32_t kv_head) const {
    return k_offset(layer, kv_head) + part_bytes();
  }

  friend bool operator==(const PageLayout&, const PageLayout&) = default;
};

}  // namespace cairn
