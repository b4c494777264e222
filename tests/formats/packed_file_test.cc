#include "formats/packed_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "formats/test_files.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kThreads = 2;

Digest packed_key(std::string_view text) {
  return sha256(as_bytes(text));
}

std::vector<std::byte> pattern(size_t n, uint8_t seed) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = std::byte(static_cast<uint8_t>(seed + i * 7 + i / 251));
  return bytes;
}

std::vector<std::byte> file_bytes(const std::string& path) {
  const std::string text = read_text_file(posix_file_system(), path, 1 << 30).value();
  const auto bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

// A written file of small blobs, one of them empty.
struct SmallPackedFile {
  TempFolder folder;
  std::string path = folder / "a.packed";
  Digest key = packed_key("small");
  std::vector<std::vector<std::byte>> blobs = {pattern(100, 1), {}, pattern(4096, 2)};

  SmallPackedFile() {
    const std::vector<std::span<const std::byte>> spans(blobs.begin(), blobs.end());
    EXPECT_TRUE(write_packed_file(path, key, spans, kThreads).is_ok());
  }
};

TEST(PackedFile, GivesBackWhatWasWritten) {
  const SmallPackedFile small;
  const auto file = PackedFile::open(small.path, small.key, kThreads);
  ASSERT_TRUE(file.is_ok()) << file.status().to_string();
  ASSERT_EQ(file->n_blobs(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::ranges::equal(file->blob(i).bytes, small.blobs[i])) << i;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file->blob(i).bytes.data()) % 4096, 0U);
  }
}

TEST(PackedFile, BlobsOutliveTheFileObjectAndItsName) {
  const SmallPackedFile small;
  SharedBytes blob = PackedFile::open(small.path, small.key, kThreads).value().blob(2);
  std::filesystem::remove(small.path);
  EXPECT_TRUE(std::ranges::equal(blob.bytes, small.blobs[2]));
}

TEST(PackedFile, GoldenBytesOfVersion1) {
  const SmallPackedFile small;
  const std::vector<std::byte> bytes = file_bytes(small.path);
  EXPECT_EQ(bytes.size(), 3U * 4096);
  EXPECT_EQ(xxh3_64(bytes), 0x1f2e546a3d6df7cbU) << "a new version of the format, or a mistake";
}

TEST(PackedFile, PiecesOfALargeBlobAreAllUnderAHash) {
  const TempFolder folder;
  const std::string path = folder / "big.packed";
  const std::vector<std::byte> blob = pattern((9 << 20) + 5, 3);
  const std::vector<std::span<const std::byte>> spans = {blob};
  ASSERT_TRUE(write_packed_file(path, packed_key("big"), spans, kThreads).is_ok());
  std::vector<std::byte> bytes = file_bytes(path);
  ASSERT_TRUE(parse_packed_file(bytes, packed_key("big"), kThreads).is_ok());
  for (const size_t at : {size_t{0}, size_t{4} << 20, size_t{8} << 20, blob.size() - 1}) {
    bytes[4096 + at] ^= std::byte{1};
    const Status status = parse_packed_file(bytes, packed_key("big"), kThreads).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << at;
    EXPECT_THAT(status.message(), HasSubstr("hash"));
    bytes[4096 + at] ^= std::byte{1};
  }
}

TEST(PackedFile, EveryFlippedByteThatMattersIsSeen) {
  const SmallPackedFile small;
  const std::vector<std::byte> whole = file_bytes(small.path);
  const size_t n_header = 56 + 3 * 8 + 2 * 8 + 8;  // fixed part, sizes, two pieces, hash
  for (size_t at = 0; at < whole.size(); ++at) {
    const bool padding = (at >= n_header && at < 4096) || (at >= 4096 + 100 && at < 8192);
    std::vector<std::byte> damaged = whole;
    damaged[at] ^= std::byte{0x10};
    const Status status = parse_packed_file(damaged, small.key, 1).status();
    EXPECT_EQ(status.is_ok(), padding) << at;
  }
}

TEST(PackedFile, EveryTruncationIsRefused) {
  const SmallPackedFile small;
  const std::vector<std::byte> whole = file_bytes(small.path);
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(parse_packed_file(std::span(whole).first(n), small.key, 1).is_ok()) << n;
  }
}

TEST(PackedFile, OtherKeysAndVersionsAreNamed) {
  const SmallPackedFile small;
  const Status other = PackedFile::open(small.path, packed_key("other"), kThreads).status();
  EXPECT_EQ(other.code(), StatusCode::kCorruption);
  EXPECT_THAT(other.message(), HasSubstr("another model"));
  EXPECT_THAT(other.message(), HasSubstr(small.path));
  std::vector<std::byte> bytes = file_bytes(small.path);
  bytes[8] = std::byte{2};
  const Status version = parse_packed_file(bytes, small.key, kThreads).status();
  EXPECT_EQ(version.code(), StatusCode::kUnsupported);
  EXPECT_THAT(version.message(), HasSubstr("version 2"));
}

TEST(PackedFile, AFailedWriteLeavesNothingBehind) {
  const TempFolder folder;
  const std::vector<std::byte> blob = pattern(100, 1);
  const std::vector<std::span<const std::byte>> spans = {blob};
  EXPECT_EQ(write_packed_file(folder / "none/a.packed", packed_key("a"), spans, 1).code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace cairn
