// Packed weights as bytes that outlive the program: what they are, and taking them back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/hash.h"
#include "quant_test_support.h"

namespace cairn {
namespace {

using kernel_test::Random;

// Every format that weights are packed in, and the source of its bytes.
struct EveryFormat {
  Random random{77};
  std::vector<float> floats = random.values(70 * 512);
  std::vector<Bf16> small = kernel_test::to_bf16(floats);
  std::vector<float> bias = random.values(70);
  std::vector<kernel_test::QuantMatrix> quantised;

  EveryFormat() {
    for (const DType dtype : kBlockTypes) {
      quantised.push_back(kernel_test::random_blocks(dtype, 70, 512, random));
    }
    for (const uint32_t bits : {2U, 3U, 4U, 5U, 6U, 8U}) {
      quantised.push_back(kernel_test::random_affine(bits, 64, DType::kBf16, 70, 512, random));
    }
  }

  // One a format; the float ones with a bias.
  std::vector<PackRequest> requests() const {
    std::vector<PackRequest> out(2);
    out[0].parts = {kernel_test::part_of(kernel_test::view_of(floats, DType::kF32, {70, 512}))};
    out[1].parts = {kernel_test::part_of(kernel_test::view_of(small, DType::kBf16, {70, 512}))};
    for (PackRequest& request : out) {
      request.biases = {kernel_test::view_of(bias, DType::kF32, {70})};
    }
    for (const auto& matrix : quantised) {
      out.emplace_back();
      out.back().parts = {matrix.part()};
    }
    return out;
  }
};

std::unique_ptr<Backend> packing_backend() {
  return kernel_test::backend_of(supported_isas().back(), Precision::kFast, 2);
}

// A failure means that files of packed weights would be misread: raise kPackingVersion in
// src/kernels/packed_weight.h, then record the new hash here.
TEST(PackedBytes, AreThoseOfThePackingVersion) {
  const EveryFormat every;
  const auto backend = packing_backend();
  std::vector<uint64_t> hashes;
  for (const PackRequest& request : every.requests()) {
    hashes.push_back(xxh3_64(backend->pack(request).value()->bytes()));
  }
  EXPECT_EQ(backend->packing_version(), "cpu-panels64-1");
  EXPECT_EQ(xxh3_64(std::as_bytes(std::span(hashes))), 0x5aa5d82ef35bb9a0U);
}

TEST(PackedBytes, AreTheSameForEveryClassOfProcessor) {
  const EveryFormat every;
  const auto backend = packing_backend();
  for (const Isa isa : supported_isas()) {
    const auto other = kernel_test::backend_of(isa, Precision::kF32, 1);
    EXPECT_EQ(other->packing_version(), backend->packing_version());
    for (const PackRequest& request : every.requests()) {
      const auto a = backend->pack(request).value();
      const auto b = other->pack(request).value();
      EXPECT_TRUE(std::ranges::equal(a->bytes(), b->bytes()));
    }
  }
}

TEST(PackedBytes, AdoptedGiveTheSameProducts) {
  const EveryFormat every;
  const auto backend = packing_backend();
  Random random(78);
  const std::vector<float> x = random.values(3 * 512);
  for (const PackRequest& request : every.requests()) {
    const auto packed = backend->pack(request).value();
    const Buffer copy = Buffer::allocate(packed->n_bytes());
    std::ranges::copy(packed->bytes(), copy.data());
    const auto adopted = backend->adopt(request, copy.share());
    ASSERT_TRUE(adopted.is_ok()) << adopted.status().to_string();
    std::vector<float> a(3 * 70);
    std::vector<float> b(3 * 70);
    backend->matmul({x.data(), 3, packed.get(), a.data(), false});
    backend->matmul({x.data(), 3, adopted->get(), b.data(), false});
    EXPECT_EQ(a, b);
  }
}

TEST(PackedBytes, OfAnotherSizeOrPlaceAreRefused) {
  const EveryFormat every;
  const auto backend = packing_backend();
  for (const PackRequest& request : every.requests()) {
    const auto packed = backend->pack(request).value();
    const Buffer copy = Buffer::allocate(packed->n_bytes() + 64);
    const SharedBytes all = copy.share();
    for (const auto& [begin, n] : {std::pair<size_t, size_t>{0, packed->n_bytes() - 4},
                                   {0, packed->n_bytes() + 4},
                                   {4, packed->n_bytes()}}) {
      const auto refused = backend->adopt(request, {all.bytes.subspan(begin, n), all.owner});
      EXPECT_EQ(refused.status().code(), StatusCode::kCorruption);
      EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("[70, 512]"));
    }
  }
}

}  // namespace
}  // namespace cairn
