// The cache in memory: sharing, forks, tails, one budget. The disk tier: tiered_cache_disk_test.cc.
#include "store/tiered_cache.h"

#include <gtest/gtest.h>

#include <utility>

#include "store/cache_fixture.h"

namespace cairn {
namespace {

using testing::CacheFixture;
using testing::front;
using testing::Ids;
using testing::ids_from;
using testing::kSlotBytes;
using testing::kSmallPage;
using testing::small_options;
using testing::operator+;

TEST(TieredCache, ReusesAFinishedTimelineToTheToken) {
  CacheFixture f;
  const Ids ids = ids_from(1, 45);
  EXPECT_EQ(f.run(ids), 0U);
  EXPECT_EQ(f.run(ids + ids_from(500, 20)), 45U);
  EXPECT_EQ(f.run(ids), 44U);
  const CacheStats stats = f.stats();
  EXPECT_EQ(stats.lookups, 3U);
  EXPECT_EQ(stats.hit_tokens_device, 89U);
  EXPECT_EQ(stats.hit_tokens_disk, 0U);
}

TEST(TieredCache, ForksAtEveryPosition) {
  CacheFixture f;
  const Ids ids = ids_from(1, 50);
  f.run(ids);
  for (size_t cut = 0; cut <= 50; ++cut) {
    const TokenId other = 1000 + static_cast<TokenId>(cut) * 100;
    EXPECT_EQ(f.run(front(ids, cut) + ids_from(other, 3)), cut);
  }
}

TEST(TieredCache, CapsReuse) {
  CacheFixture f;
  const Ids ids = ids_from(1, 50);
  f.run(ids);
  for (size_t cap = 0; cap < 50; ++cap) {
    const auto sequence = f.begin(ids, 0, {.max_reuse = cap});
    EXPECT_EQ(sequence->n_rows(), cap);
    f.expect_rows(*sequence, ids);
  }
}

TEST(TieredCache, TellsWhyItMissed) {
  CacheFixture f;
  const Ids ids = ids_from(1, 40);
  const auto miss_of = [&](const Ids& prompt) { return f.begin(prompt)->reuse().miss; };
  EXPECT_EQ(miss_of(ids), MissReason::kEmpty);
  f.run(ids);
  EXPECT_EQ(miss_of(ids), MissReason::kNone);
  EXPECT_EQ(miss_of(ids + ids_from(90, 2)), MissReason::kEnded);
  EXPECT_EQ(miss_of(front(ids, 20) + ids_from(90, 2)), MissReason::kDiverged);
  EXPECT_EQ(miss_of(front(ids, 16) + ids_from(90, 2)), MissReason::kDiverged);
  EXPECT_EQ(miss_of(ids_from(90, 2)), MissReason::kEmpty);
  EXPECT_EQ(f.begin(front(ids, 20) + ids_from(90, 2))->reuse().miss_token, 20U);
  EXPECT_EQ(to_string(MissReason::kNotWorth), "not_worth");
}

TEST(TieredCache, SequencesThatComputeTheSameShareItsPages) {
  CacheFixture f;
  const Ids ids = ids_from(1, 64);
  const auto a = f.begin(ids);
  const auto b = f.begin(ids);
  f.compute(*a, ids);
  f.compute(*b, ids);
  EXPECT_EQ(a->reuse().device_tokens, 0U);
  for (size_t page = 0; page < 4; ++page) EXPECT_EQ(a->pages(0)[page], b->pages(0)[page]);
  EXPECT_EQ(f.stats().resident_pages, 4U);
  f.check();
}

TEST(TieredCache, AdoptsPagesThatOthersComputedMeanwhile) {
  CacheFixture f;
  const Ids ids = ids_from(1, 80);
  const auto a = f.begin(ids);
  const auto b = f.begin(ids);
  f.compute(*b, front(ids, 16));
  f.compute(*a, front(ids, 70));
  const std::span<const TokenId> rest = std::span(ids).subspan(16);
  EXPECT_EQ(b->adopt(rest), 48U);  // to 64: the fifth page is not full yet
  EXPECT_EQ(b->n_rows(), 64U);
  f.expect_rows(*b, ids);
  f.compute(*b, ids);
  f.compute(*a, ids);
  f.expect_rows(*b, ids);
  // In the middle of a page nothing can be taken over.
  const auto c = f.begin(front(ids, 64), 0, {.max_reuse = 40});
  EXPECT_EQ(c->adopt(std::span(ids).subspan(40)), 0U);
  EXPECT_EQ(c->n_rows(), 40U);
  f.check();
}

TEST(TieredCache, AdoptGivesUpRoomThatWasPrepared) {
  CacheFixture f;
  const Ids ids = ids_from(1, 64);
  const auto b = f.begin(front(ids, 33), 48);
  ASSERT_TRUE(b->prepare(48).is_ok());
  f.run(ids);
  EXPECT_EQ(b->adopt(ids), 48U);
  f.expect_rows(*b, ids);
  EXPECT_EQ(b->prepare(1).code(), StatusCode::kOverloaded);
  f.check();
}

TEST(TieredCache, TruncateGivesBackPrivateRowsOnly) {
  CacheFixture f;
  const Ids ids = ids_from(1, 40);
  const Ids other = front(ids, 34) + ids_from(700, 30);
  const auto sequence = f.begin(ids, 64);
  f.compute(*sequence, ids);
  EXPECT_EQ(sequence->truncate(31).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(sequence->truncate(34).is_ok());
  EXPECT_EQ(sequence->n_rows(), 34U);
  f.compute(*sequence, other);
  f.expect_rows(*sequence, other);
  f.check();
}

TEST(TieredCache, ALeafHasZerosBehindItsLastRow) {
  CacheFixture f;
  const Ids ids = ids_from(1, 28);
  {
    const auto sequence = f.begin(ids, 40);
    f.compute(*sequence, ids);
    ASSERT_TRUE(sequence->truncate(20).is_ok());
    sequence->finish();
  }
  const auto fork = f.begin(front(ids, 20) + ids_from(900, 5));
  ASSERT_EQ(fork->n_rows(), 20U);
  for (size_t row = 4; row < kSmallPage; ++row) {
    EXPECT_TRUE(testing::is_zero_row(f.layout(), fork->pages(0)[1], row)) << row;
  }
}

TEST(TieredCache, DroppingASequenceKeepsItsFullPagesOnly) {
  CacheFixture f;
  const Ids ids = ids_from(1, 40);
  { f.compute(*f.begin(ids), ids); }
  EXPECT_EQ(f.run(ids + ids_from(99, 1)), 32U);
}

TEST(TieredCache, LongerLeavesReplaceShorterOnes) {
  CacheFixture f;
  const Ids ids = ids_from(1, 31);
  for (size_t n = 17; n <= 31; ++n) f.run(front(ids, n));
  EXPECT_EQ(f.stats().nodes, 2U);
  f.run(front(ids, 20));  // served by the longer one
  EXPECT_EQ(f.stats().nodes, 2U);
  f.run(ids_from(1, 32));
  EXPECT_EQ(f.stats().nodes, 2U);
}

TEST(TieredCache, RefusesWhatCanNeverFitWithBothNumbers) {
  TieredCacheOptions options = small_options(8);
  options.ram_budget_bytes = 8 * kSlotBytes;
  CacheFixture g(options);
  EXPECT_EQ(g.begin(ids_from(1, 4), 8 * kSmallPage + 1), nullptr);
  EXPECT_EQ(g.last_error.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(g.last_error.message().find("129"), std::string::npos) << g.last_error.message();
  EXPECT_NE(g.last_error.message().find("128"), std::string::npos) << g.last_error.message();
  EXPECT_NE(g.begin(ids_from(1, 4), 8 * kSmallPage), nullptr);
}

TEST(TieredCache, AdmitsOnlyWhatItCanKeepItsPromiseTo) {
  TieredCacheOptions options = small_options();
  options.ram_budget_bytes = 8 * kSlotBytes;
  CacheFixture f(options);
  auto a = f.begin(ids_from(1, 4), 5 * kSmallPage);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(f.begin(ids_from(100, 4), 4 * kSmallPage), nullptr);
  EXPECT_EQ(f.last_error.code(), StatusCode::kOverloaded);
  auto b = f.begin(ids_from(100, 4), 3 * kSmallPage);
  ASSERT_NE(b, nullptr);
  // Whoever grows first, both get what they were promised.
  f.compute(*b, ids_from(100, 48));
  f.compute(*a, ids_from(1, 80));
  EXPECT_EQ(a->prepare(1).code(), StatusCode::kOverloaded);
  f.check();
  a->finish();
  // What a ended with may be evicted for the next one.
  auto c = f.begin(ids_from(200, 4), 5 * kSmallPage);
  ASSERT_NE(c, nullptr);
  f.compute(*c, ids_from(200, 80));
  f.expect_rows(*c, ids_from(200, 80));
  EXPECT_GT(f.stats().evicted_pages, 0U);
  EXPECT_EQ(f.stats().dropped_dirty, f.stats().evicted_pages);
}

TEST(TieredCache, SharedPagesArePromisedOnce) {
  TieredCacheOptions options = small_options();
  options.ram_budget_bytes = 8 * kSlotBytes;
  CacheFixture f(options);
  const Ids ids = ids_from(1, 96);
  f.run(ids);
  const auto a = f.begin(ids + ids_from(300, 4), 7 * kSmallPage);
  ASSERT_NE(a, nullptr);
  const auto b = f.begin(ids + ids_from(400, 4), 7 * kSmallPage);
  EXPECT_NE(b, nullptr) << f.last_error.message();
  EXPECT_EQ(f.begin(ids + ids_from(500, 4), 7 * kSmallPage), nullptr);
}

TEST(TieredCache, StaysInsideItsBudget) {
  TieredCacheOptions options = small_options();
  options.ram_budget_bytes = size_t{1} << 20;
  CacheFixture f(options);
  for (TokenId i = 0; i < 60; ++i) {
    f.run(ids_from(i * 1000, 200));
    f.cache().poll();
    EXPECT_LE(f.stats().ram_bytes, options.ram_budget_bytes);
  }
  EXPECT_GT(f.stats().evicted_pages, 0U);
  EXPECT_EQ(f.run(ids_from(59'000, 200)), 199U);
}

TEST(TieredCache, FlushWithoutADiskSaysWhy) {
  CacheFixture f;
  f.cache().set_disk_disabled("/store is owned by process 7");
  f.run(ids_from(1, 40));
  const FlushReport report = f.flush();
  EXPECT_EQ(report.status.code(), StatusCode::kUnsupported);
  EXPECT_NE(report.status.message().find("process 7"), std::string::npos);
  EXPECT_EQ(report.n_objects, 0U);
  EXPECT_FALSE(f.stats().disk_enabled);
  EXPECT_EQ(f.stats().disk_disabled_reason, "/store is owned by process 7");
}

TEST(TieredCache, ProbeHasNoSideEffects) {
  CacheFixture f;
  const Ids ids = ids_from(1, 40);
  f.run(ids);
  const uint64_t n_lookups = f.stats().lookups;
  EXPECT_EQ(f.cache().probe(f.root(), ids), 39U);
  EXPECT_EQ(f.cache().probe(f.root(), ids + ids_from(9, 9)), 40U);
  EXPECT_EQ(f.cache().probe(f.root(), ids_from(5, 9)), 0U);
  EXPECT_EQ(f.stats().lookups, n_lookups);
}

TEST(TieredCache, NoMemoryFromTheSystemIsAnErrorOfPrepare) {
  CacheFixture f;
  const auto sequence = f.begin(ids_from(1, 4));
  f.backend().refuse_memory = true;
  EXPECT_EQ(sequence->prepare(4).code(), StatusCode::kNoSpace);
  f.backend().refuse_memory = false;
  EXPECT_TRUE(sequence->prepare(4).is_ok());
}

}  // namespace
}  // namespace cairn
