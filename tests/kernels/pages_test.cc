#include <gtest/gtest.h>

#include "kernel_test_support.h"
#include "kernels/reference.h"

namespace cairn {
namespace {

using kernel_test::Pages;

std::vector<PageLayout> layouts() {
  return {{RowEncoding::kF32, 2, 3, 12, 64},
          {RowEncoding::kBf16, 3, 2, 20, 64},
          {RowEncoding::kBf16, 1, 1, 64, 16},
          {RowEncoding::kF32, 1, 2, 2, 48}};
}

TEST(PageLayout, PartsTileThePageWithoutGapOrOverlap) {
  for (const PageLayout& layout : layouts()) {
    size_t at = 0;
    for (uint32_t layer = 0; layer < layout.n_layers; ++layer) {
      for (uint32_t head = 0; head < layout.n_kv_heads; ++head, at += layout.head_bytes()) {
        EXPECT_EQ(layout.k_offset(layer, head), at);
      }
      for (uint32_t head = 0; head < layout.n_kv_heads; ++head, at += layout.head_bytes()) {
        EXPECT_EQ(layout.v_offset(layer, head), at);
      }
    }
    EXPECT_EQ(at, layout.payload_bytes());
    EXPECT_EQ(layout.page_bytes() % 4096, 0U);
    EXPECT_LT(layout.page_bytes() - at, 4096U);
  }
}

TEST(CopyRows, CopiesTheRowsAskedForAndClearsEverythingElse) {
  const auto backend = kernel_test::backend_of(Isa::kAvx2, Precision::kFast, 2);
  for (const PageLayout& layout : layouts()) {
    const Pages pages(layout, 2 * layout.page_tokens);
    kernel_test::Random random(layout.head_dim);
    for (size_t i = 0; i < layout.page_bytes(); ++i) {
      pages.page(0)[i] = static_cast<std::byte>(random.next() % 127 + 1);  // no zero, no NaN
    }
    for (size_t n = 0; n <= layout.page_tokens; ++n) {
      std::memset(pages.page(1), 0xff, layout.page_bytes());
      backend->copy_rows({&layout, pages.page(0), pages.page(1), n});
      for (uint32_t layer = 0; layer < layout.n_layers; ++layer) {
        for (uint32_t head = 0; head < layout.n_kv_heads; ++head) {
          for (size_t row = 0; row < layout.page_tokens; ++row) {
            for (size_t d = 0; d < layout.head_dim; ++d) {
              const float k =
                  row < n ? reference::read_k(layout, pages.page(0), layer, head, row, d) : 0;
              const float v =
                  row < n ? reference::read_v(layout, pages.page(0), layer, head, row, d) : 0;
              ASSERT_EQ(reference::read_k(layout, pages.page(1), layer, head, row, d), k);
              ASSERT_EQ(reference::read_v(layout, pages.page(1), layer, head, row, d), v);
            }
          }
        }
      }
      for (size_t i = layout.payload_bytes(); i < layout.page_bytes(); ++i) {
        ASSERT_EQ(pages.page(1)[i], std::byte{0});
      }
    }
  }
}

TEST(CpuPages, TheHostSeesThePageItself) {
  const auto backend = kernel_test::backend_of(Isa::kAvx2);
  const Pages pages({RowEncoding::kBf16, 1, 1, 64, 64}, 64);
  const Backend::HostPage host = backend->read_page(pages.page(0), 4096, nullptr);
  EXPECT_EQ(host.bytes, pages.page(0));
  EXPECT_TRUE(backend->is_done(host.ready));
  EXPECT_EQ(backend->begin_write_page(pages.page(0), 4096, nullptr), pages.page(0));
  EXPECT_TRUE(backend->is_done(backend->end_write_page(pages.page(0), 4096, nullptr)));
}

TEST(CpuPages, MemoryIsZeroAndAbsurdSizesAreRefused) {
  const auto backend = kernel_test::backend_of(Isa::kAvx2);
  const auto buffer = backend->allocate(10000);
  ASSERT_TRUE(buffer.is_ok());
  for (const std::byte b : buffer->as<std::byte>()) ASSERT_EQ(b, std::byte{0});
  EXPECT_EQ(backend->allocate(size_t{1} << 62).status().code(), StatusCode::kNoSpace);
}

}  // namespace
}  // namespace cairn
