#include "base/kernel_pool.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace cairn {
namespace {

class KernelPoolSizes : public testing::TestWithParam<unsigned> {};

TEST_P(KernelPoolSizes, RunsEachPartOnce) {
  KernelPool pool(GetParam());
  EXPECT_EQ(pool.n_threads(), GetParam());
  // Sizes change from run to run: a worker that is late from a large run must not disturb a small
  // one.
  for (size_t round = 0; round < 3000; ++round) {
    const size_t n_parts = round * 7 % 67;
    std::vector<int> n_runs(n_parts, 0);  // plain: each part has one writer, run() orders the rest
    pool.run(n_parts, [&](size_t part) { ++n_runs[part]; });
    for (const int n : n_runs) ASSERT_EQ(n, 1) << "round " << round;
  }
}

TEST_P(KernelPoolSizes, ResultsOfOneRunAreSeenByTheNext) {
  KernelPool pool(GetParam());
  constexpr size_t kParts = 16;
  std::vector<uint64_t> current(kParts, 1);
  std::vector<uint64_t> next(kParts);
  for (int round = 0; round < 2000; ++round) {
    pool.run(kParts, [&](size_t i) { next[i] = current[(i + 1) % kParts] + current[i]; });
    current.swap(next);
  }
  for (const uint64_t value : current) EXPECT_EQ(value, current[0]);
}

TEST_P(KernelPoolSizes, ParkedWorkersWake) {
  KernelPool pool(GetParam());
  for (int round = 0; round < 30; ++round) {
    std::atomic<int> n_run{0};
    pool.run(8, [&](size_t) { n_run.fetch_add(1); });
    EXPECT_EQ(n_run.load(), 8);
    // Longer than a worker spins, so that it parks.
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(400);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, KernelPoolSizes, testing::Values(1U, 2U, 3U, 8U));

TEST(KernelPool, TwoThreadsWorkAtOnce) {
  KernelPool pool(2);
  std::atomic<int> n_inside{0};
  // Each part waits for the other: with one worker this would never end.
  pool.run(2, [&](size_t) {
    n_inside.fetch_add(1);
    while (n_inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(n_inside.load(), 2);
}

TEST(KernelPool, OnePartStaysOnTheCaller) {
  KernelPool pool(4);
  std::thread::id where;
  pool.run(1, [&](size_t) { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
  bool ran = false;
  pool.run(0, [&](size_t) { ran = true; });
  EXPECT_FALSE(ran);
}

TEST(KernelPool, StartsAndStopsAtAnyMoment) {
  for (unsigned round = 0; round < 60; ++round) {
    KernelPool pool(1 + round % 5);
    std::atomic<int> n_run{0};
    for (unsigned i = 0; i < round % 4; ++i) pool.run(5, [&](size_t) { n_run.fetch_add(1); });
    EXPECT_EQ(n_run.load(), static_cast<int>(round % 4 * 5));
  }
}

TEST(KernelPool, WorkersRoundToNearestAndKeepDenormals) {
  constexpr unsigned kDefault = 0x1f80;
  constexpr unsigned kUpwardFlushing = 0x1f80 | 0x4000 | 0x8040;
  _mm_setcsr(kUpwardFlushing);  // a new thread inherits this
  KernelPool pool(2);
  const unsigned caller = _mm_getcsr();
  _mm_setcsr(kDefault);
  EXPECT_EQ(caller & 0xffc0U, kDefault) << "set for the caller too";
  std::atomic<int> n_inside{0};
  std::atomic<int> n_wrong{0};
  pool.run(2, [&](size_t) {
    n_inside.fetch_add(1);
    while (n_inside.load() < 2) std::this_thread::yield();  // so that both threads take part
    if ((_mm_getcsr() & 0xffc0U) != kDefault) n_wrong.fetch_add(1);
  });
  EXPECT_EQ(n_wrong.load(), 0);
}

TEST(KernelPoolDeathTest, NeedsAThread) {
  EXPECT_DEATH(KernelPool(0), "1 to 1024 threads");
}

}  // namespace
}  // namespace cairn
