#include <gtest/gtest.h>

#include <vector>

#include "kernel_test_support.h"
#include "kernels/reference.h"

namespace cairn {
namespace {

using kernel_test::Random;

class Elementwise : public kernel_test::EachIsa {
 protected:
  std::unique_ptr<Backend> one_ = kernel_test::backend_of(GetParam(), Precision::kFast, 1);
  std::unique_ptr<Backend> two_ = kernel_test::backend_of(GetParam(), Precision::kFast, 2);
};

TEST_P(Elementwise, RmsNormAgreesWithTheReferenceForEveryLength) {
  Random random(1);
  for (size_t dim = 1; dim <= 140; ++dim) {
    // One float more, so that rows start anywhere.
    std::vector<float> x = random.values(3 * dim + 1, 5.0F);
    const std::vector<float> weight = random.values(dim);
    std::vector<float> out(3 * dim);
    one_->rms_norm({x.data() + 1, weight.data(), 1e-5F, 3, dim, out.data()});
    const auto want = reference::rms_norm({x.begin() + 1, x.end()}, weight, 1e-5);
    ASSERT_LE(kernel_test::distance(out, want), 1e-6 * std::sqrt(static_cast<double>(dim))) << dim;
    one_->rms_norm({x.data() + 1, weight.data(), 1e-5F, 3, dim, x.data() + 1});  // in place
    ASSERT_EQ(std::memcmp(x.data() + 1, out.data(), out.size() * 4), 0);
  }
}

TEST_P(Elementwise, RmsNormOfARowIsTheSameAmongOthersAndOnThreads) {
  Random random(2);
  const size_t dim = 1000;
  const std::vector<float> x = random.values(90 * dim);
  const std::vector<float> weight = random.values(dim);
  std::vector<float> all(90 * dim);
  std::vector<float> row(dim);
  two_->rms_norm({x.data(), weight.data(), 1e-6F, 90, dim, all.data()});
  for (size_t i = 0; i < 90; i += 7) {
    one_->rms_norm({x.data() + i * dim, weight.data(), 1e-6F, 1, dim, row.data()});
    ASSERT_EQ(std::memcmp(all.data() + i * dim, row.data(), dim * 4), 0);
  }
}

TEST_P(Elementwise, SiluGateAgreesWithTheReferenceForEveryLength) {
  Random random(3);
  for (size_t dim = 1; dim <= 70; ++dim) {
    const std::vector<float> x = random.values(2 * 2 * dim, 20.0F);
    std::vector<float> out(2 * dim + 1, 9.0F);
    one_->gate({x.data(), 2, dim, Activation::kSilu, out.data()});
    for (size_t row = 0; row < 2; ++row) {
      const auto want = reference::gate(x.data() + row * 2 * dim, dim);
      for (size_t i = 0; i < dim; ++i) {
        ASSERT_NEAR(
            static_cast<double>(out[row * dim + i]), want[i], 3e-7 * (std::abs(want[i]) + 1e-3));
      }
    }
    ASSERT_EQ(out.back(), 9.0F);
  }
}

TEST_P(Elementwise, SiluGateAtTheEndsOfTheNumbers) {
  const float inf = HUGE_VALF;
  const std::vector<float> x = {
      -1000.0F, -88.5F, 1000.0F, 0.0F, inf, std::nanf(""), 1, 1, 1, 1, 1, 1};
  std::vector<float> out(6);
  one_->gate({x.data(), 1, 6, Activation::kSilu, out.data()});
  EXPECT_NEAR(out[0], 0.0F, 1e-30F);
  EXPECT_NEAR(out[1], 0.0F, 1e-30F);
  EXPECT_EQ(out[2], 1000.0F);
  EXPECT_EQ(out[3], 0.0F);
  EXPECT_EQ(out[4], inf);
  EXPECT_TRUE(std::isnan(out[5]));
}

TEST_P(Elementwise, GateRowsAreTheSameAmongOthersAndOnThreads) {
  Random random(4);
  const size_t dim = 20001;  // more than a part
  const std::vector<float> x = random.values(9 * 2 * dim, 6.0F);
  std::vector<float> all(9 * dim);
  std::vector<float> row(dim);
  two_->gate({x.data(), 9, dim, Activation::kSilu, all.data()});
  for (size_t i = 0; i < 9; ++i) {
    one_->gate({x.data() + i * 2 * dim, 1, dim, Activation::kSilu, row.data()});
    ASSERT_EQ(std::memcmp(all.data() + i * dim, row.data(), dim * 4), 0);
  }
}

TEST_P(Elementwise, SampleReduceFindsTheFirstLargestAndTheSum) {
  Random random(5);
  for (const size_t vocab : std::vector<size_t>{1, 2, 15, 16, 17, 33, 4095, 4096, 4097, 9000}) {
    std::vector<float> logits = random.values(3 * vocab, 30.0F);
    logits[vocab + vocab / 2] = 31.0F;
    logits[2 * vocab - 1] = 31.0F;  // a tie: the lower id wins
    LogitSummary one[3];
    LogitSummary two[3];
    one_->sample_reduce({logits.data(), 3, vocab, vocab, one});
    two_->sample_reduce({logits.data(), 3, vocab, vocab, two});
    EXPECT_EQ(one[1].argmax, vocab / 2);
    for (size_t row = 0; row < 3; ++row) {
      const float* x = logits.data() + row * vocab;
      const size_t best = static_cast<size_t>(std::max_element(x, x + vocab) - x);
      double sum = 0;
      for (size_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(x[i] - x[best]));
      EXPECT_EQ(one[row].argmax, best);
      EXPECT_EQ(one[row].max, x[best]);
      EXPECT_NEAR(one[row].sum_exp, sum, 1e-6 * sum);
      EXPECT_EQ(one[row].sum_exp, two[row].sum_exp);
      LogitSummary alone;
      one_->sample_reduce({x, 1, vocab, vocab, &alone});
      EXPECT_EQ(alone.sum_exp, one[row].sum_exp);
    }
    // A padded row: what lies past n_ids is not looked at.
    const size_t padded = vocab / 2 + 1;
    LogitSummary cut[3];
    two_->sample_reduce({logits.data(), 3, vocab, padded, cut});
    for (size_t row = 0; row < 3; ++row) {
      LogitSummary alone;
      one_->sample_reduce({logits.data() + row * vocab, 1, padded, padded, &alone});
      EXPECT_EQ(cut[row].argmax, alone.argmax);
      EXPECT_EQ(cut[row].sum_exp, alone.sum_exp);
    }
  }
}

TEST_P(Elementwise, NanNeverWinsAndShowsInTheSum) {
  std::vector<float> logits(40, -1.0F);
  logits[3] = std::nanf("");
  logits[39] = std::nanf("");
  logits[20] = 5.0F;
  LogitSummary summary;
  one_->sample_reduce({logits.data(), 1, 40, 40, &summary});
  EXPECT_EQ(summary.argmax, 20U);
  EXPECT_TRUE(std::isnan(summary.sum_exp));
}

TEST_P(Elementwise, GatherRowsPicksThem) {
  const std::vector<float> x = Random(6).values(10 * 13);
  const std::vector<uint32_t> rows = {9, 0, 9, 4};
  std::vector<float> out(4 * 13);
  one_->gather_rows({x.data(), rows, 13, out.data()});
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::memcmp(&out[i * 13], &x[rows[i] * 13], 13 * 4), 0);
  }
}

CAIRN_EACH_ISA(Elementwise);

}  // namespace
}  // namespace cairn
