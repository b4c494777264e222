// The disk tier when the disk lies, fails or is full: future hits are lost, answers are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/coding.h"
#include "store/cache_fixture.h"
#include "store/tiered_cache.h"
#include "support/recording_file_system.h"

namespace cairn {
namespace {

using testing::CacheFixture;
using testing::front;
using testing::Ids;
using testing::ids_from;
using testing::small_options;
using testing::operator+;
using std::chrono::milliseconds;

// Two chains on disk, one object a page for the first; nothing in memory.
struct Prepared {
  Prepared() {
    f.attach(fs);
    auto sequence = f.begin(ids);
    for (size_t n = 16; n <= ids.size(); n += 16) {
      f.compute(*sequence, front(ids, n));
      f.settle();
    }
    sequence->finish();
    sequence.reset();
    f.run(others);
    f.flush();
    f.restart(fs);
  }

  // Bytes of the payload of the object that ends with page `page` of `ids`.
  std::string path_of(size_t page) {
    PageKey key = root_key(testing::fake_root(testing::kSmallPage));
    for (size_t i = 0; i <= page; ++i) key = chain_key(key, std::span(ids).subspan(i * 16, 16));
    for (const std::string& path : fs.live().all_files()) {
      if (path.find(to_hex(key)) != std::string::npos) return path;
    }
    ADD_FAILURE() << "no file for page " << page;
    return {};
  }

  size_t n_quarantined() {
    const auto files = fs.live().all_files();
    return static_cast<size_t>(
        std::count_if(files.begin(), files.end(), [](const std::string& path) {
          return path.find("/quarantine/") != std::string::npos;
        }));
  }

  RecordingFileSystem fs;
  CacheFixture f;
  Ids ids = ids_from(1, 96);
  Ids others = ids_from(5000, 40);
};

TEST(TieredCacheFault, ADamagedObjectIsAMissFromItsPageOn) {
  for (size_t page = 0; page < 6; ++page) {
    Prepared p;
    p.fs.live().flip_bits(p.path_of(page), 4096 + 100 * page);
    const Ids prompt = p.ids + ids_from(900, 4);
    auto sequence = p.f.begin(prompt);
    EXPECT_EQ(sequence->n_rows(), page * 16);
    EXPECT_EQ(sequence->reuse().miss, MissReason::kDamaged);
    EXPECT_EQ(sequence->reuse().miss_token, page * 16);
    p.f.expect_rows(*sequence, prompt);
    p.f.check();
    p.f.compute(*sequence, prompt);
    p.f.expect_rows(*sequence, prompt);
    sequence->finish();
    sequence.reset();
    EXPECT_EQ(p.f.stats().quarantined, 1U);
    EXPECT_EQ(p.f.stats().misses_damaged, 1U);
    EXPECT_EQ(p.f.stats().restore_errors, 1U);
    // Computed again it is written again, and the next start finds all of it.
    EXPECT_TRUE(p.f.flush().status.is_ok());
    EXPECT_EQ(p.n_quarantined(), 1U);
    p.f.restart(p.fs);
    EXPECT_EQ(p.f.begin(prompt)->n_rows(), 99U);
  }
}

TEST(TieredCacheFault, EveryWaiterOfADamagedReadFallsBack) {
  Prepared p;
  p.fs.live().flip_bits(p.path_of(3), 5000);
  const Ids prompt = p.ids + ids_from(900, 4);
  auto a = std::move(*p.f.cache().begin(p.f.root(), prompt, {}));
  auto b = std::move(*p.f.cache().begin(p.f.root(), prompt, {}));
  auto c = std::move(*p.f.cache().begin(p.f.root(), front(prompt, 40), {}));
  while (p.f.deliver_read()) p.f.check();
  for (const auto* sequence : {&a, &b}) {
    ASSERT_TRUE((*sequence)->is_ready());
    EXPECT_EQ((*sequence)->n_rows(), 48U);
    EXPECT_EQ((*sequence)->reuse().miss, MissReason::kDamaged);
    p.f.expect_rows(**sequence, prompt);
  }
  EXPECT_EQ(c->n_rows(), 39U);  // did not need that page
  p.f.compute(*a, prompt);
  p.f.compute(*b, prompt);
  p.f.expect_rows(*b, prompt);
  p.f.check();
}

TEST(TieredCacheFault, AFallBackKeepsItsPromiseInAFullPool) {
  TieredCacheOptions options = small_options();
  options.ram_budget_bytes = 64 * testing::kSlotBytes;
  Prepared p;
  p.f.set_options(options);
  p.f.restart(p.fs);
  p.fs.live().flip_bits(p.path_of(0), 5000);
  // Three requests for the same pages: while the read is in flight each but the first keeps its own
  // promise for them.
  std::vector<std::unique_ptr<CacheSequence>> sequences;
  const Ids prompt = p.ids + ids_from(900, 4);
  for (;;) {
    auto sequence = p.f.cache().begin(p.f.root(), prompt, {.max_rows = 160});
    if (!sequence.is_ok()) break;
    sequences.push_back(std::move(*sequence));
  }
  ASSERT_GE(sequences.size(), 3U);
  while (p.f.deliver_read()) {
  }
  p.f.check();
  TokenId fresh = 10'000;
  for (const auto& sequence : sequences) {
    EXPECT_EQ(sequence->n_rows(), 0U);
    const Ids ids = ids_from(fresh, 160);  // not what the others compute: nothing is shared
    fresh += 1000;
    p.f.compute(*sequence, ids);
    p.f.expect_rows(*sequence, ids);
  }
  p.f.check();
}

TEST(TieredCacheFault, AnotherVersionsObjectIsAMissAndLeftAlone) {
  Prepared p;
  const std::string path = p.path_of(2);
  std::vector<std::byte> bytes = p.fs.live().read_bytes(path);
  store_le<uint32_t>(bytes.data() + 8, 2);
  p.fs.live().write_bytes(path, bytes);
  const Ids prompt = p.ids + ids_from(900, 4);
  auto sequence = p.f.begin(prompt);
  EXPECT_EQ(sequence->n_rows(), 32U);
  p.f.compute(*sequence, prompt);
  p.f.expect_rows(*sequence, prompt);
  sequence->finish();
  sequence.reset();
  EXPECT_EQ(p.f.stats().quarantined, 0U);
  EXPECT_EQ(p.f.stats().restore_errors, 1U);
  EXPECT_EQ(p.n_quarantined(), 0U);
  EXPECT_EQ(p.fs.live().read_bytes(path), bytes);
  p.f.check();
}

TEST(TieredCacheFault, AMissingFileIsForgotten) {
  Prepared p;
  ASSERT_TRUE(p.fs.remove(p.path_of(2)).is_ok());
  const auto sequence = p.f.begin(p.ids + ids_from(900, 4));
  EXPECT_EQ(sequence->n_rows(), 32U);
  EXPECT_EQ(p.f.stats().quarantined, 0U);
  EXPECT_EQ(p.f.stats().misses_damaged, 1U);
  p.f.check();
}

TEST(TieredCacheFault, AReadErrorIsAMiss) {
  for (const int error_number : {EIO, 0}) {
    Prepared p;
    p.fs.inject(
        {.kind = OperationKind::kRead, .nth = 1, .error_number = error_number, .persistent = true});
    const Ids prompt = p.ids + ids_from(900, 4);
    const auto sequence = p.f.begin(prompt);
    EXPECT_EQ(sequence->n_rows(), 0U);
    EXPECT_EQ(sequence->reuse().miss, MissReason::kDamaged);
    p.fs.clear_faults();
    p.f.compute(*sequence, prompt);
    p.f.expect_rows(*sequence, prompt);
    sequence->finish();
    p.f.check();
    EXPECT_EQ(p.f.run(p.others + ids_from(1, 1)), 40U);
  }
}

TEST(TieredCacheFault, ADamagedLeafFallsBackToThePagesBeforeIt) {
  Prepared p;
  std::string leaf;
  for (const std::string& path : p.fs.live().all_files()) {
    if (path.ends_with(".leaf")) leaf = path;
  }
  ASSERT_FALSE(leaf.empty());
  p.fs.live().flip_bits(leaf, 4096);
  const auto sequence = p.f.begin(p.others + ids_from(1, 3));
  EXPECT_EQ(sequence->n_rows(), 32U);
  EXPECT_EQ(sequence->reuse().miss, MissReason::kDamaged);
  p.f.check();
}

// Two timelines part inside a page: when one's leaf is damaged the other's still serves what they
// share, in the same request.
TEST(TieredCacheFault, WhatIsLeftOnDiskServesInTheSameRequest) {
  for (const bool is_first_damaged : {true, false}) {
    RecordingFileSystem fs;
    CacheFixture f;
    f.attach(fs);
    const Ids shared = ids_from(1, 26);
    std::vector<std::string> leaves;
    for (const TokenId own : {TokenId{100}, TokenId{200}}) {
      f.run(shared + ids_from(own, 4));
      ASSERT_TRUE(f.flush().status.is_ok());
      for (const std::string& path : fs.live().all_files()) {
        const bool is_new = std::find(leaves.begin(), leaves.end(), path) == leaves.end();
        if (path.ends_with(".leaf") && is_new) leaves.push_back(path);
      }
    }
    ASSERT_EQ(leaves.size(), 2U);
    f.restart(fs);
    fs.live().flip_bits(leaves[is_first_damaged ? 0 : 1], 4096);
    const Ids prompt = shared + ids_from(is_first_damaged ? 100 : 200, 4) + ids_from(9, 1);
    const auto sequence = f.begin(prompt);
    EXPECT_EQ(sequence->n_rows(), 26U);
    EXPECT_EQ(sequence->reuse().miss, MissReason::kDamaged);
    EXPECT_EQ(f.stats().misses_damaged, 1U);
    f.expect_rows(*sequence, prompt);
    f.check();
  }
}

TEST(TieredCacheFault, AFullDiskPausesWritingAndServingGoesOn) {
  RecordingFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(ids_from(1, 64));
  ASSERT_TRUE(f.flush().status.is_ok());
  fs.set_total_bytes_max(fs.live().total_bytes() + 1000);
  f.run(ids_from(1000, 64));
  f.settle();
  EXPECT_EQ(f.stats().write_errors, 1U);
  f.run(ids_from(2000, 64));
  f.advance(milliseconds(29'000));
  f.settle();
  EXPECT_EQ(f.stats().write_errors, 1U);  // not tried in between
  EXPECT_EQ(f.run(ids_from(1000, 64)), 63U);
  fs.set_total_bytes_max(std::nullopt);
  f.advance(milliseconds(1'000));
  f.settle();
  EXPECT_EQ(f.stats().dirty_pages, 0U);
  f.restart(fs);
  EXPECT_EQ(f.begin(ids_from(1000, 64))->n_rows(), 63U);
  EXPECT_EQ(f.begin(ids_from(2000, 64))->n_rows(), 63U);
}

TEST(TieredCacheFault, FlushOnAFullDiskSaysSoAndReturns) {
  RecordingFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  fs.set_total_bytes_max(fs.live().total_bytes() + 1000);
  f.run(ids_from(1, 70));
  const FlushReport report = f.flush();
  EXPECT_EQ(report.status.code(), StatusCode::kNoSpace);
  EXPECT_GE(report.n_failed, 1U);
  EXPECT_EQ(report.n_objects, 0U);
  fs.set_total_bytes_max(std::nullopt);
  // Asking again tries again at once.
  EXPECT_TRUE(f.flush().status.is_ok());
  f.restart(fs);
  EXPECT_EQ(f.begin(ids_from(1, 70))->n_rows(), 69U);
}

TEST(TieredCacheFault, AFailedWriteInTheMiddleLeavesNoWrongHits) {
  for (size_t nth = 1; nth <= 4; ++nth) {
    RecordingFileSystem fs;
    CacheFixture f;
    f.attach(fs);
    // The first object of a root brings the root's description, which is renamed too.
    f.run(ids_from(5000, 16));
    EXPECT_TRUE(f.flush().status.is_ok());
    const Ids ids = ids_from(1, 16 * 100);
    f.run(ids);
    fs.inject({.kind = OperationKind::kRename, .nth = nth, .error_number = EIO});
    f.settle();
    f.check();
    EXPECT_EQ(f.stats().write_errors, 1U) << nth;
    f.restart(fs);
    auto sequence = f.begin(ids);
    f.expect_rows(*sequence, ids);
    f.check();
    // What is missing is computed and written; what hung behind the hole is found again.
    f.compute(*sequence, ids);
    sequence->finish();
    sequence.reset();
    EXPECT_TRUE(f.flush().status.is_ok());
    f.restart(fs);
    EXPECT_EQ(f.begin(ids)->n_rows(), ids.size() - 1);
  }
}

TEST(TieredCacheFault, AFailedSyncIsReportedAndTriedAgain) {
  RecordingFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(ids_from(1, 64));
  fs.inject({.kind = OperationKind::kSyncFile, .nth = 1, .error_number = EIO, .persistent = true});
  EXPECT_EQ(f.flush().status.code(), StatusCode::kIo);
  EXPECT_GT(f.stats().unsynced_bytes, 0U);
  fs.clear_faults();
  f.advance(milliseconds(5'000));
  f.settle();
  EXPECT_EQ(f.stats().unsynced_bytes, 0U);
}

TEST(TieredCacheFault, WhatFlushCoveredSurvivesPowerLoss) {
  RecordingFileSystem fs;
  const Ids ids = ids_from(1, 75);
  size_t n_operations = 0;
  {
    CacheFixture f;
    f.attach(fs);
    f.run(ids);
    ASSERT_TRUE(f.flush().status.is_ok());
    n_operations = fs.n_operations();
    f.run(ids + ids_from(3000, 100));
    f.settle();
  }
  for (const CrashMode mode : {CrashMode::kDropUnsynced,
                               CrashMode::kNamesWithoutData,
                               CrashMode::kDataWithoutNames,
                               CrashMode::kTorn}) {
    const auto disk = fs.crash_state(n_operations, mode, 17);
    CacheFixture f;
    f.attach(*disk);
    EXPECT_EQ(f.begin(ids + ids_from(900, 3))->n_rows(), 75U);
  }
}

TEST(TieredCacheFault, NoMemoryForARestoreFallsBack) {
  Prepared p;
  p.f.backend().refuse_memory = true;
  const auto sequence = p.f.begin(p.ids);
  EXPECT_EQ(sequence->n_rows(), 0U);
  p.f.check();
  p.f.backend().refuse_memory = false;
  p.f.compute(*sequence, p.ids);
  p.f.expect_rows(*sequence, p.ids);
}

}  // namespace
}  // namespace cairn
