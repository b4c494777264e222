// Forgetting: what goes, what stays because others stand on it, and that it is gone for good.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "store/cache_fixture.h"
#include "store/tiered_cache.h"
#include "support/memory_file_system.h"
#include "support/recording_file_system.h"

namespace cairn {
namespace {

using testing::CacheFixture;
using testing::Ids;
using testing::ids_from;
using testing::kSlotBytes;
using testing::kSmallPage;
using testing::small_options;
using testing::operator+;
using What = ForgetScope::What;

ForgetScope whole_namespace() {
  return {};
}

ForgetScope this_prompt(Ids ids, bool dry_run = false) {
  return {.what = What::kPrompt, .conversation = "", .prompt = std::move(ids), .dry_run = dry_run};
}

ForgetScope this_conversation(std::string label) {
  return {.what = What::kConversation, .conversation = std::move(label), .prompt = {}};
}

ForgetReport forget(CacheFixture& f, ForgetScope scope) {
  std::optional<ForgetReport> report;
  f.cache().forget(f.root(), std::move(scope), [&](ForgetReport r) { report = std::move(r); });
  f.settle();
  f.cache().poll();
  f.check();
  EXPECT_TRUE(report.has_value()) << "forget never answered";
  return report.value_or(ForgetReport{});
}

size_t n_objects_in(const MemoryFileSystem& fs) {
  size_t n = 0;
  for (const std::string& path : fs.all_files()) {
    n += path.ends_with(".run") || path.ends_with(".leaf") ? 1 : 0;
  }
  return n;
}

// Two conversations on one system prompt of two pages.
const Ids kSystem = ids_from(1, 2 * kSmallPage);
const Ids kFirst = kSystem + ids_from(100, 40);
const Ids kSecond = kSystem + ids_from(200, 40);

TEST(TieredCacheForget, ANamespaceGoesFromMemoryAndDisk) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  for (const char* name : {"a", "b"}) {
    f.use_namespace(name);
    f.run(kFirst);
    f.run(kSecond);
  }
  EXPECT_TRUE(f.flush().status.is_ok());
  const size_t n_before = n_objects_in(fs);
  f.use_namespace("a");
  const ForgetReport report = forget(f, whole_namespace());
  EXPECT_TRUE(report.status.is_ok()) << report.status.message();
  EXPECT_EQ(report.n_objects * 2, n_before);
  EXPECT_GT(report.n_bytes, 0U);
  EXPECT_EQ(report.n_tokens, 32U + 40 + 40);
  EXPECT_EQ(report.n_shared_tokens, 0U);
  EXPECT_EQ(n_objects_in(fs) * 2, n_before);
  EXPECT_EQ(f.run(kFirst, {.keep = false}), 0U);
  f.restart(fs);
  f.use_namespace("a");
  EXPECT_EQ(f.run(kFirst, {.keep = false}), 0U);
  f.use_namespace("b");
  EXPECT_EQ(f.run(kFirst), 71U);
}

TEST(TieredCacheForget, APromptTakesAlongWhatBeginsWithItAndLeavesWhatOthersShare) {
  CacheFixture f;
  f.run(kFirst);
  f.run(kFirst + ids_from(300, 30));
  f.run(kSecond);
  const ForgetReport report = forget(f, this_prompt(kFirst));
  EXPECT_TRUE(report.status.is_ok()) << report.status.message();
  EXPECT_EQ(report.n_tokens, 70U);
  EXPECT_EQ(report.n_shared_tokens, 32U);
  EXPECT_EQ(f.run(kFirst, {.keep = false}), 32U);
  EXPECT_EQ(f.run(kSecond), 71U);
  // What is computed again is kept again.
  EXPECT_EQ(f.run(kFirst), 32U);
  EXPECT_EQ(f.run(kFirst), 71U);
}

TEST(TieredCacheForget, SharedPagesSurviveTheObjectTheyWereWrittenIn) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(kFirst);
  EXPECT_TRUE(f.flush().status.is_ok());  // one run holds the system prompt and what follows
  f.run(kSecond);
  EXPECT_TRUE(f.flush().status.is_ok());
  f.restart(fs);  // nothing is in memory
  const ForgetReport report = forget(f, this_prompt(kFirst));
  EXPECT_TRUE(report.status.is_ok()) << report.status.message();
  EXPECT_EQ(report.n_tokens, 40U);
  EXPECT_EQ(report.n_shared_tokens, 32U);
  EXPECT_EQ(f.run(kSecond), 71U);
  EXPECT_TRUE(f.flush().status.is_ok());
  f.restart(fs);
  EXPECT_EQ(f.run(kFirst, {.keep = false}), 32U);
  EXPECT_EQ(f.run(kSecond), 71U);
}

TEST(TieredCacheForget, WithoutRoomForSharedPagesTheyAreLostRatherThanKept) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  options.ram_budget_bytes = 8 * kSlotBytes + (size_t{1} << 16);
  CacheFixture f(options);
  f.attach(fs);
  f.run(kFirst);
  EXPECT_TRUE(f.flush().status.is_ok());
  f.run(kSecond);
  EXPECT_TRUE(f.flush().status.is_ok());
  f.restart(fs);
  std::unique_ptr<CacheSequence> busy;  // takes all the room there is
  for (size_t n = 64; busy == nullptr && n > 0; --n) busy = f.begin({900}, n * kSmallPage);
  ASSERT_NE(busy, nullptr) << f.last_error.message();
  const ForgetReport report = forget(f, this_prompt(kFirst));
  EXPECT_TRUE(report.status.is_ok()) << report.status.message();
  EXPECT_EQ(report.n_tokens, 72U);
  EXPECT_EQ(report.n_shared_tokens, 0U);
  busy.reset();
  EXPECT_EQ(f.run(kSecond), 0U);
  EXPECT_EQ(f.run(kSecond), 71U);
}

TEST(TieredCacheForget, AConversationGoesByItsLabel) {
  CacheFixture f;
  f.run(kFirst, {.conversation = "first"});
  f.run(kFirst + ids_from(300, 30), {.conversation = "first"});
  f.run(kSecond, {.conversation = "second"});
  EXPECT_EQ(forget(f, this_conversation("unknown")).n_tokens, 0U);
  const ForgetReport report = forget(f, this_conversation("first"));
  EXPECT_EQ(report.n_tokens, 70U);
  EXPECT_EQ(report.n_shared_tokens, 32U);
  EXPECT_EQ(f.run(kFirst, {.keep = false}), 32U);
  EXPECT_EQ(forget(f, this_conversation("first")).n_tokens, 0U);
  const ForgetReport rest = forget(f, this_conversation("second"));
  EXPECT_EQ(rest.n_tokens, 72U);
  EXPECT_EQ(f.stats().nodes, 0U);
}

TEST(TieredCacheForget, WhereAnotherConversationEndsItStays) {
  CacheFixture f;
  f.run(kSystem, {.conversation = "short"});
  f.run(kFirst, {.conversation = "long"});
  EXPECT_EQ(forget(f, this_conversation("long")).n_shared_tokens, 32U);
  EXPECT_EQ(f.run(kSystem), 31U);
}

// On disk, on its way there and not yet on its way.
TEST(TieredCacheForget, TextAnchorsHoldTheIdsOfAConversationAndGoWithIt) {
  for (const ForgetScope& scope :
       {this_prompt(kFirst), this_conversation("first"), whole_namespace()}) {
    MemoryFileSystem fs;
    CacheFixture f;
    f.attach(fs);
    const auto keep_anchor = [&](uint8_t number) {
      Anchor anchor{.key = {}, .parent = std::nullopt, .ids = kFirst};
      anchor.key.bytes[0] = static_cast<std::byte>(number);
      f.cache().anchors()->add(anchor);
      f.cache().keep_anchor(f.root(), anchor);
    };
    f.run(kFirst, {.conversation = "first"});
    keep_anchor(1);
    EXPECT_TRUE(f.flush().status.is_ok());
    keep_anchor(2);
    f.advance(std::chrono::seconds(5));  // the write is handed out and not yet answered
    keep_anchor(3);
    EXPECT_TRUE(forget(f, scope).status.is_ok());
    EXPECT_EQ(f.cache().anchors()->n_anchors(), 0U);
    f.restart(fs);
    EXPECT_EQ(f.cache().anchors()->n_anchors(), 0U);
    EXPECT_EQ(f.report().objects.size(), 0U);
  }
}

TEST(TieredCacheForget, ADryRunOnlySaysWhatWouldGo) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(kFirst);
  f.run(kSecond);
  EXPECT_TRUE(f.flush().status.is_ok());
  const ForgetReport dry = forget(f, this_prompt(kFirst, true));
  EXPECT_EQ(f.run(kFirst), 71U);
  const ForgetReport real = forget(f, this_prompt(kFirst));
  EXPECT_EQ(dry.n_objects, real.n_objects);
  EXPECT_EQ(dry.n_bytes, real.n_bytes);
  EXPECT_EQ(dry.n_tokens, real.n_tokens);
  EXPECT_EQ(dry.n_shared_tokens, real.n_shared_tokens);
  EXPECT_GT(real.n_objects, 0U);
}

TEST(TieredCacheForget, WhoRunsOnItGoesOnAndLeavesNothing) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(kFirst);
  EXPECT_TRUE(f.flush().status.is_ok());
  const Ids ids = kFirst + ids_from(300, 60);
  auto running = f.begin(ids);
  f.compute(*running, kFirst + ids_from(300, 20));
  running->forget();
  EXPECT_TRUE(forget(f, this_prompt(kFirst)).status.is_ok());
  EXPECT_EQ(f.run(kFirst, {.keep = false}), 0U);  // nobody else finds it
  f.compute(*running, ids);
  f.expect_rows(*running, ids);
  running->finish();
  running.reset();
  f.check();
  EXPECT_EQ(f.stats().nodes, 0U);
  EXPECT_TRUE(f.flush().status.is_ok());
  EXPECT_EQ(n_objects_in(fs), 0U);
}

TEST(TieredCacheForget, WhatOthersStandOnStaysThoughNothingOfTheirsIsThereYet) {
  CacheFixture f;
  f.run(kFirst);
  const auto other = f.begin(kSecond);
  EXPECT_EQ(other->n_rows(), 32U);
  EXPECT_EQ(forget(f, this_prompt(kFirst)).n_shared_tokens, 32U);
  f.compute(*other, kSecond);
  other->finish();
  EXPECT_EQ(f.run(kSecond), 71U);
}

TEST(TieredCacheForget, AWriteUnderWayIsTakenBack) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(kSecond);
  EXPECT_TRUE(f.flush().status.is_ok());
  f.run(kFirst);
  f.cache().poll();
  ASSERT_GT(f.stats().writes_in_flight, 0U);
  const ForgetReport report = forget(f, this_prompt(kFirst));
  EXPECT_TRUE(report.status.is_ok()) << report.status.message();
  EXPECT_EQ(f.run(kFirst, {.keep = false}), 32U);
  f.restart(fs);
  EXPECT_EQ(f.run(kFirst, {.keep = false}), 32U);
  EXPECT_EQ(f.run(kSecond), 71U);
}

TEST(TieredCacheForget, ARestoreUnderWayServesItsWaiterAndNobodyElse) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(kFirst);
  EXPECT_TRUE(f.flush().status.is_ok());
  f.restart(fs);
  auto waiting = f.cache().begin(f.root(), kFirst, {.max_rows = kFirst.size()});
  ASSERT_TRUE(waiting.is_ok());
  ASSERT_FALSE((*waiting)->is_ready());
  (*waiting)->forget();
  EXPECT_TRUE(forget(f, this_prompt(kFirst)).status.is_ok());
  ASSERT_TRUE((*waiting)->is_ready());
  f.expect_rows(**waiting, kFirst);
  f.compute(**waiting, kFirst);
  f.expect_rows(**waiting, kFirst);
  (*waiting)->finish();
  waiting->reset();
  f.check();
  EXPECT_EQ(f.stats().nodes, 0U);
  EXPECT_EQ(n_objects_in(fs), 0U);
}

TEST(TieredCacheForget, ObjectsBehindAHoleGoToo) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 40 * kSmallPage);  // two runs
  f.run(ids);
  EXPECT_TRUE(f.flush().status.is_ok());
  std::string first_run;
  for (const std::string& path : fs.all_files()) {
    // The larger one is the first 32 pages.
    if (path.ends_with(".run") &&
        (first_run.empty() || fs.read_bytes(path).size() > fs.read_bytes(first_run).size())) {
      first_run = path;
    }
  }
  ASSERT_TRUE(fs.remove(first_run).is_ok());
  f.restart(fs);
  EXPECT_EQ(f.run(ids, {.keep = false}), 0U);
  EXPECT_GT(n_objects_in(fs), 0U);
  EXPECT_EQ(forget(f, this_prompt(ids_from(7, 300))).n_objects, 0U);  // another prompt
  EXPECT_GT(forget(f, this_prompt(ids)).n_objects, 0U);
  EXPECT_EQ(n_objects_in(fs), 0U);
}

TEST(TieredCacheForget, WhatIsForgottenDoesNotComeBackAfterPowerLoss) {
  RecordingFileSystem fs;
  size_t n_operations = 0;
  {
    CacheFixture f;
    f.attach(fs);
    f.use_namespace("a");
    f.run(kFirst);
    f.run(kFirst + ids_from(300, 30));  // takes the place of a leaf
    ASSERT_TRUE(f.flush().status.is_ok());
    ASSERT_TRUE(forget(f, whole_namespace()).status.is_ok());
    n_operations = fs.n_operations();
  }
  for (const CrashMode mode : {CrashMode::kDropUnsynced,
                               CrashMode::kNamesWithoutData,
                               CrashMode::kDataWithoutNames,
                               CrashMode::kTorn}) {
    const auto disk = fs.crash_state(n_operations, mode, 17);
    EXPECT_EQ(n_objects_in(*disk), 0U);
    CacheFixture f;
    f.attach(*disk);
    f.use_namespace("a");
    EXPECT_EQ(f.run(kFirst), 0U);
  }
}

TEST(TieredCacheForget, AFaultIsReportedAndNothingIsServedFromIt) {
  RecordingFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(kFirst);
  ASSERT_TRUE(f.flush().status.is_ok());
  fs.inject({.kind = OperationKind::kRemove, .nth = 1});
  EXPECT_FALSE(forget(f, whole_namespace()).status.is_ok());
  EXPECT_EQ(f.run(kFirst, {.keep = false}), 0U);
}

TEST(TieredCacheForget, ANamespaceTakesWhatWasSetAsideAlong) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  f.run(kFirst);
  EXPECT_TRUE(f.flush().status.is_ok());
  for (const std::string& path : fs.all_files()) {
    if (path.ends_with(".run")) fs.flip_bits(path, fs.read_bytes(path).size() - 1, std::byte{1});
  }
  f.restart(fs);
  EXPECT_EQ(f.run(kFirst, {.keep = false}), 0U);
  f.settle();
  ASSERT_EQ(f.stats().quarantined, 1U);
  EXPECT_TRUE(forget(f, whole_namespace()).status.is_ok());
  for (const std::string& path : fs.all_files())
    EXPECT_EQ(path.find("quarantine/"), std::string::npos) << path;
}

}  // namespace
}  // namespace cairn
