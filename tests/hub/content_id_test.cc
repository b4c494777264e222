#include "hub/content_id.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/coding.h"
#include "support/temp_folder.h"

namespace cairn {
namespace {

// `printf 'hello\n' | git hash-object --stdin` and `| sha256sum`.
const std::string kHello = "hello\n";
const std::string kHelloGit = "ce013625030ba8dba906f756967f9e9ca394464a";
const std::string kHelloSha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

TEST(ContentId, TellsKindsByTheirLength) {
  EXPECT_EQ(content_id_from_hex(kHelloGit).kind, ContentKind::kGitBlob);
  EXPECT_EQ(content_id_from_hex(kHelloSha256).kind, ContentKind::kSha256);
  EXPECT_FALSE(content_id_from_hex("").is_known());
  EXPECT_FALSE(content_id_from_hex(kHelloGit.substr(1)).is_known());
  EXPECT_FALSE(content_id_from_hex("x" + kHelloGit.substr(1)).is_known());
  EXPECT_EQ(content_id_from_hex("CE013625030BA8DBA906F756967F9E9CA394464A").hex, kHelloGit);
}

TEST(ContentId, ReadsETags) {
  EXPECT_EQ(content_id_from_etag("\"" + kHelloGit + "\"").hex, kHelloGit);
  EXPECT_EQ(content_id_from_etag("W/\"" + kHelloGit + "\"").hex, kHelloGit);
  EXPECT_EQ(content_id_from_etag(kHelloSha256).hex, kHelloSha256);
  EXPECT_FALSE(content_id_from_etag("\"0123456789abcdef-5\"").is_known());  // of an S3 upload
  EXPECT_FALSE(content_id_from_etag("\"").is_known());
}

TEST(ContentId, TextGoesBothWays) {
  for (const std::string& hex : {kHelloGit, kHelloSha256}) {
    const ContentId id = content_id_from_hex(hex);
    EXPECT_EQ(content_id_from_text(id.text()), id);
  }
  EXPECT_FALSE(content_id_from_text("git:" + kHelloSha256).is_known());
  EXPECT_FALSE(content_id_from_text("md5:1").is_known());
  EXPECT_EQ(ContentId().text(), "");
}

TEST(ContentHasher, NamesBytesAsGitAndLfsDo) {
  for (const std::string& hex : {kHelloGit, kHelloSha256}) {
    const ContentId want = content_id_from_hex(hex);
    ContentHasher hasher(want.kind, kHello.size());
    for (const char c : kHello) hasher.update(as_bytes(std::string_view(&c, 1)));
    EXPECT_EQ(hasher.finish(), want);
    const TempFolder folder;
    std::ofstream(folder.file("f")) << kHello;
    EXPECT_EQ(*content_id_of_file(folder.file("f"), want.kind), want);
  }
  EXPECT_FALSE(ContentHasher(ContentKind::kUnknown, 0).finish().is_known());
}

}  // namespace
}  // namespace cairn
