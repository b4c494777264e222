// Weights computed from packed form. The arithmetic of both precisions is defined in scalar code
// here, and every class must give its bits.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "kernels/reference.h"
#include "quant_test_support.h"

namespace cairn {
namespace {

using kernel_test::QuantMatrix;
using kernel_test::Random;

std::shared_ptr<const PackedWeight> pack(Backend& backend, const QuantMatrix& m) {
  PackRequest request;
  request.parts = {m.part()};
  auto packed = backend.pack(request);
  EXPECT_TRUE(packed.is_ok()) << m.name << ": " << packed.status().to_string();
  return *packed;
}

std::vector<float> product(Backend& backend,
                           const PackedWeight& weight,
                           const float* x,
                           size_t n_rows) {
  std::vector<float> out(n_rows * weight.n_out(), -7.0F);
  backend.matmul({.x = x, .n_rows = n_rows, .weight = &weight, .out = out.data()});
  return out;
}

// Group `g` of output `o`: codes, scale and minimum, read from the source.
struct Group {
  std::vector<int> codes;  // minus zero
  float scale = 0;
  float min = 0;
  bool has_min = false;
};

Group group_of(const QuantMatrix& m, size_t o, size_t g) {
  Group group;
  if (m.bits != 0) {
    const size_t begin = o * m.n_in + g * m.group_size;
    std::vector<uint8_t> codes(m.group_size);
    decode_affine_codes(m.values.data() + 1, m.bits, begin, m.group_size, codes.data());
    group.codes.assign(codes.begin(), codes.end());
    const size_t idx = begin / m.group_size;
    group.scale = float_element(m.scale_dtype, m.scales.data() + 1, idx);
    group.min = float_element(m.scale_dtype, m.biases.data() + 1, idx);
    group.has_min = true;
    return group;
  }
  const BlockShape shape = block_shape(m.dtype);
  const BlockScheme scheme = block_scheme(m.dtype);
  const size_t element = o * m.n_in + g * scheme.group_size;
  BlockCodes block;
  decode_block(m.dtype, m.values.data() + 1 + element / shape.n_elements * shape.n_bytes, &block);
  const size_t inside = element % shape.n_elements;
  const size_t level = inside / scheme.group_size;
  for (size_t i = 0; i < scheme.group_size; ++i) {
    group.codes.push_back(block.codes[inside + i] - static_cast<int>(scheme.zero));
  }
  group.scale = block.d * static_cast<float>(block.scales[level]);
  group.has_min = scheme.has_min;
  if (scheme.has_min) group.min = block.m * static_cast<float>(block.mins[level]);
  return group;
}

// Precision fast as DESIGN 4.4 defines it.
std::vector<float> fast_product(const QuantMatrix& m, const float* x, size_t n_rows) {
  const size_t n = m.bits != 0 ? m.group_size : block_scheme(m.dtype).group_size;
  std::vector<float> out(n_rows * m.n_out);
  for (size_t o = 0; o < m.n_out; ++o) {
    for (size_t g = 0; g < m.n_in / n; ++g) {
      const Group w = group_of(m, o, g);
      for (size_t row = 0; row < n_rows; ++row) {
        const float* values = x + row * m.n_in + g * n;
        float max = 0;
        for (size_t i = 0; i < n; ++i) max = std::max(max, std::abs(values[i]));
        int dot = 0;
        int sum = 0;
        for (size_t i = 0; i < n && max > 0; ++i) {
          const int code = static_cast<int>(std::nearbyint(values[i] * (127.0F / max)));
          dot += code * w.codes[i];
          sum += code;
        }
        const float scale = max / 127.0F;
        float& acc = out[row * m.n_out + o];
        acc = std::fma(static_cast<float>(dot), w.scale * scale, acc);
        if (w.has_min) acc = std::fma(w.min, scale * static_cast<float>(sum), acc);
      }
    }
  }
  return out;
}

class Quant : public kernel_test::EachIsa {};

TEST_P(Quant, FastProductsAreExactDotsOfBytesScaledInOrder) {
  Random random(21);
  const size_t n_rows = 14;  // more than read the planes directly
  const std::vector<float> x = random.values(n_rows * 768, 5.0F);
  const auto backend = kernel_test::backend_of(GetParam());
  for (const QuantMatrix& m : kernel_test::every_format(70, 768, random)) {
    const auto weight = pack(*backend, m);
    const std::vector<float> expected = fast_product(m, x.data(), n_rows);
    const std::vector<float> out = product(*backend, *weight, x.data(), n_rows);
    ASSERT_TRUE(kernel_test::same_bits(out, expected)) << m.name;
    for (const size_t few : {1U, 2U, 3U, 5U}) {
      const auto some = product(*backend, *weight, x.data(), few);
      ASSERT_EQ(std::memcmp(some.data(), expected.data(), some.size() * 4), 0)
          << m.name << ", " << few << " rows";
    }
    const auto want = reference::matmul(x, m.dequantised, {}, n_rows, m.n_in);
    // Half a step of x, 5 / 254, times a weight below 4, for each of 768 with any sign.
    ASSERT_LE(kernel_test::distance(out, want), 5.0 / 254 * 4 * std::sqrt(768.0)) << m.name;
  }
}

TEST_P(Quant, NothingSaturatesAtTheLargestCodes) {
  const auto backend = kernel_test::backend_of(GetParam());
  Random random(27);
  const std::vector<float> up(256, 1.0F);  // codes of 127
  const std::vector<float> down(256, -1.0F);
  for (QuantMatrix& m : kernel_test::every_format(64, 256, random)) {
    for (const unsigned fill : {0xffU, 0x80U, 0x7fU, 0x00U}) {
      // The halves stay finite: all values are overwritten, then the scales set again.
      std::fill(m.values.begin(), m.values.end(), std::byte(fill));
      for (size_t at = 1; m.bits == 0 && at < m.values.size(); at += block_shape(m.dtype).n_bytes) {
        for (const size_t offset : kernel_test::half_offsets(m.dtype)) {
          const F16 half = f32_to_f16(0.5F);
          std::memcpy(&m.values[at + offset], &half, 2);
        }
        if (m.dtype == DType::kMxfp4) m.values[at] = std::byte{120};
      }
      const auto weight = pack(*backend, m);
      for (const std::vector<float>& x : {up, down}) {
        ASSERT_TRUE(kernel_test::same_bits(product(*backend, *weight, x.data(), 1),
                                           fast_product(m, x.data(), 1)))
            << m.name << " " << fill;
        std::vector<float> many;  // through the unpacked tile
        for (size_t row = 0; row < 14; ++row) many.insert(many.end(), x.begin(), x.end());
        ASSERT_TRUE(kernel_test::same_bits(product(*backend, *weight, many.data(), 14),
                                           fast_product(m, many.data(), 14)))
            << m.name << " " << fill;
      }
    }
  }
}

TEST_P(Quant, ExactProductsAreThoseOfTheDequantisedWeight) {
  Random random(22);
  const std::vector<float> x = random.values(5 * 512, 5.0F);
  const auto backend = kernel_test::backend_of(GetParam(), Precision::kF32);
  for (const QuantMatrix& m : kernel_test::every_format(67, 512, random)) {
    PackRequest wide;
    wide.parts = {kernel_test::part_of(
        kernel_test::view_of(m.dequantised, DType::kF32, {67, static_cast<int64_t>(m.n_in)}))};
    const auto want = product(*backend, **backend->pack(wide), x.data(), 5);
    const auto out = product(*backend, *pack(*backend, m), x.data(), 5);
    ASSERT_TRUE(kernel_test::same_bits(out, want)) << m.name;
  }
}

TEST_P(Quant, ARowHasTheSameBitsAloneAndAmongOthersOnAnyNumberOfThreads) {
  for (const Precision precision : {Precision::kFast, Precision::kF32}) {
    Random random(23);
    const size_t n_rows = 250;  // two blocks of rows
    const auto one = kernel_test::backend_of(GetParam(), precision, 1);
    const auto two = kernel_test::backend_of(GetParam(), precision, 2);
    std::vector<QuantMatrix> matrices;
    for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4K, DType::kQ6K}) {
      matrices.push_back(kernel_test::random_blocks(dtype, 129, 512, random));
    }
    matrices.push_back(kernel_test::random_affine(3, 128, DType::kBf16, 129, 640, random));
    for (const QuantMatrix& m : matrices) {
      const std::vector<float> x = random.values(n_rows * m.n_in, 3.0F);
      const auto weight = pack(*one, m);
      const std::vector<float> all = product(*one, *weight, x.data(), n_rows);
      ASSERT_TRUE(kernel_test::same_bits(all, product(*two, *weight, x.data(), n_rows)));
      size_t row = 0;
      for (size_t n = 1; row + n <= n_rows; row += n, n = n % 9 + 1) {
        const auto some = product(n % 2 ? *one : *two, *weight, x.data() + row * m.n_in, n);
        ASSERT_EQ(std::memcmp(some.data(), &all[row * m.n_out], some.size() * 4), 0)
            << m.name << " rows " << row << " to " << row + n;
      }
    }
  }
}

TEST_P(Quant, StackedPartsOfSeveralFormatsAreTheProductsOfTheParts) {
  for (const Precision precision : {Precision::kFast, Precision::kF32}) {
    Random random(24);
    const auto backend = kernel_test::backend_of(GetParam(), precision, 2);
    const QuantMatrix q = kernel_test::random_blocks(DType::kQ4K, 70, 512, random);
    const QuantMatrix k = kernel_test::random_blocks(DType::kQ4K, 20, 512, random);
    const QuantMatrix v = kernel_test::random_blocks(DType::kQ6K, 20, 512, random);
    const std::vector<float> plain = random.values(30 * 512);
    const std::vector<Bf16> plain16 = kernel_test::to_bf16(plain);
    const std::vector<float> bias = random.values(20);
    PackRequest request;
    request.parts = {q.part(),
                     k.part(),
                     v.part(),
                     kernel_test::part_of(kernel_test::view_of(plain16, DType::kBf16, {30, 512}))};
    request.biases = {
        std::nullopt, std::nullopt, kernel_test::view_of(bias, DType::kF32, {20}), std::nullopt};
    const auto packed = backend->pack(request);
    ASSERT_TRUE(packed.is_ok()) << packed.status().to_string();
    ASSERT_EQ((*packed)->n_out(), 140U);

    const std::vector<float> x = random.values(7 * 512);
    std::vector<float> out(7 * 140, 0.25F);
    backend->matmul({x.data(), 7, packed->get(), out.data(), true});
    size_t begin = 0;
    for (size_t i = 0; i < request.parts.size(); ++i) {
      PackRequest alone;
      alone.parts = {request.parts[i]};
      const auto weight = *backend->pack(alone);
      const size_t n = weight->n_out();
      const std::vector<float> want = product(*backend, *weight, x.data(), 7);
      for (size_t row = 0; row < 7; ++row) {
        for (size_t o = 0; o < n; ++o) {
          const float with_bias = i == 2 ? want[row * n + o] + bias[o] : want[row * n + o];
          ASSERT_EQ(out[row * 140 + begin + o], 0.25F + with_bias) << "part " << i;
        }
      }
      begin += n;
    }
  }
}

TEST_P(Quant, NanAndInfinityInARowReachThatRowOnly) {
  Random random(25);
  const auto backend = kernel_test::backend_of(GetParam());
  for (const DType dtype : {DType::kQ8_0, DType::kQ4K}) {
    const QuantMatrix m = kernel_test::random_blocks(dtype, 64, 256, random);
    std::vector<float> x = random.values(7 * 256);
    const auto weight = pack(*backend, m);
    const std::vector<float> clean = product(*backend, *weight, x.data(), 7);
    x[3 * 256 + 40] = std::nanf("");
    x[5 * 256 + 255] = -HUGE_VALF;
    const std::vector<float> dirty = product(*backend, *weight, x.data(), 7);
    for (size_t i = 0; i < dirty.size(); ++i) {
      const size_t row = i / 64;
      if (row == 3 || row == 5) {
        ASSERT_FALSE(std::isfinite(dirty[i]));
      } else {
        ASSERT_EQ(dirty[i], clean[i]);
      }
    }
  }
}

TEST_P(Quant, TinyAndZeroActivationsGiveZero) {
  Random random(26);
  const auto backend = kernel_test::backend_of(GetParam());
  const auto weight = pack(*backend, kernel_test::random_blocks(DType::kQ4K, 64, 256, random));
  std::vector<float> x(256);
  x[7] = 1e-40F;
  for (const float value : product(*backend, *weight, x.data(), 1)) EXPECT_EQ(value, 0.0F);
}

CAIRN_EACH_ISA(Quant);

class QuantPacking : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = kernel_test::backend_of(Isa::kAvx2, Precision::kFast, 2);
};

TEST_F(QuantPacking, EmbeddingRowsAreExactInEveryFormat) {
  Random random(31);
  for (const QuantMatrix& m : kernel_test::every_format(131, 512, random)) {
    PackRequest request;
    request.parts = {m.part()};
    for (uint32_t i = 0; i < 131; ++i) request.parts[0].row_order.push_back((i * 5 + 2) % 131);
    const auto table = backend_->pack(request);
    ASSERT_TRUE(table.is_ok()) << m.name << ": " << table.status().to_string();
    for (const uint32_t id : {0U, 1U, 63U, 64U, 100U, 127U, 128U, 130U}) {
      std::vector<float> out(512);
      backend_->embed({.table = table->get(), .ids = &id, .n_rows = 1, .out = out.data()});
      const size_t source = request.parts[0].row_order[id];
      for (size_t i = 0; i < 512; ++i) {
        ASSERT_EQ(out[i], m.dequantised[source * 512 + i]) << m.name << " row " << id << ", " << i;
      }
    }
  }
}

TEST_F(QuantPacking, TakesNoMoreThanThreeHundredthsMoreThanTheSource) {
  Random random(32);
  for (const QuantMatrix& m : kernel_test::every_format(128, 1024, random)) {
    const std::map<std::string, double> rarer = {
        // 4- or 6-bit scales as 8-bit, or values as 8-bit codes
        {"q2_k", 1.2},
        {"q3_k", 1.04},
        {"iq4_nl", 1.9},
        {"iq4_xs", 2.0},
        {"mxfp4", 2.01}};
    const double most = rarer.contains(m.name) ? rarer.at(m.name) : 1.03;
    EXPECT_LE(static_cast<double>(pack(*backend_, m)->n_bytes()),
              most * static_cast<double>(m.n_bytes()))
        << m.name;
  }
}

TEST_F(QuantPacking, RefusesWhatDoesNotFitTogether) {
  Random random(33);
  const auto code_of = [&](const WeightPart& part) {
    PackRequest request;
    request.parts = {part};
    return backend_->pack(request).status().code();
  };
  const QuantMatrix blocks = kernel_test::random_blocks(DType::kQ4K, 4, 512, random);
  WeightPart part = blocks.part();
  EXPECT_EQ(code_of(part), StatusCode::kOk);
  part.values.shape = {4, 500};
  EXPECT_EQ(code_of(part), StatusCode::kInvalidArgument) << "not whole blocks";
  part.values.shape = {4, 256};
  EXPECT_EQ(code_of(part), StatusCode::kInvalidArgument) << "more bytes than the shape has";

  const QuantMatrix affine = kernel_test::random_affine(4, 64, DType::kF16, 4, 512, random);
  EXPECT_EQ(code_of(affine.part()), StatusCode::kOk);
  part = affine.part();
  part.affine->bits = 7;
  EXPECT_EQ(code_of(part), StatusCode::kUnsupported);
  part = affine.part();
  part.affine->group_size = 16;
  EXPECT_EQ(code_of(part), StatusCode::kUnsupported);
  part = affine.part();
  part.affine->bits = 8;
  EXPECT_EQ(code_of(part), StatusCode::kInvalidArgument) << "words for half the codes";
  part = affine.part();
  part.affine->biases.shape = {4, 4};
  EXPECT_EQ(code_of(part), StatusCode::kInvalidArgument);
  part = affine.part();
  part.affine->biases.dtype = DType::kBf16;
  EXPECT_EQ(code_of(part), StatusCode::kInvalidArgument);
  part = affine.part();
  part.values.dtype = DType::kI32;
  EXPECT_EQ(code_of(part), StatusCode::kUnsupported);

  PackRequest request;
  request.parts = {blocks.part(), kernel_test::random_blocks(DType::kQ4K, 4, 256, random).part()};
  EXPECT_EQ(backend_->pack(request).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn
