#include "support/memory_file_system.h"

#include <gtest/gtest.h>

#include "base/coding.h"

namespace cairn {
namespace {

TEST(MemoryFileSystem, PathsAreNormalized) {
  EXPECT_EQ(normalized_path("//a///b/"), "/a/b");
  EXPECT_EQ(normalized_path("a"), "/a");
  EXPECT_EQ(normalized_path("/"), "/");
  EXPECT_EQ(parent_path("/a/b"), "/a");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("/"), "/");
}

TEST(MemoryFileSystem, DamageCanBeDone) {
  MemoryFileSystem fs;
  fs.write_bytes("/s/x/obj", as_bytes("abc"));
  EXPECT_TRUE(fs.exists("/s/x"));
  fs.flip_bits("/s/x/obj", 1, std::byte{0x20});
  EXPECT_EQ(fs.read_bytes("/s/x/obj")[1], std::byte{'B'});
  EXPECT_EQ(fs.all_files(), std::vector<std::string>{"/s/x/obj"});
  EXPECT_EQ(fs.all_directories().size(), 3U);
  EXPECT_EQ(fs.total_bytes(), 3U);
}

TEST(MemoryFileSystem, AFolderMovesWithItsFiles) {
  MemoryFileSystem fs;
  fs.write_bytes("/a/x/f", as_bytes("1"));
  fs.write_bytes("/a/g", as_bytes("2"));
  ASSERT_TRUE(fs.rename("/a", "/b").is_ok());
  EXPECT_EQ(fs.all_files(), (std::vector<std::string>{"/b/g", "/b/x/f"}));
  EXPECT_FALSE(fs.exists("/a"));
  EXPECT_FALSE(fs.rename("/b", "/b/x/c").is_ok()) << "not into itself";
}

TEST(MemoryFileSystem, ListShowsOneLevelOnly) {
  MemoryFileSystem fs;
  fs.write_bytes("/a/x/f", as_bytes("1"));
  fs.write_bytes("/ab", as_bytes("2"));
  const auto root = fs.list("/");
  ASSERT_TRUE(root.is_ok());
  ASSERT_EQ(root->size(), 2U);
  const auto inner = fs.list("/a");
  ASSERT_TRUE(inner.is_ok());
  ASSERT_EQ(inner->size(), 1U);
  EXPECT_EQ(inner->front().name, "x");
}

}  // namespace
}  // namespace cairn
