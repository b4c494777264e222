#include <gtest/gtest.h>

#include <vector>

#include "kernel_test_support.h"
#include "kernels/reference.h"

namespace cairn {
namespace {

using kernel_test::Pages;
using kernel_test::Random;

struct Shape {
  size_t n_heads = 4;
  uint32_t n_kv_heads = 2;
  uint32_t head_dim = 64;
  size_t window = 0;
  uint32_t page_tokens = 64;
  RowEncoding encoding = RowEncoding::kBf16;

  std::string text() const {
    return std::to_string(n_heads) + "/" + std::to_string(n_kv_heads) + " heads of " +
           std::to_string(head_dim) + ", window " + std::to_string(window) + ", pages of " +
           std::to_string(page_tokens) + ", " + std::string(to_string(encoding));
  }
};

// One sequence of n rows with random q, k, v, and pages to put them into.
class Sequence {
 public:
  Sequence(const Shape& shape, size_t n, uint64_t seed = 1)
      : shape_(shape),
        layout_{shape.encoding, 2, shape.n_kv_heads, shape.head_dim, shape.page_tokens},
        n_(n),
        stride_((shape.n_heads + 2 * size_t{shape.n_kv_heads}) * shape.head_dim),
        qkv_(Random(seed).values(n * stride_, 2.0F)),
        no_turn_(shape.head_dim) {
    for (size_t i = 0; i < shape.head_dim; i += 2) no_turn_[i] = 1.0F;
  }

  Pages new_pages() const { return Pages(layout_, n_); }

  // Every byte of all pages 0xff: NaN in both encodings.
  Pages poisoned_pages() const {
    Pages pages(layout_, n_);
    for (size_t i = 0; i < pages.n_pages(); ++i)
      std::memset(pages.page(i), 0xff, layout_.page_bytes());
    return pages;
  }

  // Writes K and V of rows [begin, end).
  void append(Backend& backend, const Pages& pages, size_t begin, size_t end) const {
    std::vector<float> rows(qkv_.begin() + static_cast<ptrdiff_t>(begin * stride_),
                            qkv_.begin() + static_cast<ptrdiff_t>(end * stride_));
    std::vector<float> cos_sin;
    for (size_t i = begin; i < end; ++i)
      cos_sin.insert(cos_sin.end(), no_turn_.begin(), no_turn_.end());
    const RowSegment segment{0, end - begin, begin, pages.table()};
    backend.rope_append({.qkv = rows.data(),
                         .n_rows = end - begin,
                         .n_heads = shape_.n_heads,
                         .cos_sin = cos_sin.data(),
                         .rope_dim = shape_.head_dim,
                         .segments = {&segment, 1},
                         .layout = &layout_,
                         .layer = 1});
  }

  // Attention of rows [begin, end) as one segment.
  std::vector<float> attend(Backend& backend, const Pages& pages, size_t begin, size_t end) const {
    std::vector<float> out((end - begin) * out_dim(), -3.0F);
    const RowSegment segment{0, end - begin, begin, pages.table()};
    AttendArgs args = arguments();
    args.q = qkv_.data() + begin * stride_;
    args.segments = {&segment, 1};
    args.out = out.data();
    backend.attend(args);
    return out;
  }

  AttendArgs arguments() const {
    AttendArgs args;
    args.q_stride = stride_;
    args.n_heads = shape_.n_heads;
    args.scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
    args.window = shape_.window;
    args.layout = &layout_;
    args.layer = 1;
    return args;
  }

  std::vector<double> expected(size_t pos) const {
    const size_t kv = size_t{shape_.n_kv_heads} * shape_.head_dim;
    std::vector<float> k;
    std::vector<float> v;
    for (size_t i = 0; i <= pos; ++i) {
      const float* row = qkv_.data() + i * stride_ + out_dim();
      k.insert(k.end(), row, row + kv);
      v.insert(v.end(), row + kv, row + 2 * kv);
    }
    if (shape_.encoding == RowEncoding::kBf16) {
      k = kernel_test::rounded(k);
      v = kernel_test::rounded(v);
    }
    return reference::attend({shape_.n_heads,
                              shape_.n_kv_heads,
                              shape_.head_dim,
                              shape_.window,
                              1.0 / std::sqrt(static_cast<double>(shape_.head_dim))},
                             qkv_.data() + pos * stride_,
                             k,
                             v,
                             pos);
  }

  size_t size() const { return n_; }

  size_t stride() const { return stride_; }

  size_t out_dim() const { return shape_.n_heads * shape_.head_dim; }

  const float* q(size_t pos) const { return qkv_.data() + pos * stride_; }

  std::vector<float> row_of(const std::vector<float>& out, size_t row) const {
    return {out.begin() + static_cast<ptrdiff_t>(row * out_dim()),
            out.begin() + static_cast<ptrdiff_t>((row + 1) * out_dim())};
  }

 private:
  Shape shape_;
  PageLayout layout_;
  size_t n_;
  size_t stride_;
  std::vector<float> qkv_;
  std::vector<float> no_turn_;
};

std::vector<Shape> many_shapes() {
  std::vector<Shape> shapes;
  for (const RowEncoding encoding : {RowEncoding::kF32, RowEncoding::kBf16}) {
    for (const uint32_t hd : {2U, 12U, 16U, 20U, 24U, 32U, 64U, 80U, 96U, 128U, 192U, 256U}) {
      shapes.push_back({4, 2, hd, 0, 64, encoding});
    }
    shapes.push_back({3, 3, 24, 0, 64, encoding});     // one query head a kv head
    shapes.push_back({5, 1, 32, 40, 64, encoding});    // an odd group, and a window
    shapes.push_back({14, 2, 16, 0, 16, encoding});    // seven a group, smallest pages
    shapes.push_back({100, 2, 12, 33, 48, encoding});  // more heads a group than a part takes
    shapes.push_back({4, 2, 20, 1, 64, encoding});     // sees itself only
    shapes.push_back({4, 2, 64, 128, 64, encoding});
  }
  return shapes;
}

class Attend : public kernel_test::EachIsa {};

TEST_P(Attend, AgreesWithTheReference) {
  const auto backend = kernel_test::backend_of(GetParam());
  for (const Shape& shape : many_shapes()) {
    const Sequence sequence(shape, 150);
    const Pages pages = sequence.new_pages();
    sequence.append(*backend, pages, 0, 150);
    const std::vector<float> out = sequence.attend(*backend, pages, 0, 150);
    // bf16: q and p have 8 bits; their errors average out over the positions seen.
    const double tolerance = shape.encoding == RowEncoding::kF32 ? 4e-6 : 0.04;
    for (const size_t pos : std::vector<size_t>{0, 1, 14, 15, 16, 63, 64, 90, 149}) {
      ASSERT_LE(kernel_test::distance(sequence.row_of(out, pos), sequence.expected(pos)), tolerance)
          << shape.text() << " at " << pos;
    }
  }
}

TEST_P(Attend, AgreesWithTheReferenceAcrossSplits) {
  const auto backend = kernel_test::backend_of(GetParam());
  for (const size_t window : std::vector<size_t>{0, 300, 700}) {
    const Shape shape{4, 2, 24, window, 64, RowEncoding::kF32};
    const Sequence sequence(shape, 1100);
    const Pages pages = sequence.new_pages();
    sequence.append(*backend, pages, 0, 1100);
    const std::vector<float> out = sequence.attend(*backend, pages, 0, 1100);
    for (const size_t pos :
         std::vector<size_t>{299, 510, 511, 512, 513, 811, 812, 1023, 1024, 1099}) {
      ASSERT_LE(kernel_test::distance(sequence.row_of(out, pos), sequence.expected(pos)), 4e-6)
          << "window " << window << " at " << pos;
    }
  }
}

TEST_P(Attend, ChunksAndThreadsDoNotShow) {
  const auto one = kernel_test::backend_of(GetParam(), Precision::kFast, 1);
  const auto two = kernel_test::backend_of(GetParam(), Precision::kFast, 2);
  for (const Shape& shape : many_shapes()) {
    const Sequence sequence(shape, 150);
    const Pages pages = sequence.new_pages();
    sequence.append(*one, pages, 0, 150);
    const std::vector<float> all = sequence.attend(*one, pages, 0, 150);
    ASSERT_TRUE(kernel_test::same_bits(all, sequence.attend(*two, pages, 0, 150))) << shape.text();
    for (const size_t chunk : std::vector<size_t>{1, 7, 64}) {
      const Pages fresh = sequence.new_pages();
      std::vector<float> out;
      for (size_t begin = 0; begin < 150; begin += chunk) {
        const size_t end = std::min<size_t>(150, begin + chunk);
        sequence.append(*two, fresh, begin, end);
        const std::vector<float> some = sequence.attend(begin % 2 ? *one : *two, fresh, begin, end);
        out.insert(out.end(), some.begin(), some.end());
      }
      ASSERT_TRUE(kernel_test::same_bits(all, out)) << shape.text() << ", chunks of " << chunk;
    }
  }
}

TEST_P(Attend, DecodeAcrossSplitsHasTheBitsOfPrefillOnAnyNumberOfThreads) {
  const auto one = kernel_test::backend_of(GetParam(), Precision::kFast, 1);
  const auto two = kernel_test::backend_of(GetParam(), Precision::kFast, 2);
  const std::vector<Shape> shapes = {
      {4, 2, 64, 0, 64, RowEncoding::kBf16},
      {6, 1, 20, 0, 16, RowEncoding::kBf16},
      {4, 2, 32, 600, 64, RowEncoding::kBf16},
      {2, 1, 80, 1100, 64, RowEncoding::kF32},
      {8, 1, 12, 0, 64, RowEncoding::kF32},
  };
  for (const Shape& shape : shapes) {
    const Sequence sequence(shape, 1700);
    const Pages pages = sequence.new_pages();
    sequence.append(*one, pages, 0, 1700);
    const std::vector<float> all = sequence.attend(*one, pages, 0, 1700);
    ASSERT_TRUE(kernel_test::same_bits(all, sequence.attend(*two, pages, 0, 1700))) << shape.text();
    for (const size_t pos :
         std::vector<size_t>{0, 511, 512, 599, 600, 1023, 1024, 1111, 1535, 1536, 1699}) {
      for (Backend* backend : {one.get(), two.get()}) {
        ASSERT_TRUE(kernel_test::same_bits(sequence.row_of(all, pos),
                                           sequence.attend(*backend, pages, pos, pos + 1)))
            << shape.text() << " at " << pos << ", " << backend->n_threads() << " threads";
      }
    }
    const std::vector<float> last = sequence.attend(*two, pages, 1690, 1700);
    for (size_t i = 0; i < 10; ++i) {
      ASSERT_TRUE(kernel_test::same_bits(sequence.row_of(all, 1690 + i), sequence.row_of(last, i)));
    }
  }
}

TEST_P(Attend, RowsThatMayNotBeSeenDoNotMatterWhateverTheyHold) {
  const auto backend = kernel_test::backend_of(GetParam(), Precision::kFast, 2);
  for (const Shape& shape : many_shapes()) {
    const Sequence sequence(shape, 150);
    const Pages pages = sequence.new_pages();
    sequence.append(*backend, pages, 0, 150);
    const std::vector<float> all = sequence.attend(*backend, pages, 0, 150);
    for (const size_t pos : std::vector<size_t>{0, 1, 15, 16, 47, 64, 100, 149}) {
      // NaN everywhere except in the rows that the query sees.
      const size_t begin = shape.window != 0 && pos + 1 > shape.window ? pos + 1 - shape.window : 0;
      const Pages poisoned = sequence.poisoned_pages();
      sequence.append(*backend, poisoned, begin, pos + 1);
      ASSERT_TRUE(kernel_test::same_bits(sequence.row_of(all, pos),
                                         sequence.attend(*backend, poisoned, pos, pos + 1)))
          << shape.text() << " at " << pos;
    }
    // A chunk whose later half is NaN: the earlier rows of the same tiles stay clean.
    const Pages half = sequence.poisoned_pages();
    sequence.append(*backend, half, 0, 139);
    const std::vector<float> out = sequence.attend(*backend, half, 130, 150);
    for (size_t i = 0; i < 9; ++i) {
      ASSERT_TRUE(kernel_test::same_bits(sequence.row_of(all, 130 + i), sequence.row_of(out, i)))
          << shape.text() << " row " << 130 + i;
    }
  }
}

TEST_P(Attend, SequencesOfAStepDoNotMeet) {
  const auto one = kernel_test::backend_of(GetParam(), Precision::kFast, 1);
  const auto two = kernel_test::backend_of(GetParam(), Precision::kFast, 2);
  const Shape shape{4, 2, 24, 0, 64, RowEncoding::kBf16};
  const std::vector<size_t> lengths = {700, 31, 64, 1};
  const std::vector<size_t> begins = {690, 0, 63, 0};
  std::vector<Sequence> sequences;
  std::vector<Pages> pages;
  std::vector<RowSegment> segments;
  std::vector<float> q;
  std::vector<float> want;
  for (size_t i = 0; i < lengths.size(); ++i) {
    sequences.emplace_back(shape, lengths[i], i + 1);
    pages.push_back(sequences[i].new_pages());
    sequences[i].append(*one, pages[i], 0, lengths[i]);
    const std::vector<float> alone = sequences[i].attend(*one, pages[i], begins[i], lengths[i]);
    want.insert(want.end(), alone.begin(), alone.end());
  }
  size_t row = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const size_t n = lengths[i] - begins[i];
    segments.push_back({row, n, begins[i], pages[i].table()});
    q.insert(
        q.end(), sequences[i].q(begins[i]), sequences[i].q(begins[i]) + n * sequences[i].stride());
    row += n;
  }
  for (Backend* backend : {one.get(), two.get()}) {
    std::vector<float> out(want.size());
    AttendArgs args = sequences[0].arguments();
    args.q = q.data();
    args.segments = segments;
    args.out = out.data();
    backend->attend(args);
    EXPECT_TRUE(kernel_test::same_bits(out, want)) << backend->n_threads() << " threads";
  }
}

CAIRN_EACH_ISA(Attend);

}  // namespace
}  // namespace cairn
