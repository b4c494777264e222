// Namespaces, and what must not be left for others.
#include <gtest/gtest.h>

#include <string>

#include "store/cache_fixture.h"
#include "store/tiered_cache.h"
#include "support/memory_file_system.h"

namespace cairn {
namespace {

using testing::CacheFixture;
using testing::Ids;
using testing::ids_from;
using testing::kSlotBytes;
using testing::small_options;
using testing::operator+;
using std::chrono::milliseconds;

// Folders under /store whose names are roots'.
size_t n_root_folders(MemoryFileSystem& fs) {
  const auto entries = fs.list("/store");
  if (!entries.is_ok()) return 0;
  size_t n = 0;
  for (const DirEntry& entry : *entries) {
    n += entry.is_directory && entry.name.size() == 64 ? 1 : 0;
  }
  return n;
}

TEST(TieredCacheIsolation, NamespacesShareNothing) {
  CacheFixture f;
  const Ids ids = ids_from(1, 75);
  f.run(ids);
  for (const char* name : {"a", "b", "aa"}) {
    f.use_namespace(name);
    EXPECT_EQ(f.run(ids), 0U) << name;
    EXPECT_EQ(f.run(ids), 74U) << name;
  }
  f.use_namespace("");
  EXPECT_EQ(f.run(ids), 74U);
  EXPECT_EQ(f.stats().namespaces, 4U);
}

TEST(TieredCacheIsolation, ANamespaceFindsItsCacheAfterARestart) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids ids = ids_from(1, 75);
  f.use_namespace("a");
  f.run(ids);
  EXPECT_TRUE(f.flush().status.is_ok());
  f.restart(fs);
  EXPECT_EQ(f.run(ids), 0U);
  f.use_namespace("b");
  EXPECT_EQ(f.run(ids), 0U);
  f.use_namespace("a");
  EXPECT_EQ(f.run(ids), 74U);
}

TEST(TieredCacheIsolation, NamespacesThatNobodyUsesAreForgotten) {
  CacheFixture f;
  f.run(ids_from(1, 20));
  f.use_namespace("kept");
  f.run(ids_from(1, 20));
  const uint32_t base = f.base_root();
  for (int i = 0; i < 10'000; ++i) {
    f.cache().namespace_root(base, "made up " + std::to_string(i));
    ASSERT_LE(f.stats().namespaces, 200U);
  }
  f.use_namespace("kept");
  EXPECT_EQ(f.run(ids_from(1, 20)), 19U);
  f.use_namespace("");
  EXPECT_EQ(f.run(ids_from(1, 20)), 19U);
}

TEST(TieredCacheIsolation, NamespacesWithPagesCostNoMoreThanTheBudget) {
  TieredCacheOptions options = small_options();
  options.ram_budget_bytes = 64 * kSlotBytes;
  CacheFixture f(options);
  for (int i = 0; i < 2000; ++i) {
    f.use_namespace("salt " + std::to_string(i));
    EXPECT_EQ(f.run(ids_from(1, 20)), 0U);
    f.advance(milliseconds(2000));  // demotion has its interval
    ASSERT_LE(f.stats().ram_bytes, options.ram_budget_bytes);
  }
  EXPECT_LE(f.stats().namespaces, 64U * 2 + 64);
}

TEST(TieredCacheIsolation, AFolderComesWithItsFirstObjectAndGoesWithItsLast) {
  MemoryFileSystem fs;
  TieredCacheOptions options = small_options();
  options.store_max_bytes = 64 << 10;
  CacheFixture f(options);
  f.attach(fs);
  f.use_namespace("idle");
  EXPECT_EQ(f.run(ids_from(1, 8)), 0U);  // too short for an object
  EXPECT_TRUE(f.flush().status.is_ok());
  EXPECT_EQ(n_root_folders(fs), 0U);
  for (int i = 0; i < 40; ++i) {
    f.use_namespace("salt " + std::to_string(i));
    f.run(ids_from(1, 32));
    EXPECT_TRUE(f.flush().status.is_ok());
    f.settle();
  }
  EXPECT_GT(f.stats().evicted_objects, 20U);
  EXPECT_EQ(n_root_folders(fs), f.stats().disk_objects);  // one object each
  // A root whose folder is gone gets it back.
  f.use_namespace("salt 0");
  f.run(ids_from(100, 32));
  EXPECT_TRUE(f.flush().status.is_ok());
  f.restart(fs);
  f.use_namespace("salt 0");
  EXPECT_EQ(f.run(ids_from(100, 32)), 31U);
}

TEST(TieredCacheIsolation, WhatIsNotKeptIsGoneWhenItsSequenceEnds) {
  MemoryFileSystem fs;
  CacheFixture f;
  f.attach(fs);
  const Ids known = ids_from(1, 40);
  f.run(known);
  EXPECT_TRUE(f.flush().status.is_ok());
  const CacheStats before = f.stats();
  const Ids ids = known + ids_from(500, 60);
  EXPECT_EQ(f.run(ids, {.keep = false}), 40U);  // what was known is used
  EXPECT_EQ(f.run(ids, {.keep = false}), 40U);
  EXPECT_EQ(f.stats().nodes, before.nodes);
  EXPECT_EQ(f.stats().resident_pages, before.resident_pages);
  EXPECT_TRUE(f.flush().status.is_ok());
  EXPECT_EQ(f.stats().objects_written, before.objects_written);
}

TEST(TieredCacheIsolation, WhatIsNotKeptIsNotSeenWhileItRuns) {
  CacheFixture f;
  const Ids ids = ids_from(1, 64);
  const auto secret = f.begin(ids, 0, {.keep = false});
  f.compute(*secret, ids);
  f.expect_rows(*secret, ids);
  EXPECT_EQ(f.run(ids), 0U);
  EXPECT_EQ(f.run(ids, {.keep = false}), 63U);
}

}  // namespace
}  // namespace cairn
