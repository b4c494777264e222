// Copies and clearing of pages.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu_backend.h"

namespace cairn {

namespace {

// n_tokens columns of each of n_lines lines of 16 tokens; the rest becomes zero.
void copy_columns(
    const std::byte* src, std::byte* dst, size_t n_lines, size_t n_tokens, size_t token_bytes) {
  const size_t line_bytes = kStripTokens * token_bytes;
  const size_t n_bytes = n_tokens * token_bytes;
  for (size_t i = 0; i < n_lines; ++i, src += line_bytes, dst += line_bytes) {
    std::memcpy(dst, src, n_bytes);
    std::memset(dst + n_bytes, 0, line_bytes - n_bytes);
  }
}

void copy_k_strip(const PageLayout& layout, const std::byte* src, std::byte* dst, size_t n_tokens) {
  const bool pairs = layout.encoding == RowEncoding::kBf16;
  copy_columns(src, dst, pairs ? layout.head_dim / 2 : layout.head_dim, n_tokens, 4);
}

void copy_v_strip(const PageLayout& layout, const std::byte* src, std::byte* dst, size_t n_tokens) {
  const size_t token_bytes = layout.head_dim * layout.element_bytes();
  const bool pairs = layout.encoding == RowEncoding::kBf16;
  const size_t whole = pairs ? n_tokens / 2 * 2 : n_tokens;
  std::memcpy(dst, src, whole * token_bytes);
  std::memset(dst + whole * token_bytes, 0, layout.strip_bytes() - whole * token_bytes);
  if (whole == n_tokens) return;
  for (size_t d = 0; d < layout.head_dim; ++d) {  // the first half of each pair
    const size_t at = whole * token_bytes + 4 * d;
    std::memcpy(dst + at, src + at, 2);
  }
}

}  // namespace

void CpuBackend::copy_rows(const CopyRowsArgs& args) {
  const PageLayout& layout = *args.layout;
  CAIRN_CHECK(args.n_rows <= layout.page_tokens, "more rows than a page has");
  const size_t strips = layout.page_tokens / kStripTokens;
  pool_.run(layout.n_layers, [&](size_t layer) {
    for (uint32_t head = 0; head < layout.n_kv_heads; ++head) {
      const size_t k = layout.k_offset(static_cast<uint32_t>(layer), head);
      const size_t v = layout.v_offset(static_cast<uint32_t>(layer), head);
      for (size_t strip = 0; strip < strips; ++strip) {
        const size_t first = strip * kStripTokens;
        const size_t n =
            args.n_rows <= first ? 0 : std::min<size_t>(kStripTokens, args.n_rows - first);
        const size_t at = strip * layout.strip_bytes();
        copy_k_strip(layout, args.src + k + at, args.dst + k + at, n);
        copy_v_strip(layout, args.src + v + at, args.dst + v + at, n);
      }
    }
  });
  std::memset(args.dst + layout.payload_bytes(), 0, layout.page_bytes() - layout.payload_bytes());
}

void CpuBackend::zero_page(std::byte* page, size_t n_bytes) {
  std::memset(page, 0, n_bytes);
}

}  // namespace cairn
