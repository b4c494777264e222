#include <gtest/gtest.h>

#include <vector>

#include "kernel_test_support.h"
#include "kernels/reference.h"

namespace cairn {
namespace {

using kernel_test::Random;

struct Case {
  size_t n_in = 0;
  size_t n_out = 0;
  size_t n_rows = 0;
};

class Matmul : public kernel_test::EachIsa {
 protected:
  static std::shared_ptr<const PackedWeight> pack(Backend& backend,
                                                  const std::vector<float>& w,
                                                  DType dtype,
                                                  size_t n_in,
                                                  const std::vector<float>& bias = {}) {
    const auto n_out = static_cast<int64_t>(w.size() / n_in);
    const std::vector<int64_t> shape = {n_out, static_cast<int64_t>(n_in)};
    const std::vector<Bf16> small = kernel_test::to_bf16(w);
    PackRequest request;
    request.parts.push_back(kernel_test::part_of(dtype == DType::kBf16
                                                     ? kernel_test::view_of(small, dtype, shape)
                                                     : kernel_test::view_of(w, dtype, shape)));
    if (!bias.empty()) request.biases.push_back(kernel_test::view_of(bias, DType::kF32, {n_out}));
    auto packed = backend.pack(request);
    EXPECT_TRUE(packed.is_ok()) << packed.status().to_string();
    return *packed;
  }

  static std::vector<float> product(Backend& backend,
                                    const PackedWeight& weight,
                                    const float* x,
                                    size_t n_rows) {
    std::vector<float> out(n_rows * weight.n_out(), -7.0F);
    backend.matmul({.x = x, .n_rows = n_rows, .weight = &weight, .out = out.data()});
    return out;
  }
};

// Products below 1 in a chain of n: partial sums grow like sqrt(n), and so do the errors of adding
// to them, so the whole errs like n * 2^-24.
double tolerance(size_t n_in) {
  return 0x1p-24 * static_cast<double>(n_in) + 2e-6;
}

TEST_P(Matmul, AgreesWithTheReferenceAtEveryEdgeOfItsTiles) {
  Random random(11);
  std::vector<Case> cases;
  for (size_t n = 1; n <= 35; ++n) cases.push_back({n, 67, 1 + n % 3});
  for (size_t n : std::vector<size_t>{1, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 200})
    cases.push_back({24, n, 2});
  for (size_t rows = 1; rows <= 14; ++rows) cases.push_back({40, 96, rows});
  cases.push_back({2100, 70, 13});  // several slabs of steps
  cases.push_back({33, 65, 485});   // several row blocks
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const Precision precision : {Precision::kFast, Precision::kF32}) {
      const auto backend = kernel_test::backend_of(GetParam(), precision);
      for (const Case& c : cases) {
        std::vector<float> w = random.values(c.n_out * c.n_in);
        std::vector<float> x = random.values(c.n_rows * c.n_in);
        const std::vector<float> bias = c.n_in % 2 ? random.values(c.n_out) : std::vector<float>{};
        const auto weight = pack(*backend, w, dtype, c.n_in, bias);
        const std::vector<float> out = product(*backend, *weight, x.data(), c.n_rows);
        if (dtype == DType::kBf16) {
          w = kernel_test::rounded(w);
          if (precision == Precision::kFast) x = kernel_test::rounded(x);
        }
        const auto want = reference::matmul(x, w, bias, c.n_rows, c.n_in);
        ASSERT_LE(kernel_test::distance(out, want), tolerance(c.n_in))
            << to_string(dtype) << " " << to_string(precision) << " n_in " << c.n_in << " n_out "
            << c.n_out << " rows " << c.n_rows;
      }
    }
  }
}

TEST_P(Matmul, ARowHasTheSameBitsAloneAndAmongOthersOnAnyNumberOfThreads) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const Precision precision : {Precision::kFast, Precision::kF32}) {
      Random random(5);
      const size_t n_in = 1203;  // odd, and longer than a slab
      const size_t n_out = 321;
      const std::vector<float> w = random.values(n_out * n_in);
      const std::vector<float> bias = random.values(n_out);
      const std::vector<float> x = random.values(250 * n_in, 3.0F);
      const auto one = kernel_test::backend_of(GetParam(), precision, 1);
      const auto two = kernel_test::backend_of(GetParam(), precision, 2);
      const auto weight = pack(*one, w, dtype, n_in, bias);
      const std::vector<float> all = product(*one, *weight, x.data(), 250);
      ASSERT_TRUE(kernel_test::same_bits(all, product(*two, *weight, x.data(), 250)));
      size_t row = 0;
      for (size_t n = 1; row + n <= 250; row += n, n = n % 13 + 1) {
        const std::vector<float> some =
            product(n % 2 ? *one : *two, *weight, x.data() + row * n_in, n);
        const std::vector<float> want(all.begin() + static_cast<ptrdiff_t>(row * n_out),
                                      all.begin() + static_cast<ptrdiff_t>((row + n) * n_out));
        ASSERT_TRUE(kernel_test::same_bits(some, want)) << "rows " << row << " to " << row + n;
      }
    }
  }
}

TEST_P(Matmul, ClassesThatShareAChainGiveTheBitsOfTheScalarChain) {
  // f32: one fused multiply-add per k, in order. This is the definition, so it is spelled out here.
  Random random(8);
  const std::vector<float> w = random.values(70 * 37);
  const std::vector<float> x = random.values(3 * 37);
  const auto backend = kernel_test::backend_of(GetParam());
  const auto weight = pack(*backend, w, DType::kF32, 37);
  const std::vector<float> out = product(*backend, *weight, x.data(), 3);
  for (size_t row = 0; row < 3; ++row) {
    for (size_t o = 0; o < 70; ++o) {
      float sum = 0;
      for (size_t k = 0; k < 37; ++k) sum = std::fma(x[row * 37 + k], w[o * 37 + k], sum);
      ASSERT_EQ(out[row * 70 + o], sum);
    }
  }
}

TEST_P(Matmul, HalfWeightsGiveTheBitsOfTheirValuesInF32) {
  Random random(9);
  for (const size_t n_in : std::vector<size_t>{1, 31, 1204, 1301}) {
    const std::vector<float> source = random.values(70 * n_in);
    const std::vector<float> x = random.values(9 * n_in, 3.0F);
    std::vector<F16> halves;
    std::vector<float> wide;
    for (const float w : source) {
      halves.push_back(f32_to_f16(w));
      wide.push_back(f16_to_f32(halves.back()));
    }
    for (const Precision precision : {Precision::kFast, Precision::kF32}) {
      const auto backend = kernel_test::backend_of(GetParam(), precision, 2);
      PackRequest request;
      request.parts = {kernel_test::part_of(
          kernel_test::view_of(halves, DType::kF16, {70, static_cast<int64_t>(n_in)}))};
      const auto weight = backend->pack(request);
      ASSERT_TRUE(weight.is_ok()) << weight.status().to_string();
      EXPECT_LE((*weight)->n_bytes(), 128 * (n_in + 1) * 2) << "not widened in memory";
      const auto f32 = pack(*backend, wide, DType::kF32, n_in);
      for (const size_t n_rows : {1U, 9U}) {
        ASSERT_TRUE(kernel_test::same_bits(product(*backend, **weight, x.data(), n_rows),
                                           product(*backend, *f32, x.data(), n_rows)))
            << n_in;
      }
    }
  }
}

TEST_P(Matmul, TheResidualIsAddedToTheSumWithItsBias) {
  Random random(3);
  const std::vector<float> w = random.values(75 * 20);
  const std::vector<float> bias = random.values(75);
  const std::vector<float> x = random.values(4 * 20);
  const auto backend = kernel_test::backend_of(GetParam());
  const auto plain = pack(*backend, w, DType::kBf16, 20);
  const auto biased = pack(*backend, w, DType::kBf16, 20, bias);
  const std::vector<float> sums = product(*backend, *plain, x.data(), 4);
  std::vector<float> out = random.values(4 * 75);
  std::vector<float> want = out;
  for (size_t i = 0; i < want.size(); ++i) {
    const float with_bias = sums[i] + bias[i % 75];
    want[i] = want[i] + with_bias;
  }
  backend->matmul(
      {.x = x.data(), .n_rows = 4, .weight = biased.get(), .out = out.data(), .add_to_out = true});
  EXPECT_TRUE(kernel_test::same_bits(out, want));
}

TEST_P(Matmul, StackedPartsAreTheProductsOfTheParts) {
  Random random(4);
  const std::vector<float> a = random.values(50 * 30);
  const std::vector<float> b = random.values(30 * 30);
  const std::vector<float> bias = random.values(30);
  const std::vector<Bf16> a16 = kernel_test::to_bf16(a);
  const std::vector<Bf16> b16 = kernel_test::to_bf16(b);
  const std::vector<Bf16> bias16 = kernel_test::to_bf16(bias);
  const std::vector<float> x = random.values(2 * 30);
  const auto backend = kernel_test::backend_of(GetParam());
  PackRequest request;
  request.parts = {kernel_test::part_of(kernel_test::view_of(a16, DType::kBf16, {50, 30})),
                   kernel_test::part_of(kernel_test::view_of(b16, DType::kBf16, {30, 30}))};
  request.biases = {std::nullopt, kernel_test::view_of(bias16, DType::kBf16, {30})};
  const auto both = backend->pack(request);
  ASSERT_TRUE(both.is_ok());
  EXPECT_EQ((*both)->n_out(), 80U);
  const std::vector<float> out = product(*backend, **both, x.data(), 2);
  const std::vector<float> of_a =
      product(*backend, *pack(*backend, a, DType::kBf16, 30), x.data(), 2);
  const std::vector<float> of_b = product(
      *backend, *pack(*backend, b, DType::kBf16, 30, kernel_test::rounded(bias)), x.data(), 2);
  for (size_t row = 0; row < 2; ++row) {
    for (size_t o = 0; o < 50; ++o) ASSERT_EQ(out[row * 80 + o], of_a[row * 50 + o]);
    for (size_t o = 0; o < 30; ++o) ASSERT_EQ(out[row * 80 + 50 + o], of_b[row * 30 + o]);
  }
}

TEST_P(Matmul, NanAndInfinityInARowReachThatRowOnly) {
  Random random(6);
  const std::vector<float> w = random.values(64 * 21);
  std::vector<float> x = random.values(7 * 21);
  const auto backend = kernel_test::backend_of(GetParam());
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const auto weight = pack(*backend, w, dtype, 21);
    const std::vector<float> clean = product(*backend, *weight, x.data(), 7);
    std::vector<float> dirty_x = x;
    dirty_x[3 * 21 + 20] = std::nanf("");
    dirty_x[5 * 21] = HUGE_VALF;
    const std::vector<float> dirty = product(*backend, *weight, dirty_x.data(), 7);
    for (size_t row = 0; row < 7; ++row) {
      for (size_t o = 0; o < 64; ++o) {
        if (row == 3 || row == 5) {
          ASSERT_FALSE(std::isfinite(dirty[row * 64 + o]));
        } else {
          ASSERT_EQ(dirty[row * 64 + o], clean[row * 64 + o]);
        }
      }
    }
  }
}

CAIRN_EACH_ISA(Matmul);

class PackedWeights : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = kernel_test::backend_of(Isa::kAvx2);
  std::vector<float> data_ = Random(1).values(12 * 8);

  StatusCode code_of(const PackRequest& request) { return backend_->pack(request).status().code(); }
};

TEST_F(PackedWeights, EmbeddingRowsAreExactForEveryTypeAndUnalignedBytes) {
  Random random(2);
  const size_t n_in = 37;
  const size_t n_out = 131;
  std::vector<float> source = random.values(n_in * n_out, 100.0F);
  source[5] = -0.0F;
  source[6] = 1e-41F;  // denormal
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    std::vector<std::byte> bytes(1 + source.size() * dtype_bytes(dtype));
    std::vector<float> want(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
      std::byte* at = bytes.data() + 1 + i * dtype_bytes(dtype);
      if (dtype == DType::kF32) {
        std::memcpy(at, &source[i], 4);
        want[i] = source[i];
      } else {
        const uint16_t half =
            dtype == DType::kBf16 ? f32_to_bf16(source[i]) : f32_to_f16(source[i]);
        std::memcpy(at, &half, 2);
        want[i] = dtype == DType::kBf16 ? bf16_to_f32(half) : f16_to_f32(half);
      }
    }
    PackRequest request;
    request.parts = {kernel_test::part_of({dtype, {131, 37}, std::span(bytes).subspan(1)})};
    const auto table = backend_->pack(request);
    ASSERT_TRUE(table.is_ok()) << table.status().to_string();
    std::vector<uint32_t> ids = {130, 0, 64, 63, 0, 127, 128};
    std::vector<float> out(ids.size() * n_in);
    backend_->embed(
        {.table = table->get(), .ids = ids.data(), .n_rows = ids.size(), .out = out.data()});
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(std::memcmp(&out[i * n_in], &want[ids[i] * n_in], n_in * 4), 0) << to_string(dtype);
    }
  }
}

TEST_F(PackedWeights, RowsTakeTheOrderAsked) {
  PackRequest request;
  request.parts = {kernel_test::part_of(kernel_test::view_of(data_, DType::kF32, {12, 8})),
                   kernel_test::part_of(kernel_test::view_of(data_, DType::kF32, {12, 8}))};
  request.parts[1].row_order = {0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11};
  const auto table = backend_->pack(request);
  ASSERT_TRUE(table.is_ok()) << table.status().to_string();
  for (uint32_t row = 0; row < 24; ++row) {
    const uint32_t source = row < 12 ? row : request.parts[1].row_order[row - 12];
    std::vector<float> out(8);
    backend_->embed({.table = table->get(), .ids = &row, .n_rows = 1, .out = out.data()});
    EXPECT_EQ(std::memcmp(out.data(), &data_[source * 8], 32), 0) << row;
  }
}

TEST_F(PackedWeights, RefusesWhatDoesNotFitTogether) {
  const auto code_of_one = [&](DType dtype, std::vector<int64_t> shape) {
    PackRequest request;
    request.parts = {kernel_test::part_of(kernel_test::view_of(data_, dtype, std::move(shape)))};
    return code_of(request);
  };
  EXPECT_EQ(code_of({}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of_one(DType::kI32, {12, 8}), StatusCode::kUnsupported);
  EXPECT_EQ(code_of_one(DType::kF32, {96}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of_one(DType::kF32, {12, 9}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of_one(DType::kF32, {-12, -8}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of_one(DType::kF32, {int64_t{1} << 62, 8}), StatusCode::kInvalidArgument);

  PackRequest request;
  request.parts = {kernel_test::part_of(kernel_test::view_of(data_, DType::kF32, {12, 8}))};
  request.biases = {std::nullopt};
  EXPECT_EQ(code_of(request), StatusCode::kOk);
  request.biases = {std::nullopt, std::nullopt};
  EXPECT_EQ(code_of(request), StatusCode::kInvalidArgument);
  const std::vector<float> bias(11);
  request.biases = {kernel_test::view_of(bias, DType::kF32, {11})};
  EXPECT_EQ(code_of(request), StatusCode::kInvalidArgument);
  request.biases.clear();
  request.parts[0].row_order = {0, 1};
  EXPECT_EQ(code_of(request), StatusCode::kInvalidArgument);
  request.parts[0].row_order.assign(12, 12);
  EXPECT_EQ(code_of(request), StatusCode::kInvalidArgument);
  request.parts[0].row_order.clear();
  request.parts.push_back(kernel_test::part_of(kernel_test::view_of(data_, DType::kF32, {8, 12})));
  EXPECT_EQ(code_of(request), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn
