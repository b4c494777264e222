#include "text/utf8.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(Utf8, EveryCharacterComesBack) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code == 0xD800) code = 0xE000;
    std::string text;
    utf8::append(text, code);
    const utf8::Decoded c = utf8::decode(text);
    ASSERT_EQ(c.validity, utf8::Validity::kOk);
    ASSERT_EQ(c.code, code);
    ASSERT_EQ(c.n_bytes, text.size());
    for (size_t n = 1; n < text.size(); ++n) {
      ASSERT_EQ(utf8::decode(text.substr(0, n)).validity, utf8::Validity::kTruncated)
          << static_cast<uint32_t>(code);
    }
  }
}

TEST(Utf8, ReplacesEachMaximalSubpartOnce) {
  // Unicode 15, table 3-8 and its neighbours.
  EXPECT_EQ(utf8::lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(utf8::lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(utf8::lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42");
  EXPECT_EQ(utf8::lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
}

TEST(Utf8, LossyGivesTheSameTextHoweverItIsCut) {
  const std::string bytes =
      "a\xE2\x82\xAC\xF0\x9F\x98\x80\xF0\x9F\x98\xE2\x82z\xC3\xFF\xED\xA0\xF0\x9F";
  const std::string whole = utf8::lossy(bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::string out;
    std::string pending = bytes.substr(0, cut);
    pending.erase(0, utf8::append_lossy(out, pending));
    ASSERT_LE(pending.size(), 3U);
    ASSERT_TRUE(utf8::is_valid(out));
    pending += bytes.substr(cut);
    pending.erase(0, utf8::append_lossy(out, pending));
    out += utf8::lossy(pending);
    ASSERT_EQ(out, whole) << cut;
  }
}

TEST(Utf8, SurrogatesAreNoCharacters) {
  std::string out;
  utf8::append(out, 0xD83D);
  utf8::append(out, 0x110000);
  EXPECT_EQ(out, "\uFFFD\uFFFD");
  EXPECT_FALSE(utf8::is_valid("\xED\xA0\xBD"));
}

TEST(Utf8, CountsCharacters) {
  EXPECT_EQ(utf8::length(""), 0U);
  EXPECT_EQ(utf8::length("aé€😀"), 4U);
  EXPECT_EQ(utf8::length("\xE2\x82"), 1U);
}

TEST(Utf8, WhiteSpaceFollowsUnicode) {
  EXPECT_TRUE(utf8::is_white_space(0x85));
  EXPECT_TRUE(utf8::is_white_space(0x3000));
  EXPECT_FALSE(utf8::is_white_space(0xFEFF));
  EXPECT_FALSE(utf8::is_white_space(0x180E));
  EXPECT_FALSE(utf8::is_white_space(0x200B));
}

}  // namespace
}  // namespace cairn
