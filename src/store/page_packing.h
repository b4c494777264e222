// How a leaf's rows travel: only the strips that are in use.
//
// In a page a kv head's strips follow one another, so the used ones are a front of each head's
// bytes; packing drops the rest. Full pages are never packed: they go to disk as they lie. Thread:
// any; pure functions over the caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/page_layout.h"

namespace cairn {

// Copies the used strips of one layer of `page` to `out`, packed_layer_bytes(layout, n_tokens)
// long.
void pack_layer(const PageLayout& layout,
                uint32_t layer,
                uint32_t n_tokens,
                const std::byte* page,
                std::byte* out);

// Where the packed bytes of all layers must lie inside `page` for unpack_in_place: at the payload's
// end.
size_t packed_offset(const PageLayout& layout, uint32_t n_tokens);

// Spreads packed bytes at packed_offset() over the page and zeroes everything else, padding
// included. No second buffer: the bytes only move towards the front, first layer first, so nothing
// unread is overwritten.
void unpack_in_place(const PageLayout& layout, uint32_t n_tokens, std::byte* page);

}  // namespace cairn
