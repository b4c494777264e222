#include "base/mapping.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "base/coding.h"
#include "base/file_system.h"
#include "support/temp_folder.h"

namespace cairn {
namespace {

TEST(Mapping, ShowsTheBytesOfTheFile) {
  const TempFolder folder;
  const std::string path = folder.file("a");
  ASSERT_TRUE(write_file_atomically(posix_file_system(), path, as_bytes("weights")).is_ok());
  auto mapping = Mapping::open(path);
  ASSERT_TRUE(mapping.is_ok()) << mapping.status().to_string();
  ASSERT_EQ(mapping->bytes().size(), 7U);
  EXPECT_EQ(std::memcmp(mapping->bytes().data(), "weights", 7), 0);
  Mapping moved = std::move(*mapping);
  EXPECT_EQ(moved.bytes().size(), 7U);
  Mapping other;
  other = std::move(moved);
  EXPECT_EQ(std::memcmp(other.bytes().data(), "weights", 7), 0);
}

TEST(Mapping, AnEmptyFileIsAnEmptySpan) {
  const TempFolder folder;
  ASSERT_TRUE(write_file_atomically(posix_file_system(), folder.file("a"), {}).is_ok());
  const auto mapping = Mapping::open(folder.file("a"));
  ASSERT_TRUE(mapping.is_ok());
  EXPECT_TRUE(mapping->bytes().empty());
}

TEST(Mapping, MissingFilesAndFoldersAreErrors) {
  const TempFolder folder;
  EXPECT_EQ(Mapping::open(folder.file("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Mapping::open(folder.path()).status().code(), StatusCode::kIo);
}

}  // namespace
}  // namespace cairn
