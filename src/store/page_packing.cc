#include "store/page_packing.h"

#include <cstring>

#include "store/object_format.h"

namespace cairn {
namespace {

size_t used_head_bytes(const PageLayout& layout, uint32_t n_tokens) {
  return packed_layer_bytes(layout, n_tokens) / (size_t{2} * layout.n_kv_heads);
}

}  // namespace

void pack_layer(const PageLayout& layout,
                uint32_t layer,
                uint32_t n_tokens,
                const std::byte* page,
                std::byte* out) {
  const size_t used = used_head_bytes(layout, n_tokens);
  const std::byte* in = page + layer * layout.layer_bytes();
  for (uint32_t i = 0; i < 2 * layout.n_kv_heads; ++i) {
    std::memcpy(out + i * used, in + i * layout.head_bytes(), used);
  }
}

size_t packed_offset(const PageLayout& layout, uint32_t n_tokens) {
  return layout.payload_bytes() - packed_layer_bytes(layout, n_tokens) * layout.n_layers;
}

void unpack_in_place(const PageLayout& layout, uint32_t n_tokens, std::byte* page) {
  const size_t used = used_head_bytes(layout, n_tokens);
  const size_t n_heads =
      size_t{2} * layout.n_kv_heads * layout.n_layers;  // both parts of all layers
  const std::byte* in = page + packed_offset(layout, n_tokens);
  for (size_t i = 0; i < n_heads; ++i) {
    std::byte* out = page + i * layout.head_bytes();
    // Head i + 1 starts at or behind out + head_bytes: with n heads left over, what is unread takes
    // the last (n - i) * used bytes, and used <= head_bytes.
    std::memmove(out, in + i * used, used);
    std::memset(out + used, 0, layout.head_bytes() - used);
  }
  std::memset(page + layout.payload_bytes(), 0, layout.page_bytes() - layout.payload_bytes());
}

}  // namespace cairn
