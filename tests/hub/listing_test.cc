#include "hub/listing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

using ::testing::HasSubstr;

const std::string kSha256 = std::string(64, 'a');
const std::string kBlob = std::string(40, 'b');

std::string listing_of(const std::string& siblings) {
  return fmt::format(
      R"({{"id":"a/b","sha":"{}","siblings":[{}]}})", std::string(40, 'c'), siblings);
}

TEST(Listing, ReadsSizesAndBothKindsOfIds) {
  const auto listing = parse_listing(listing_of(fmt::format(
      R"({{"rfilename":"config.json","size":7,"blobId":"{}"}},
         {{"rfilename":"model.safetensors","size":99,"blobId":"{}",
           "lfs":{{"sha256":"{}","size":99,"pointerSize":135}}}})",
      kBlob,
      kBlob,
      kSha256)));
  ASSERT_TRUE(listing.is_ok()) << listing.status().message();
  EXPECT_EQ(listing->commit, std::string(40, 'c'));
  ASSERT_EQ(listing->files.size(), 2U);
  EXPECT_EQ(listing->files[0].name, "config.json");
  EXPECT_EQ(listing->files[0].size_bytes, 7U);
  EXPECT_EQ(listing->files[0].content.text(), "git:" + kBlob);
  EXPECT_EQ(listing->files[1].size_bytes, 99U);
  EXPECT_EQ(listing->files[1].content.text(), "sha256:" + kSha256);
}

TEST(Listing, TakesSparseOnesFromMirrors) {
  const auto listing = parse_listing(
      R"({"siblings":[{"rfilename":"a","size":null,"lfs":null},{"rfilename":"b","lfs":{"size":5}}]})");
  ASSERT_TRUE(listing.is_ok()) << listing.status().message();
  EXPECT_EQ(listing->commit, "");
  EXPECT_FALSE(listing->files[0].size_bytes.has_value());
  EXPECT_FALSE(listing->files[0].content.is_known());
  EXPECT_EQ(listing->files[1].size_bytes, 5U);
}

// The blob id of a large file names its pointer; taken for the file's it would refuse every one.
TEST(Listing, NeverTakesAPointersIdForTheFiles) {
  const auto listing = parse_listing(listing_of(
      fmt::format(R"({{"rfilename":"m.gguf","blobId":"{}","lfs":{{"size":5}}}})", kBlob)));
  ASSERT_TRUE(listing.is_ok());
  EXPECT_FALSE(listing->files[0].content.is_known());
}

TEST(Listing, AHostileNameCondemnsTheWholeList) {
  for (const char* name : {"", "../x", "/x", "a\\\\b", "a\\u0000b", "a\\u001b[2J", "a/./b"}) {
    const auto listing = parse_listing(
        listing_of(fmt::format(R"({{"rfilename":"config.json"}},{{"rfilename":"{}"}})", name)));
    ASSERT_FALSE(listing.is_ok()) << name;
    EXPECT_EQ(listing.status().code(), StatusCode::kCorruption) << name;
    EXPECT_THAT(listing.status().message(), HasSubstr("file name")) << name;
  }
}

TEST(Listing, RefusesWhatIsNoList) {
  for (const char* text : {"[]",
                           "{}",
                           R"({"siblings":{}})",
                           R"({"siblings":[1]})",
                           R"({"siblings":[{}]})",
                           R"({"siblings":[{"rfilename":1}]})",
                           R"({"siblings":[{"rfilename":"a","lfs":[]}]})",
                           R"({"siblings":[{"rfilename":"a","size":-1}]})",
                           R"({"siblings":[{"rfilename":"a","size":1.5}]})",
                           R"({"siblings":[{"rfilename":"a","size":281474976710657}]})",
                           R"({"siblings":[{"rfilename":"a"},{"rfilename":"a"}]})"}) {
    EXPECT_EQ(parse_listing(text).status().code(), StatusCode::kCorruption) << text;
  }
  EXPECT_EQ(parse_listing("<html>").status().code(), StatusCode::kInvalidArgument);
}

TEST(Listing, IsBoundedInFilesAndBytes) {
  std::string siblings;
  for (size_t i = 0; i < kListingFilesMax; ++i) {
    siblings += fmt::format(R"({}{{"rfilename":"f{}"}})", i == 0 ? "" : ",", i);
  }
  EXPECT_EQ(parse_listing(listing_of(siblings))->files.size(), kListingFilesMax);
  const auto more = parse_listing(listing_of(siblings + R"(,{"rfilename":"x"})"));
  EXPECT_EQ(more.status().code(), StatusCode::kCorruption);
  const auto large = parse_listing(std::string(kListingBytesMax + 1, ' '));
  EXPECT_THAT(large.status().message(), HasSubstr("bytes"));
}

}  // namespace
}  // namespace cairn
