// The bits that every operation gave when this file was last recorded, for each ISA class.
//
// A failure means that the numbers changed: raise kKernelRevision in src/kernels/cpu_backend.cc,
// because caches on disk are keyed by it, and record anew. To record: run
//   build/release/bin/kernels_tests --gtest_filter='*GoldenBits*'
// on a processor that has every class, and copy the hashes it prints into kGolden. They hold for
// any compiler, because kernels use only correctly rounded operations in a fixed order, and for any
// processor, except that VDPBF16PS rounds as its maker built it (recorded on AMD Zen 5).
#include <gtest/gtest.h>

#include <cinttypes>
#include <map>

#include "base/hash.h"
#include "quant_test_support.h"

namespace cairn {
namespace {

using kernel_test::Pages;
using kernel_test::Random;

struct Golden {
  const char* operation;
  uint64_t hash[3];  // avx2, avx512, avx512bf16
};

constexpr Golden kGolden[] = {
    {"attend 20 window bf16", {0x8a4113d279faa17eU, 0x8a4113d279faa17eU, 0x26261203ba70a71aU}},
    {"attend 20 window f32", {0x403300d3e1d9ec18U, 0x403300d3e1d9ec18U, 0x403300d3e1d9ec18U}},
    {"attend bf16", {0xd978a75cc4207e27U, 0xd978a75cc4207e27U, 0xeae5ef9a82eca64cU}},
    {"attend f32", {0x4e8ecd2afbe9ff8bU, 0x448c04634fcdc04fU, 0x448c04634fcdc04fU}},
    {"gate", {0x6c89bda86426d4beU, 0x6c89bda86426d4beU, 0x6c89bda86426d4beU}},
    {"matmul bf16 f32", {0x041a123fda5d5e3aU, 0x041a123fda5d5e3aU, 0x041a123fda5d5e3aU}},
    {"matmul bf16 fast", {0x4b9b9aaa876dfa6bU, 0x4b9b9aaa876dfa6bU, 0xacc6a8c40108dfefU}},
    {"matmul f32", {0x73b2c54180e3951fU, 0x73b2c54180e3951fU, 0x73b2c54180e3951fU}},
    {"matmul quant f32", {0xef28aed2b28285a3U, 0xef28aed2b28285a3U, 0xef28aed2b28285a3U}},
    {"matmul quant fast", {0x20cd9d4112e3d25dU, 0x20cd9d4112e3d25dU, 0x20cd9d4112e3d25dU}},
    {"rope_append 20 bf16", {0x8b49f8efd2b12afbU, 0x8b49f8efd2b12afbU, 0x8b49f8efd2b12afbU}},
    {"rope_append 20 f32", {0x2a89398d3d489920U, 0x2a89398d3d489920U, 0x2a89398d3d489920U}},
    {"rope_append bf16", {0xfa777bbba40b23fbU, 0x24836c17cf7324eaU, 0x24836c17cf7324eaU}},
    {"rope_append f32", {0x0547716f95bcdc74U, 0xf40254c64bda077eU, 0xf40254c64bda077eU}},
    {"sample_reduce", {0xf526d232449ea656U, 0x4eea7c5e66691162U, 0x4eea7c5e66691162U}},
    {"rms_norm", {0x3f1981dab158d02fU, 0x3f1981dab158d02fU, 0x3f1981dab158d02fU}},
};

template <typename T>
uint64_t hash_of(const std::vector<T>& data) {
  return xxh3_64(std::as_bytes(std::span(data)));
}

uint64_t matmul_hash(Isa isa, DType dtype, Precision precision) {
  Random random(71);
  const std::vector<float> w = random.values(150 * 1301);
  const std::vector<Bf16> small = kernel_test::to_bf16(w);
  const std::vector<float> bias = random.values(150);
  const std::vector<float> x = random.values(11 * 1301, 2.0F);
  const auto backend = kernel_test::backend_of(isa, precision, 2);
  PackRequest request;
  request.parts = {kernel_test::part_of(dtype == DType::kBf16
                                            ? kernel_test::view_of(small, dtype, {150, 1301})
                                            : kernel_test::view_of(w, dtype, {150, 1301}))};
  request.biases = {kernel_test::view_of(bias, DType::kF32, {150})};
  const auto weight = backend->pack(request);
  std::vector<float> out = random.values(11 * 150);
  backend->matmul({x.data(), 11, weight->get(), out.data(), true});
  return hash_of(out);
}

// A stack of five formats: every kind of plane, one and two levels, with and without minima.
uint64_t quant_hash(Isa isa, Precision precision) {
  Random random(76);
  const kernel_test::QuantMatrix parts[] = {
      kernel_test::random_blocks(DType::kQ8_0, 70, 768, random),
      kernel_test::random_blocks(DType::kQ4K, 40, 768, random),
      kernel_test::random_blocks(DType::kQ6K, 50, 768, random),
      kernel_test::random_affine(5, 64, DType::kBf16, 30, 768, random),
      kernel_test::random_affine(3, 128, DType::kF32, 30, 768, random)};
  PackRequest request;
  for (const auto& part : parts) request.parts.push_back(part.part());
  const auto backend = kernel_test::backend_of(isa, precision, 2);
  const auto weight = backend->pack(request);
  const std::vector<float> x = random.values(11 * 768, 2.0F);
  std::vector<float> out(11 * 220);
  backend->matmul({x.data(), 11, weight->get(), out.data(), false});
  return hash_of(out);
}

struct AttentionHashes {
  uint64_t rows = 0;  // turned q, k, v, and the pages
  uint64_t out = 0;
};

AttentionHashes attention_hashes(Isa isa, RowEncoding encoding, uint32_t head_dim, size_t window) {
  Random random(72);
  const size_t n = 600;
  const PageLayout layout{encoding, 1, 2, head_dim, 64};
  std::vector<float> qkv = random.values(n * 10 * head_dim, 2.0F);
  const std::vector<float> cos_sin = random.values(n * head_dim);
  const std::vector<float> q_norm = random.values(head_dim, 2.0F);
  const std::vector<float> k_norm = random.values(head_dim, 2.0F);
  const auto backend = kernel_test::backend_of(isa, Precision::kFast, 2);
  const Pages pages(layout, n);
  const RowSegment segment{0, n, 0, pages.table()};
  backend->rope_append({.qkv = qkv.data(),
                        .n_rows = n,
                        .n_heads = 6,
                        .q_norm = q_norm.data(),
                        .k_norm = k_norm.data(),
                        .norm_eps = 1e-6F,
                        .cos_sin = cos_sin.data(),
                        .rope_dim = head_dim,
                        .segments = {&segment, 1},
                        .layout = &layout,
                        .layer = 0});
  std::vector<uint64_t> parts = {hash_of(qkv)};
  for (size_t i = 0; i < pages.n_pages(); ++i) {
    parts.push_back(xxh3_64({pages.page(i), layout.page_bytes()}));
  }
  std::vector<float> out(n * 6 * head_dim);
  backend->attend({.q = qkv.data(),
                   .q_stride = 10 * size_t{head_dim},
                   .n_heads = 6,
                   .scale = 0.3F,
                   .window = window,
                   .segments = {&segment, 1},
                   .layout = &layout,
                   .layer = 0,
                   .out = out.data()});
  return {hash_of(parts), hash_of(out)};
}

uint64_t rms_norm_hash(Isa isa) {
  Random random(73);
  const std::vector<float> x = random.values(5 * 1037, 3.0F);
  const std::vector<float> weight = random.values(1037);
  std::vector<float> out(x.size());
  kernel_test::backend_of(isa)->rms_norm({x.data(), weight.data(), 1e-5F, 5, 1037, out.data()});
  return hash_of(out);
}

uint64_t gate_hash(Isa isa) {
  const std::vector<float> x = Random(74).values(3 * 2 * 1037, 90.0F);
  std::vector<float> out(3 * 1037);
  kernel_test::backend_of(isa)->gate({x.data(), 3, 1037, Activation::kSilu, out.data()});
  return hash_of(out);
}

uint64_t sample_reduce_hash(Isa isa) {
  const std::vector<float> logits = Random(75).values(2 * 10001, 20.0F);
  LogitSummary out[2];
  kernel_test::backend_of(isa)->sample_reduce({logits.data(), 2, 10001, out});
  std::vector<double> numbers;
  for (const LogitSummary& summary : out) {
    numbers.insert(
        numbers.end(),
        {static_cast<double>(summary.argmax), static_cast<double>(summary.max), summary.sum_exp});
  }
  return hash_of(numbers);
}

std::map<std::string, uint64_t> hashes_of(Isa isa) {
  std::map<std::string, uint64_t> hashes;
  hashes["matmul f32"] = matmul_hash(isa, DType::kF32, Precision::kFast);
  hashes["matmul bf16 fast"] = matmul_hash(isa, DType::kBf16, Precision::kFast);
  hashes["matmul bf16 f32"] = matmul_hash(isa, DType::kBf16, Precision::kF32);
  hashes["matmul quant f32"] = quant_hash(isa, Precision::kF32);
  hashes["matmul quant fast"] = quant_hash(isa, Precision::kFast);
  for (const RowEncoding encoding : {RowEncoding::kF32, RowEncoding::kBf16}) {
    const std::string name(to_string(encoding));
    const AttentionHashes whole = attention_hashes(isa, encoding, 64, 0);
    const AttentionHashes windowed = attention_hashes(isa, encoding, 20, 77);
    hashes["rope_append " + name] = whole.rows;
    hashes["rope_append 20 " + name] = windowed.rows;
    hashes["attend " + name] = whole.out;
    hashes["attend 20 window " + name] = windowed.out;
  }
  hashes["rms_norm"] = rms_norm_hash(isa);
  hashes["gate"] = gate_hash(isa);
  hashes["sample_reduce"] = sample_reduce_hash(isa);
  return hashes;
}

class GoldenBits : public kernel_test::EachIsa {};

TEST_P(GoldenBits, NothingChangedSinceTheyWereRecorded) {
  std::map<std::string, uint64_t> left = hashes_of(GetParam());
  for (const Golden& golden : kGolden) {
    const auto found = left.find(golden.operation);
    ASSERT_NE(found, left.end()) << golden.operation << " is recorded but not computed";
    const uint64_t want = golden.hash[static_cast<size_t>(GetParam())];
    char text[96];
    std::snprintf(
        text, sizeof(text), "now 0x%016" PRIx64 ", recorded 0x%016" PRIx64, found->second, want);
    EXPECT_EQ(found->second, want)
        << golden.operation << " " << to_string(GetParam()) << ": " << text;
    left.erase(found);
  }
  for (const auto& [operation, hash] : left) {
    char text[32];
    std::snprintf(text, sizeof(text), "0x%016" PRIx64, hash);
    ADD_FAILURE() << operation << " " << to_string(GetParam()) << " is not recorded: " << text;
  }
}

CAIRN_EACH_ISA(GoldenBits);

}  // namespace
}  // namespace cairn
