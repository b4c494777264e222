#include "kernels/limits.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "tensor/buffer.h"

namespace cairn {
namespace {

using Seconds = std::chrono::duration<double>;

// Enough chains to hide the latency of a multiply-add on two pipes, few enough for the sixteen
// registers of AVX2.
constexpr int kChains = 14;
constexpr int64_t kRounds = 400'000;

template <typename Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return Seconds(std::chrono::steady_clock::now() - begin).count();
}

// Each loop runs kRounds x kChains instructions and returns something the compiler cannot drop.
__attribute__((target("avx2,fma"), noinline)) float fma_loop_avx2() {
  __m256 acc[kChains];
  for (auto& a : acc) a = _mm256_setzero_ps();
  const __m256 x = _mm256_set1_ps(1e-3F);
  const __m256 y = _mm256_set1_ps(0.5F);
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) acc[c] = _mm256_fmadd_ps(x, y, acc[c]);
  }
  float sum = 0;
  for (const auto& a : acc) sum += _mm256_cvtss_f32(a);
  return sum;
}

__attribute__((target("avx512f"), noinline)) float fma_loop_avx512() {
  __m512 acc[kChains];
  for (auto& a : acc) a = _mm512_setzero_ps();
  const __m512 x = _mm512_set1_ps(1e-3F);
  const __m512 y = _mm512_set1_ps(0.5F);
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) acc[c] = _mm512_fmadd_ps(x, y, acc[c]);
  }
  float sum = 0;
  for (const auto& a : acc) sum += _mm512_cvtss_f32(a);
  return sum;
}

__attribute__((target("avx512f,avx512bf16"), noinline)) float dot_loop_bf16() {
  __m512 acc[kChains];
  for (auto& a : acc) a = _mm512_setzero_ps();
  const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3c003c00));
  const auto y = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f003f00));
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) acc[c] = _mm512_dpbf16_ps(acc[c], x, y);
  }
  float sum = 0;
  for (const auto& a : acc) sum += _mm512_cvtss_f32(a);
  return sum;
}

struct Loop {
  float (*run)();
  double flops_per_instruction;
};

Loop loop_for(Isa isa, Precision precision) {
  if (isa == Isa::kAvx2) return {fma_loop_avx2, 16};
  if (isa == Isa::kAvx512Bf16 && precision == Precision::kFast) return {dot_loop_bf16, 64};
  return {fma_loop_avx512, 32};
}

double measure_gflops(Isa isa, Precision precision, KernelPool& pool) {
  const Loop loop = loop_for(isa, precision);
  std::vector<float> sink(pool.n_threads());
  const auto work = [&] { pool.run(sink.size(), [&](size_t part) { sink[part] = loop.run(); }); };
  work();  // clocks come up
  double best = 1e9;
  for (int rep = 0; rep < 30; ++rep) best = std::min(best, seconds_of(work));
  const double instructions =
      static_cast<double>(kRounds) * kChains * static_cast<double>(sink.size());
  return instructions * loop.flops_per_instruction / best / 1e9;
}

__attribute__((target("avx2"), noinline)) uint64_t read_all(const std::byte* data, size_t n_bytes) {
  __m256i sum[8];
  for (auto& s : sum) s = _mm256_setzero_si256();
  const auto* vectors = reinterpret_cast<const __m256i*>(data);
  for (size_t i = 0; i + 8 <= n_bytes / 32; i += 8) {
    _mm_prefetch(reinterpret_cast<const char*>(vectors + i) + 2048, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(vectors + i) + 2112, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(vectors + i) + 2176, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(vectors + i) + 2240, _MM_HINT_T0);
#pragma GCC unroll 8
    for (size_t c = 0; c < 8; ++c)
      sum[c] = _mm256_xor_si256(sum[c], _mm256_load_si256(vectors + i + c));
  }
  __m256i all = _mm256_setzero_si256();
  for (const auto& s : sum) all = _mm256_xor_si256(all, s);
  return static_cast<uint64_t>(_mm256_extract_epi64(all, 0));
}

}  // namespace

double measure_read_gb_s(KernelPool& pool) {
  constexpr size_t kBytes = size_t{256} << 20;
  const Buffer buffer = Buffer::allocate(kBytes);
  auto bytes = buffer.as<uint64_t>();
  std::fill(bytes.begin(), bytes.end(), 0x0123456789abcdefULL);
  const size_t n_parts = pool.n_threads();
  const size_t part_bytes = kBytes / n_parts / 4096 * 4096;
  std::vector<uint64_t> sink(n_parts);
  const auto work = [&] {
    pool.run(n_parts, [&](size_t part) {
      sink[part] = read_all(buffer.data() + part * part_bytes, part_bytes);
    });
  };
  work();
  double best = 1e9;
  for (int rep = 0; rep < 6; ++rep) best = std::min(best, seconds_of(work));
  return static_cast<double>(part_bytes * n_parts) / best / 1e9;
}

MachineLimits measure_limits(Isa isa, Precision precision, KernelPool& pool) {
  MachineLimits limits;
  limits.gflops = measure_gflops(isa, precision, pool);
  limits.read_gb_s = measure_read_gb_s(pool);
  return limits;
}

}  // namespace cairn
