#include "base/json_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/json.h"

namespace cairn {
namespace {

Status scan_status(std::string_view text, size_t depth_max = 8) {
  return JsonDocument::parse(text, "test", depth_max).status();
}

JsonDocument parse_or_die(std::string_view text) {
  auto document = JsonDocument::parse(text, "test", 8, JsonWords::kWithInfinity);
  EXPECT_TRUE(document.is_ok()) << document.status().message();
  return std::move(document).value();
}

TEST(JsonScanner, AcceptsEveryFormOfValue) {
  for (const char* text : {"0",
                           "-0.5e+3",
                           "true",
                           " null ",
                           "\"\"",
                           "[]",
                           "{}",
                           "[1,[2,{\"a\":[]}],\"\\u00e9\\ud83d\\ude00\\n\"]",
                           "\xEF\xBB\xBF{\"a\" : 1 , \"a\" : false }\n"}) {
    EXPECT_TRUE(scan_status(text).is_ok()) << text << ": " << scan_status(text).message();
  }
}

TEST(JsonScanner, RefusesWhatTheGrammarRefuses) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "[1,]",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{\"a\" 1}",
                           "{,}",
                           "[,]",
                           "1 2",
                           "01",
                           "1.",
                           ".5",
                           "1e",
                           "-",
                           "+1",
                           "nul",
                           "truE",
                           "]",
                           "[}",
                           "{\"a\":}",
                           "\"",
                           "\"\n\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud800\\u0041\"",
                           "\"\xff\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xc3\"",
                           "Infinity",
                           "NaN"}) {
    EXPECT_EQ(scan_status(text).code(), StatusCode::kCorruption) << text;
  }
}

TEST(JsonScanner, NamesTheByteAndTheReason) {
  EXPECT_EQ(scan_status("[1,\n x]").message(), "test: not JSON at byte 5: wanted a value");
}

TEST(JsonScanner, BoundsDepthAndNumbers) {
  EXPECT_TRUE(scan_status("[[[]]]", 3).is_ok());
  EXPECT_EQ(scan_status("[[[[]]]]", 3).code(), StatusCode::kCorruption);
  EXPECT_TRUE(scan_status(std::string(1024, '1')).is_ok());
  EXPECT_EQ(scan_status(std::string(1025, '1')).code(), StatusCode::kCorruption);
}

// The two readers agree on which texts are JSON, and on every string.
TEST(JsonScanner, AgreesWithTheTreeReaderOnDamagedTexts) {
  const std::string text = R"({"a\"\u00e9":[1,-2.5e3,true,null,{"b":"\ud83d\ude00\\x"}],"c":"é"})";
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'"', '\\', ',', '}', '0', 'e', '\xc3', ' '}) {
      std::string damaged = text;
      damaged[i] = c;
      EXPECT_EQ(scan_status(damaged).is_ok(), parse_json(damaged, "test").is_ok()) << damaged;
    }
  }
}

TEST(JsonView, ReadsValuesInPlace) {
  const JsonDocument document = parse_or_die(
      R"({"text":"a\tb\u00e9","n":18446744073709551615,"r":-1.5e2,"no":null,"yes":true,
          "far":Infinity,"list":[1,"]",{"x":[2]}],"text":"second"})");
  const JsonView root = document.root();
  EXPECT_EQ(root.find("text")->string(), "a\tb\xC3\xA9");
  EXPECT_EQ(root.find("text")->raw_string(), "a\\tb\\u00e9");
  EXPECT_EQ(root.find("n")->unsigned_integer(), UINT64_MAX);
  EXPECT_EQ(root.find("r")->number(), -150.0);
  EXPECT_EQ(root.find("r")->unsigned_integer(), std::nullopt);
  EXPECT_TRUE(root.find("no")->is_null());
  EXPECT_EQ(root.find("yes")->boolean(), true);
  EXPECT_TRUE(std::isinf(root.find("far")->number().value_or(0)));
  EXPECT_EQ(root.find("list")->count(), 3U);
  EXPECT_EQ(root.count(), 8U);
  EXPECT_FALSE(root.find("none"));
  EXPECT_FALSE(root.find("list")->find("x"));
  auto items = root.find("list")->items();
  EXPECT_EQ(items.next()->value.unsigned_integer(), 1U);
  EXPECT_EQ(items.next()->value.string(), "]");
  EXPECT_EQ(items.next()->value.find("x")->count(), 1U);
  EXPECT_FALSE(items.next());
}

TEST(JsonView, StepsOverLargePartsAndCountsThem) {
  std::string text = R"({"big":[)";
  for (int i = 0; i < 50'000; ++i) text += "[\"\\\\\",{}],";
  text += R"(0],"after":[7]})";
  const JsonDocument document = parse_or_die(text);
  EXPECT_EQ(document.root().find("big")->count(), 50'001U);
  EXPECT_EQ(document.root().find("after")->items().next()->value.unsigned_integer(), 7U);
  EXPECT_EQ(document.root().n_bytes(), text.size());
  const JsonMembers members(document.root(), {"after", "big", "none"});
  EXPECT_EQ(members.find("after")->count(), 1U);
  EXPECT_FALSE(members.find("none"));
}

}  // namespace
}  // namespace cairn
