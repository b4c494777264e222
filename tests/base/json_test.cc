#include "base/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>

namespace cairn {
namespace {

std::string round_trip(std::string_view text) {
  const auto value = parse_json(text, "test");
  return value.is_ok() ? dump_json(*value) : value.status().to_string();
}

TEST(Json, KeepsTheOrderOfKeys) {
  EXPECT_EQ(round_trip(R"( {"z": 1, "a": [true, null, -2], "m": {}} )"),
            R"({"z":1,"a":[true,null,-2],"m":{}})");
}

TEST(Json, TheLastOfEqualKeysCounts) {
  EXPECT_EQ(round_trip(R"({"a": 1, "b": 2, "a": 3})"), R"({"a":3,"b":2})");
}

TEST(Json, TheLastOfEqualKeysCountsInLargeObjectsToo) {
  std::string text = "{";
  for (int i = 0; i < 40; ++i) text += fmt::format("\"k{}\":{},", i % 30, i);
  text.back() = '}';
  const auto value = parse_json(text, "test");
  ASSERT_TRUE(value.is_ok());
  ASSERT_EQ(value->size(), 30U);
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ((*value)[fmt::format("k{}", i)], i < 10 ? i + 30 : i);
  }
}

TEST(Json, AVocabularyParsesInLinearTime) {
  // 150 000 keys took minutes when each was compared with all before it.
  std::string text = "{";
  for (int i = 0; i < 150'000; ++i) text += fmt::format("\"token{}\":{},", i, i);
  text.back() = '}';
  const auto value = parse_json(text, "vocabulary");
  ASSERT_TRUE(value.is_ok());
  EXPECT_EQ(value->size(), 150'000U);
  EXPECT_EQ(value->begin().key(), "token0");
}

TEST(Json, ErrorsNameTheTextTheLineAndTheColumn) {
  const auto value = parse_json("{\n  \"a\": 1,\n  \"b\": oops\n}", "request body");
  ASSERT_FALSE(value.is_ok());
  EXPECT_EQ(value.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(value.status().message().find("request body: not JSON at line 3, column 8: "), 0U)
      << value.status().message();
  EXPECT_EQ(value.status().message().find("json.exception"), std::string::npos);
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"",
                           "{",
                           "[1,]",
                           "{\"a\"}",
                           "1 2",
                           "'a'",
                           "{\"a\":1e999}",
                           "\"\xff\"",
                           "nul",
                           "[Infinity]",
                           "[NaN]",
                           "// c\n1",
                           "\"\\ud800\"",
                           "01",
                           "\"\t\""}) {
    EXPECT_FALSE(parse_json(text, "test").is_ok()) << text;
  }
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json(nested(256), "test").is_ok());
  const auto deep = parse_json(nested(257), "test");
  ASSERT_FALSE(deep.is_ok());
  EXPECT_NE(deep.status().message().find("deeper than 256"), std::string::npos);
  EXPECT_FALSE(parse_json(std::string(5'000'000, '['), "test").is_ok());
}

TEST(Json, BareInfinityIsTakenWhereAllowed) {
  const auto value =
      parse_json(R"({"a": Infinity, "b": [-Infinity,NaN], "c": "Infinity \" NaN", "d": 2.5})",
                 "config.json",
                 true);
  ASSERT_TRUE(value.is_ok()) << value.status().message();
  EXPECT_EQ((*value)["a"].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ((*value)["b"][0].get<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan((*value)["b"][1].get<double>()));
  EXPECT_EQ((*value)["c"], "Infinity \" NaN");
  EXPECT_EQ((*value)["d"], 2.5);
}

TEST(Json, BareInfinityMustBeAWholeValue) {
  for (const char* text : {"[1Infinity]",
                           "[Infinity1]",
                           "[--Infinity]",
                           "[InfinityNaN]",
                           "{Infinity: 1}",
                           "[Infinity, 2e000300]",
                           "[xNaN]",
                           "[1-Infinity]"}) {
    EXPECT_FALSE(parse_json(text, "test", true).is_ok()) << text;
  }
}

TEST(Json, NumbersThatLookRespeltStayNumbersWithoutWords) {
  EXPECT_EQ(*parse_json("[2e000300]", "test", true), Json::array({2e300}));
}

TEST(DumpJson, EscapesAndReplaces) {
  EXPECT_EQ(dump_json(Json("a\"\\/\b\f\n\r\t\x01\x7f")),
            "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\"");
  EXPECT_EQ(dump_json(Json("gr\u00fc\u00df \U0001F600")), "\"gr\u00fc\u00df \U0001F600\"");
  EXPECT_EQ(dump_json(Json("a\xffz")), "\"a\uFFFDz\"");
  EXPECT_EQ(dump_json(Json("\xe2\x82")), "\"\uFFFD\"") << "a cut sequence is one mistake";
  EXPECT_EQ(dump_json(Json("\xc0\xaf")), "\"\uFFFD\uFFFD\"") << "overlong";
  EXPECT_EQ(dump_json(Json("\xed\xa0\x80")), "\"\uFFFD\uFFFD\uFFFD\"") << "surrogate";
  EXPECT_EQ(dump_json(Json("\xf4\x90\x80\x80")), "\"\uFFFD\uFFFD\uFFFD\uFFFD\"") << "past U+10FFFF";
}

TEST(DumpJson, AnyBytesReadBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 12, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    const auto read = parse_json(dump_json(Json(bytes)), "dumped");
    ASSERT_TRUE(read.is_ok()) << read.status().message();
    // What the library would have written, which replaces in the same way.
    const Json expected =
        Json::parse(Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace));
    EXPECT_EQ(*read, expected);
  }
}

TEST(DumpJson, NumbersLookAsInPython) {
  EXPECT_EQ(
      dump_json(Json::array({1.0, -0.0, 0.1, 100000.0, 1e15, 1e16, 1.5e-5, 0.0001, 123456.789})),
      "[1.0,-0.0,0.1,100000.0,1000000000000000.0,1e+16,1.5e-05,0.0001,123456.789]");
  EXPECT_EQ(
      dump_json(Json::array({std::numeric_limits<double>::max(), 5e-324, 9007199254740993.0})),
      "[1.7976931348623157e+308,5e-324,9007199254740992.0]");
  EXPECT_EQ(dump_json(Json::array(
                {std::numeric_limits<uint64_t>::max(), std::numeric_limits<int64_t>::min()})),
            "[18446744073709551615,-9223372036854775808]");
  EXPECT_EQ(dump_json(Json::array({std::nan(""), std::numeric_limits<double>::infinity()})),
            "[null,null]");
}

TEST(JsonFloat, IsTheShortestSpelling) {
  EXPECT_EQ(shortest_float(0.1F), "0.1");
  EXPECT_EQ(shortest_float(1.0F), "1.0");
  EXPECT_EQ(shortest_float(-2.5e-7F), "-2.5e-07");
  EXPECT_EQ(shortest_float(3.4028235e38F), "3.4028235e+38");
  EXPECT_EQ(dump_json(json_float(0.1F)), "0.1");
  EXPECT_TRUE(json_float(std::numeric_limits<float>::infinity()).is_null());
  EXPECT_TRUE(json_float(std::nanf("")).is_null());
}

TEST(JsonFloat, AnyFloatPrintsShortAndReadsBack) {
  std::mt19937 random(2);
  for (int i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    const std::string text = dump_json(json_float(value));
    ASSERT_EQ(text, shortest_float(value));
    float back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    ASSERT_EQ(std::bit_cast<uint32_t>(back), std::bit_cast<uint32_t>(value)) << text;
    ASSERT_LE(text.size(), 19U) << "9 digits, a sign, a point, leading zeros or an exponent";
  }
}

}  // namespace
}  // namespace cairn
