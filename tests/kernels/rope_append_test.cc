#include <gtest/gtest.h>

#include <vector>

#include "kernel_test_support.h"
#include "kernels/reference.h"

namespace cairn {
namespace {

using kernel_test::Pages;
using kernel_test::Random;

struct Step {
  PageLayout layout;
  size_t n_heads = 0;
  size_t rope_dim = 0;
  size_t pos_begin = 0;
  size_t n_rows = 0;
  std::vector<float> qkv;
  std::vector<float> cos_sin;
  std::vector<float> q_norm;
  std::vector<float> k_norm;

  size_t stride() const { return (n_heads + 2 * layout.n_kv_heads) * layout.head_dim; }
};

Step make_step(
    const PageLayout& layout, size_t rope_dim, size_t pos_begin, size_t n_rows, bool norms) {
  Random random(layout.head_dim + n_rows);
  Step step{layout, 3 * size_t{layout.n_kv_heads}, rope_dim, pos_begin, n_rows, {}, {}, {}, {}};
  step.qkv = random.values(n_rows * step.stride(), 4.0F);
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t i = 0; i < rope_dim / 2; ++i) {
      const double angle = static_cast<double>(pos_begin + row) / (1.0 + static_cast<double>(i));
      step.cos_sin.push_back(static_cast<float>(std::cos(angle)));
      step.cos_sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  if (norms) {
    step.q_norm = random.values(layout.head_dim);
    step.k_norm = random.values(layout.head_dim);
  }
  return step;
}

// Runs rows [begin, end) of the step; gives the turned rows.
std::vector<float> run(
    Backend& backend, const Step& step, const Pages& pages, size_t begin, size_t end) {
  std::vector<float> rows(step.qkv.begin() + static_cast<ptrdiff_t>(begin * step.stride()),
                          step.qkv.begin() + static_cast<ptrdiff_t>(end * step.stride()));
  const RowSegment segment{0, end - begin, step.pos_begin + begin, pages.table()};
  backend.rope_append({.qkv = rows.data(),
                       .n_rows = end - begin,
                       .n_heads = step.n_heads,
                       .q_norm = step.q_norm.empty() ? nullptr : step.q_norm.data(),
                       .k_norm = step.k_norm.empty() ? nullptr : step.k_norm.data(),
                       .norm_eps = 1e-6F,
                       .cos_sin = step.cos_sin.data() + begin * step.rope_dim,
                       .rope_dim = step.rope_dim,
                       .segments = {&segment, 1},
                       .layout = &step.layout,
                       .layer = 1});
  return rows;
}

std::vector<double> expected_head(const Step& step,
                                  size_t row,
                                  size_t head,
                                  const std::vector<float>& norm) {
  const size_t hd = step.layout.head_dim;
  const float* x = step.qkv.data() + row * step.stride() + head * hd;
  std::vector<double> out(x, x + hd);
  if (!norm.empty()) out = reference::rms_norm({x, x + hd}, norm, 1e-6);
  return reference::rope(out, step.cos_sin.data() + row * step.rope_dim, step.rope_dim);
}

class RopeAppend : public kernel_test::EachIsa {};

TEST_P(RopeAppend, TurnsQueriesAndPutsRowsWhereThePageLayoutSays) {
  for (const RowEncoding encoding : {RowEncoding::kF32, RowEncoding::kBf16}) {
    for (const uint32_t hd : {2U, 12U, 20U, 24U, 64U, 80U, 128U}) {
      for (const bool norms : {false, true}) {
        const PageLayout layout{encoding, 3, 2, hd, 32};
        const Step step = make_step(layout, hd >= 20 ? hd - 4 : hd, 13, 40, norms);
        const auto backend = kernel_test::backend_of(GetParam());
        const Pages pages(layout, 53);
        const std::vector<float> rows = run(*backend, step, pages, 0, 40);
        for (size_t row = 0; row < 40; ++row) {
          const size_t pos = 13 + row;
          for (size_t head = 0; head < step.n_heads; ++head) {
            const float* q = rows.data() + row * step.stride() + head * hd;
            ASSERT_LE(
                kernel_test::distance({q, q + hd}, expected_head(step, row, head, step.q_norm)),
                4e-6);
          }
          for (uint32_t head = 0; head < 2; ++head) {
            const auto k = expected_head(step, row, step.n_heads + head, step.k_norm);
            const float* v = step.qkv.data() + row * step.stride() + (step.n_heads + 2 + head) * hd;
            for (size_t d = 0; d < hd; ++d) {
              const std::byte* page = pages.page(pos / 32);
              const double k_error =
                  static_cast<double>(reference::read_k(layout, page, 1, head, pos % 32, d)) - k[d];
              ASSERT_LE(std::abs(k_error), encoding == RowEncoding::kF32 ? 4e-6 : 0.02);
              const float want =
                  encoding == RowEncoding::kF32 ? v[d] : bf16_to_f32(f32_to_bf16(v[d]));
              ASSERT_EQ(reference::read_v(layout, page, 1, head, pos % 32, d), want);
            }
          }
        }
      }
    }
  }
}

TEST_P(RopeAppend, ChunksAndThreadsDoNotShowInRowsOrPages) {
  const PageLayout layout{RowEncoding::kBf16, 2, 2, 20, 64};
  const Step step = make_step(layout, 20, 0, 131, true);
  const auto one = kernel_test::backend_of(GetParam(), Precision::kFast, 1);
  const auto two = kernel_test::backend_of(GetParam(), Precision::kFast, 2);
  const Pages pages(layout, 131);
  const std::vector<float> all = run(*one, step, pages, 0, 131);
  for (const size_t chunk : std::vector<size_t>{1, 5, 131}) {
    const Pages fresh(layout, 131);
    std::vector<float> out;
    for (size_t begin = 0; begin < 131; begin += chunk) {
      const std::vector<float> some =
          run(*two, step, fresh, begin, std::min<size_t>(131, begin + chunk));
      out.insert(out.end(), some.begin(), some.end());
    }
    EXPECT_TRUE(kernel_test::same_bits(all, out));
    for (size_t i = 0; i < pages.n_pages(); ++i) {
      EXPECT_EQ(std::memcmp(pages.page(i), fresh.page(i), layout.page_bytes()), 0) << "page " << i;
    }
  }
}

TEST_P(RopeAppend, TouchesNothingButItsRows) {
  const PageLayout layout{RowEncoding::kBf16, 2, 2, 12, 32};
  const Step step = make_step(layout, 12, 9, 3, false);
  const auto backend = kernel_test::backend_of(GetParam());
  const Pages pages(layout, 32);
  std::memset(pages.page(0), 0x5a, layout.page_bytes());
  run(*backend, step, pages, 0, 3);
  size_t n_changed = 0;
  for (size_t i = 0; i < layout.page_bytes(); ++i) n_changed += pages.page(0)[i] != std::byte{0x5a};
  EXPECT_LE(n_changed, size_t{3} * 2 * 2 * 12 * 2);
  for (size_t row : std::vector<size_t>{8, 12}) {
    for (size_t d = 0; d < 12; ++d) {
      EXPECT_EQ(f32_to_bf16(reference::read_k(layout, pages.page(0), 1, 0, row, d)), 0x5a5a);
      EXPECT_EQ(f32_to_bf16(reference::read_v(layout, pages.page(0), 1, 1, row, d)), 0x5a5a);
    }
  }
}

CAIRN_EACH_ISA(RopeAppend);

}  // namespace
}  // namespace cairn
