// The disk tier: what is written when, what comes back after a restart, what has to go.
#include <gtest/gtest.h>

#include <utility>

#include "store/cache_fixture.h"
#include "store/tiered_cache.h"
#include "support/memory_file_system.h"

namespace cairn {
namespace {

using testing::CacheFixture;
using testing::front;
using testing::Ids;
using testing::ids_from;
using testing::kSlotBytes;
using testing::small_options;
using testing::operator+;
using std::chrono::milliseconds;

size_t count_files(const MemoryFileSystem& fs, std::string_view suffix) {
  size_t n = 0;
  for (const std::string& path : fs.all_files()) {
    n += path.ends_with(suffix) && path.find("quarantine") == std::string::npos ? 1 : 0;
  }
  return n;
}

// What is published stays not durable until a flush.
TieredCacheOptions syncs_when_asked() {
  TieredCacheOptions options = small_options();
  options.sync_interval = std::chrono::hours(1);
  options.sync_bytes = SIZE_MAX;
  return options;
}

TEST(TieredCacheDisk, APromptIsRestoredAfterARestart) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 75);
  f.run(ids);
  const FlushReport report = f.flush();
  EXPECT_TRUE(report.status.is_ok()) << report.status.message();
  EXPECT_EQ(report.n_objects, 2U);  // a run of four pages and a leaf
  EXPECT_GT(report.n_bytes, 0U);
  EXPECT_EQ(f.stats().unsynced_bytes, 0U);

  f.restart(fs);
  EXPECT_EQ(f.report().objects.size(), 2U);
  const auto sequence = f.begin(ids + ids_from(900, 3));
  EXPECT_EQ(sequence->n_rows(), 75U);
  f.expect_rows(*sequence, ids);
  EXPECT_EQ(sequence->reuse().disk_tokens, 75U);
  EXPECT_EQ(sequence->reuse().device_tokens, 0U);
  EXPECT_EQ(f.stats().objects_restored, 2U);
  f.check();
  // Once restored it is in memory.
  EXPECT_EQ(f.begin(ids)->reuse().device_tokens, 74U);
}

// A flush covered the leaf's rows; power may fail before the page that has them too is durable.
TEST(TieredCacheDisk, ALeafStaysUntilThePageThatOvertookItIsDurable) {
  MemoryFileSystem fs;
  CacheFixture f(syncs_when_asked());
  f.attach(fs);
  const Ids ids = ids_from(1, 40);
  f.run(front(ids, 27));
  EXPECT_TRUE(f.flush().status.is_ok());
  ASSERT_EQ(count_files(fs, ".leaf"), 1U);
  f.run(ids);
  f.advance(milliseconds(10'000));
  f.settle();
  EXPECT_EQ(f.stats().objects_written, 4U);  // two runs and two leaves
  EXPECT_EQ(count_files(fs, ".leaf"), 2U) << "published is not durable";
  EXPECT_TRUE(f.flush().status.is_ok());
  f.restart(fs);  // ends the disk threads, which have carried out the removal by then
  EXPECT_EQ(count_files(fs, ".leaf"), 1U);
}

// The same when the process was killed in between: the next one syncs what it finds first.
TEST(TieredCacheDisk, ALeafThatWasOvertakenBeforeAKillGoesAfterTheNextSync) {
  MemoryFileSystem fs;
  CacheFixture f(syncs_when_asked());
  f.attach(fs);
  const Ids ids = ids_from(1, 40);
  f.run(front(ids, 27));
  f.run(ids);
  f.advance(milliseconds(10'000));
  f.settle();
  f.restart(fs);
  EXPECT_EQ(f.begin(ids)->n_rows(), 39U);
  f.settle();
  f.restart(fs);
  EXPECT_EQ(count_files(fs, ".leaf"), 1U);
}

TEST(TieredCacheDisk, ForksOfARestoredTimelineHitAtEveryPosition) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 40);
  f.run(ids);
  f.flush();
  for (size_t cut = 1; cut <= 40; ++cut) {
    f.restart(fs);
    const auto sequence = f.begin(front(ids, cut) + ids_from(1000, 2));
    ASSERT_EQ(sequence->n_rows(), cut);
    f.expect_rows(*sequence, ids);
    EXPECT_EQ(sequence->reuse().disk_tokens, cut);
  }
}

TEST(TieredCacheDisk, WhatWasPublishedSurvivesAKilledProcess) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 75);
  f.run(ids);
  f.settle();
  f.advance(milliseconds(1001));  // the leaf is due
  f.settle();
  f.restart(fs);
  EXPECT_EQ(f.begin(ids + ids_from(900, 3))->n_rows(), 75U);
}

TEST(TieredCacheDisk, ALeafWaitsUntilItsSequenceIsIdle) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 25);
  f.run(ids);
  f.settle();
  EXPECT_EQ(f.stats().objects_written, 1U);
  const auto due = f.cache().next_deadline();
  f.advance(milliseconds(999));
  f.settle();
  EXPECT_EQ(count_files(fs, ".leaf"), 0U);
  EXPECT_LE(due, f.clock().now() + milliseconds(1));
  f.advance(milliseconds(1));
  f.settle();
  EXPECT_EQ(count_files(fs, ".leaf"), 1U);
}

TEST(TieredCacheDisk, AnOvertakenLeafIsNeverWritten) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 32);
  for (size_t n = 17; n <= 31; ++n) {
    f.run(front(ids, n));
    f.advance(milliseconds(500));
    f.settle();
  }
  f.run(ids);
  f.advance(milliseconds(5000));
  f.settle();
  EXPECT_EQ(count_files(fs, ".leaf"), 0U);
  EXPECT_EQ(f.stats().objects_written, 2U);
}

TEST(TieredCacheDisk, AWrittenLeafGoesWhenWhatReplacesItIsPublished) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 48);
  f.run(front(ids, 25));
  f.flush();
  ASSERT_EQ(count_files(fs, ".leaf"), 1U);
  f.run(ids);
  // The page that covers the leaf is in flight at most: the leaf still serves on disk.
  EXPECT_EQ(f.stats().disk_objects, 2U);
  f.flush();
  EXPECT_EQ(f.stats().disk_objects, 2U);
  f.restart(fs);
  EXPECT_EQ(count_files(fs, ".leaf"), 0U);
  EXPECT_EQ(f.begin(ids)->n_rows(), 47U);
}

TEST(TieredCacheDisk, APausedTimelineIsServedByItsLeafUntilTheEnd) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 48);
  f.run(front(ids, 25));
  f.flush();
  {
    const auto sequence = f.begin(ids);
    f.compute(*sequence, ids);
    // Killed now, before any reply: the new page was never published as far as this process knows.
  }
  f.restart(fs);
  EXPECT_GE(f.begin(ids)->n_rows(), 25U);
}

TEST(TieredCacheDisk, ShortPrefixesStayInMemory) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(ids_from(1, 15));
  const FlushReport report = f.flush();
  EXPECT_TRUE(report.status.is_ok());
  EXPECT_EQ(report.n_objects, 0U);
  EXPECT_EQ(f.run(ids_from(1, 15)), 14U);
}

TEST(TieredCacheDisk, NoStoreIsNeverWritten) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 75);
  f.run(ids, {.persist = false});
  EXPECT_EQ(f.flush().n_objects, 0U);
  f.advance(milliseconds(5000));
  f.settle();
  EXPECT_EQ(f.stats().objects_written, 0U);
  // Another request may use them, and what it says itself is its own to keep.
  EXPECT_EQ(f.run(ids + ids_from(300, 5)), 75U);
  EXPECT_GT(f.flush().n_objects, 0U);
  f.restart(fs);
  EXPECT_EQ(f.begin(ids + ids_from(300, 5))->n_rows(), 79U);
}

TEST(TieredCacheDisk, RunsHoldAtMost32Pages) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(ids_from(1, 16 * 80));
  const FlushReport report = f.flush();
  EXPECT_TRUE(report.status.is_ok());
  EXPECT_LE(f.stats().disk_objects, 10U);
  f.restart(fs);
  EXPECT_LE(f.report().objects.size(), 10U);
  for (const ObjectEntry& entry : f.report().objects) EXPECT_LE(entry.pages.size(), kMaxRunPages);
  EXPECT_EQ(f.begin(ids_from(1, 16 * 80))->n_rows(), 16 * 80U - 1);
}

TEST(TieredCacheDisk, EvictedPagesComeBackFromDisk) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  options.ram_budget_bytes = 64 * kSlotBytes;
  CacheFixture f(options);
  f.attach(fs);
  for (TokenId i = 0; i < 20; ++i) {
    f.run(ids_from(i * 1000, 100));
    f.flush();
  }
  EXPECT_EQ(f.stats().dropped_dirty, 0U);
  EXPECT_GT(f.stats().evicted_pages, 80U);
  for (TokenId i = 0; i < 20; ++i) EXPECT_EQ(f.run(ids_from(i * 1000, 100)), 99U) << i;
  EXPECT_GT(f.stats().hit_tokens_disk, 1000U);
}

TEST(TieredCacheDisk, RequestsForTheSamePagesShareOneRead) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 64);
  f.run(ids);
  f.flush();
  f.restart(fs);
  const Ids prompt = ids + ids_from(900, 3);
  auto a = std::move(*f.cache().begin(f.root(), prompt, {}));
  auto b = std::move(*f.cache().begin(f.root(), prompt, {}));
  auto c = std::move(*f.cache().begin(f.root(), front(ids, 30), {}));
  EXPECT_EQ(f.stats().reads_in_flight, 1U);
  EXPECT_FALSE(a->is_ready() || b->is_ready() || c->is_ready());
  f.check();
  a.reset();  // a cancelled waiter does not cancel the read
  f.check();
  EXPECT_TRUE(f.deliver_read());
  ASSERT_TRUE(b->is_ready());
  ASSERT_TRUE(c->is_ready());
  f.expect_rows(*b, prompt);
  f.expect_rows(*c, ids);
  EXPECT_EQ(b->n_rows(), 64U);
  EXPECT_EQ(c->n_rows(), 29U);
  EXPECT_EQ(f.stats().objects_restored, 1U);
  f.check();
}

TEST(TieredCacheDisk, AReadThatNobodyWaitsForStillCounts) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 64);
  f.run(ids);
  f.flush();
  f.restart(fs);
  { const auto gone = f.cache().begin(f.root(), ids, {}); }
  f.settle();
  EXPECT_EQ(f.begin(ids)->reuse().device_tokens, 63U);
}

TEST(TieredCacheDisk, RestoresOnlyWhenToldTo) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 64);
  f.run(ids);
  f.flush();
  f.restart(fs);
  {
    const auto never = f.begin(ids, 0, {.restore = RestoreMode::kNever});
    EXPECT_EQ(never->n_rows(), 0U);
    EXPECT_EQ(never->reuse().miss, MissReason::kNotWorth);
  }
  EXPECT_EQ(f.begin(ids, 0, {.restore = RestoreMode::kAlways})->n_rows(), 63U);
}

TEST(TieredCacheDisk, AutoRecomputesOnlyWhatIsMuchFasterToCompute) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  options.restore = RestoreMode::kAuto;
  CacheFixture f(options);
  f.attach(fs);
  const Ids ids = ids_from(1, 64);
  const Ids others = ids_from(5000, 64);
  f.run(ids);
  f.run(others);
  f.flush();
  f.restart(fs);
  // Nothing is measured yet: restoring wins whatever the prefill rate.
  f.cache().set_prefill_rate(1e12);
  EXPECT_EQ(f.begin(ids)->n_rows(), 63U);
  // Now the disk is known to be fast: even an absurd prefill rate does not save 250 ms.
  EXPECT_EQ(f.begin(others)->n_rows(), 63U);
}

TEST(TieredCacheDisk, TheSizeLimitEvictsTheLeastRecentChains) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  options.store_max_bytes = 300 << 10;
  CacheFixture f(options);
  f.attach(fs);
  for (TokenId i = 0; i < 20; ++i) {
    f.run(ids_from(i * 1000, 150));
    EXPECT_TRUE(f.flush().status.is_ok());
    EXPECT_LE(fs.total_bytes(), options.store_max_bytes);
    f.run(ids_from(0, 150));  // the first stays in use
  }
  EXPECT_GT(f.stats().evicted_objects, 0U);
  f.restart(fs);
  EXPECT_EQ(f.begin(ids_from(0, 150))->n_rows(), 149U);
  EXPECT_EQ(f.begin(ids_from(19'000, 150))->n_rows(), 149U);
  EXPECT_EQ(f.begin(ids_from(1000, 150))->n_rows(), 0U);
}

TEST(TieredCacheDisk, RecencyOutlivesARestart) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  CacheFixture f(options);
  f.attach(fs);
  f.run(ids_from(0, 64));
  f.run(ids_from(1000, 64));
  f.flush();
  f.advance(milliseconds(10'000));
  f.run(ids_from(0, 64));  // the first is used again
  f.advance(milliseconds(10'000));
  f.settle();
  options.store_max_bytes = fs.total_bytes() + 4000;
  f.set_options(options);
  f.restart(fs);
  f.run(ids_from(2000, 64));
  f.flush();
  f.restart(fs);
  EXPECT_EQ(f.begin(ids_from(0, 64))->n_rows(), 63U);
  EXPECT_EQ(f.begin(ids_from(1000, 64))->n_rows(), 0U);
}

TEST(TieredCacheDisk, AStoreThatIsTooSmallCostsOnlyFutureHits) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  options.store_max_bytes = 20 << 10;
  CacheFixture f(options);
  f.attach(fs);
  f.run(ids_from(1, 400), {});
  const FlushReport report = f.flush();
  EXPECT_LE(fs.total_bytes(), options.store_max_bytes);
  EXPECT_TRUE(report.status.is_ok() || report.status.code() == StatusCode::kNoSpace);
  EXPECT_EQ(f.run(ids_from(1, 400)), 399U);
  f.settle();
  f.check();
}

TEST(TieredCacheDisk, ObjectsOfOtherModelsCountAndAreEvictedFirst) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  options.store_max_bytes = 120 << 10;
  {
    CacheFixture f(options);
    f.attach(fs);
    RootSpec other = testing::fake_root(testing::kSmallPage);
    other.model_identity.bytes[3] = std::byte{9};
    const uint32_t root = f.cache().add_root(other);
    const Ids ids = ids_from(1, 64);
    auto sequence = std::move(*f.cache().begin(root, ids, {.max_rows = 64}));
    f.compute(*sequence, ids);
    sequence->finish();
    sequence.reset();
    f.flush();
  }
  CacheFixture f(options);
  f.attach(fs);
  EXPECT_EQ(f.stats().disk_objects, 1U);
  EXPECT_EQ(f.begin(ids_from(1, 64))->n_rows(), 0U);
  for (TokenId i = 1; i < 6; ++i) {
    f.run(ids_from(i * 1000, 150));
    f.flush();
    EXPECT_LE(fs.total_bytes(), options.store_max_bytes);
  }
  f.restart(fs);
  EXPECT_EQ(f.begin(ids_from(5000, 150))->n_rows(), 149U);
}

TEST(TieredCacheDisk, AHoleIsFilledWhenItsPagesAreComputedAgain) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  CacheFixture f(options);
  f.attach(fs);
  const Ids ids = ids_from(1, 96);
  // One object a page: each is written before the next is full.
  {
    const auto sequence = f.begin(ids);
    for (size_t n = 16; n <= 96; n += 16) {
      f.compute(*sequence, front(ids, n));
      f.settle();
    }
    sequence->finish();
  }
  f.flush();
  ASSERT_EQ(f.stats().disk_objects, 6U);
  std::string second;  // the file of the second page
  const PageKey first_key = chain_key(root_key(testing::fake_root(16)), front(ids, 16));
  const PageKey second_key = chain_key(first_key, std::span(ids).subspan(16, 16));
  for (const std::string& path : fs.all_files()) {
    if (path.find(to_hex(second_key)) != std::string::npos) second = path;
  }
  ASSERT_FALSE(second.empty());
  ASSERT_TRUE(fs.remove(second).is_ok());

  f.restart(fs);
  EXPECT_EQ(f.report().n_missing_files, 1U);
  EXPECT_EQ(f.stats().disk_objects, 5U);
  const auto sequence = f.begin(ids + ids_from(900, 2));
  EXPECT_EQ(sequence->n_rows(), 16U);
  f.check();
  f.compute(*sequence, front(ids, 32));
  f.check();
  // The rest of the chain is known again.
  EXPECT_EQ(f.begin(ids + ids_from(900, 2))->n_rows(), 96U);
}

TEST(TieredCacheDisk, WritesNothingTwice) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(ids_from(1, 90));
  f.flush();
  const uint64_t n_written = f.stats().objects_written;
  EXPECT_EQ(f.flush().n_objects, 0U);
  f.run(ids_from(1, 90));
  f.run(ids_from(1, 60));
  EXPECT_EQ(f.flush().n_objects, 0U);
  f.restart(fs);
  f.run(ids_from(1, 90));
  f.flush();
  EXPECT_EQ(f.stats().objects_written, 0U);
  EXPECT_GT(n_written, 0U);
}

TEST(TieredCacheDisk, SyncsWhenTimeOrBytesAreUp) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  CacheFixture f(options);
  f.attach(fs);
  f.run(ids_from(1, 64));
  f.cache().poll();
  while (f.stats().writes_in_flight > 0) f.deliver_write();
  EXPECT_GT(f.stats().unsynced_bytes, 0U);
  EXPECT_EQ(f.stats().syncs_in_flight, 0U);
  f.advance(milliseconds(1000));
  EXPECT_EQ(f.stats().syncs_in_flight, 1U);
  f.settle();
  EXPECT_EQ(f.stats().unsynced_bytes, 0U);
  options.sync_bytes = 1;
  f.set_options(options);
  f.restart(fs);
  f.run(ids_from(700, 64));
  f.settle();
  EXPECT_EQ(f.stats().unsynced_bytes, 0U);
}

TEST(TieredCacheDisk, FlushCoversWhatWasThereAndNotWhatComesLater) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(ids_from(1, 40));
  std::vector<FlushReport> reports;
  f.cache().flush([&](FlushReport r) { reports.push_back(std::move(r)); });
  f.cache().flush([&](FlushReport r) { reports.push_back(std::move(r)); });
  EXPECT_TRUE(reports.empty());
  while (reports.size() < 2 && f.deliver_write()) {
  }
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_TRUE(reports[0].status.is_ok() && reports[1].status.is_ok());
  EXPECT_EQ(f.stats().dirty_pages, 0U);
  // Nothing to do is answered by the next poll.
  bool is_done = false;
  f.cache().flush([&](const FlushReport& r) { is_done = r.status.is_ok(); });
  EXPECT_FALSE(is_done);
  EXPECT_LE(f.cache().next_deadline(), f.clock().now());
  f.cache().poll();
  EXPECT_TRUE(is_done);
}

TEST(TieredCacheDisk, AnIdleCacheHasNoDeadline) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  EXPECT_EQ(f.cache().next_deadline(), std::chrono::steady_clock::time_point::max());
  f.run(ids_from(1, 40));
  f.flush();
  f.advance(milliseconds(10'000));
  f.settle();
  EXPECT_EQ(f.cache().next_deadline(), std::chrono::steady_clock::time_point::max());
}

}  // namespace
}  // namespace cairn
