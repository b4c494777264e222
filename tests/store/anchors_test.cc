// Text anchors on disk: written behind, found after a restart, bounded like everything else.
#include <gtest/gtest.h>

#include "store/cache_fixture.h"
#include "store/object_write.h"
#include "support/memory_file_system.h"

namespace cairn {
namespace {

using testing::CacheFixture;
using testing::Ids;
using testing::ids_from;
using testing::small_options;
using testing::operator+;
using std::chrono::milliseconds;

AnchorKey text_key(uint8_t number) {
  AnchorKey key;
  key.bytes[3] = static_cast<std::byte>(number);
  return key;
}

Anchor text_anchor(uint8_t number, const Ids& ids, std::optional<uint8_t> parent = std::nullopt) {
  Anchor made{.key = text_key(number), .parent = std::nullopt, .ids = ids};
  if (parent) made.parent = text_key(*parent);
  return made;
}

void keep(CacheFixture& f, const Anchor& anchor) {
  f.cache().anchors()->add(anchor);
  f.cache().keep_anchor(f.root(), anchor);
}

std::vector<std::string> anchor_files(const MemoryFileSystem& fs) {
  std::vector<std::string> paths;
  for (const std::string& path : fs.all_files()) {
    if (path.ends_with(".anchor")) paths.push_back(path);
  }
  return paths;
}

TEST(StoredAnchors, AreFoundAfterARestart) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids first = ids_from(7, 30);
  const Ids more = ids_from(500, 9);
  keep(f, text_anchor(1, first));
  keep(f, text_anchor(2, more, 1));
  EXPECT_TRUE(f.flush().status.is_ok());
  EXPECT_EQ(anchor_files(fs).size(), 2U);
  f.restart(fs);
  EXPECT_EQ(f.cache().anchors()->find(text_key(2)), first + more);
  EXPECT_EQ(f.stats().anchors, 2U);
  EXPECT_EQ(f.stats().disk_objects, 2U);
}

TEST(StoredAnchors, AreFoundWithoutTheLog) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  keep(f, text_anchor(1, ids_from(7, 30)));
  f.flush();
  for (const std::string& path : fs.all_files()) {
    if (path.ends_with("index.log")) {
      ASSERT_TRUE(fs.remove(path).is_ok());
    }
  }
  f.restart(fs);
  EXPECT_EQ(f.cache().anchors()->find(text_key(1)), ids_from(7, 30));
}

TEST(StoredAnchors, WaitAsLeavesDo) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  options.leaf_delay = milliseconds(1000);
  CacheFixture f(options);
  f.attach(fs);
  keep(f, text_anchor(1, ids_from(7, 30)));
  f.advance(milliseconds(900));
  f.settle();
  EXPECT_TRUE(anchor_files(fs).empty());
  EXPECT_LE(f.cache().next_deadline(), f.clock().now() + milliseconds(100));
  f.advance(milliseconds(200));
  f.settle();
  EXPECT_EQ(anchor_files(fs).size(), 1U);
}

TEST(StoredAnchors, OneThatIsKnownIsNotWrittenAgainUnlessItsIdsChanged) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  keep(f, text_anchor(1, ids_from(7, 30)));
  f.flush();
  keep(f, text_anchor(1, ids_from(7, 30)));
  f.flush();
  EXPECT_EQ(f.stats().objects_written, 1U);
  keep(f, text_anchor(1, ids_from(8, 31)));
  f.flush();
  EXPECT_EQ(f.stats().objects_written, 2U);
  EXPECT_EQ(f.stats().disk_objects, 1U);
  f.check();
  f.restart(fs);
  EXPECT_EQ(f.cache().anchors()->find(text_key(1)), ids_from(8, 31));
}

// As long as the longest contexts.
TEST(StoredAnchors, LongOnesTakeSeveralRecords) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options(4096);
  CacheFixture f(options);
  f.attach(fs);
  const Ids ids = ids_from(1, 100'000);
  keep(f, text_anchor(1, ids));
  f.flush();
  f.restart(fs);
  EXPECT_EQ(f.cache().anchors()->find(text_key(1)), ids);
  const auto paths = anchor_files(fs);
  ASSERT_EQ(paths.size(), 1U);
  EXPECT_TRUE(verify_object_file(fs, paths[0]).is_ok());
}

TEST(StoredAnchors, DamagedOnesAreSetAside) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  keep(f, text_anchor(1, ids_from(7, 30)));
  f.flush();
  const auto paths = anchor_files(fs);
  ASSERT_EQ(paths.size(), 1U);
  for (const std::string& path : fs.all_files()) {
    if (path.ends_with("index.log")) {
      ASSERT_TRUE(fs.remove(path).is_ok());
    }
  }
  const auto file = fs.open(paths[0], {.mode = FileMode::kWrite});
  ASSERT_TRUE(file.is_ok());
  ASSERT_TRUE((*file)->write_at(0, std::vector<std::byte>(4096, std::byte{3})).is_ok());
  f.restart(fs);
  EXPECT_EQ(f.cache().anchors()->find(text_key(1)), std::nullopt);
  EXPECT_EQ(f.report().n_quarantined, 1U);
}

TEST(StoredAnchors, TheOldestGoWhenTheStoreIsFull) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  options.store_max_bytes = 96 << 10;
  CacheFixture f(options);
  f.attach(fs);
  for (uint8_t i = 1; i < 60; ++i) {
    keep(f, text_anchor(i, ids_from(i, 20), i > 1 ? std::optional<uint8_t>(1) : std::nullopt));
    f.flush();
    EXPECT_LE(f.stats().disk_bytes, options.store_max_bytes);
  }
  EXPECT_GT(f.stats().evicted_objects, 20U);
  f.check();
  f.restart(fs);
  // The first was in use all the time.
  EXPECT_EQ(f.cache().anchors()->find(text_key(59)), ids_from(1, 20) + ids_from(59, 20));
  EXPECT_EQ(f.cache().anchors()->find(text_key(2)), std::nullopt);
}

}  // namespace
}  // namespace cairn
