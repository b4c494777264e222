#include "text/charsmap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "text/normalizer.h"
#include "text/sentencepiece_rules.h"

namespace cairn {
namespace {

// A map of single bytes and pairs, as SentencePiece would compile it: a double array with one block
// of 256 units for each node, so that no two nodes share units.
class MapBuilder {
 public:
  void add(const std::string& from, const std::string& to) { rules_[from] = to; }

  std::string build() {
    units_.assign(256, 0);
    std::string strings;
    const uint32_t root = new_block();
    units_[0] = offset_bits(root, 0);
    for (const auto& [from, to] : rules_) {
      uint32_t block = root;
      uint32_t unit = 0;
      for (const char c : from) {
        const auto byte = static_cast<uint8_t>(c);
        unit = block + byte;
        if (units_[unit] == 0) units_[unit] = offset_bits(new_block(), unit) | byte;
        block = offset_of(units_[unit]) ^ unit;
      }
      units_[unit] |= 0x100U;
      units_[block] = 0x80000000U | static_cast<uint32_t>(strings.size());
      strings += to;
      strings += '\0';
    }
    return pack(units_, strings);
  }

  static std::string pack(const std::vector<uint32_t>& units, const std::string& strings) {
    std::string blob(4 + units.size() * 4, '\0');
    const auto n = static_cast<uint32_t>(units.size() * 4);
    std::memcpy(blob.data(), &n, 4);
    std::memcpy(blob.data() + 4, units.data(), n);
    return blob + strings;
  }

 private:
  static uint32_t offset_of(uint32_t unit) { return (unit >> 10U) << ((unit & 0x200U) >> 6U); }

  // Offsets below 2^21 need no bit 9.
  static uint32_t offset_bits(uint32_t block, uint32_t unit) { return (block ^ unit) << 10U; }

  uint32_t new_block() {
    const auto block = static_cast<uint32_t>(units_.size());
    units_.resize(units_.size() + 256);
    return block;
  }

  std::map<std::string, std::string> rules_;
  std::vector<uint32_t> units_;
};

CharsMap parse_or_die(const std::string& blob) {
  auto map = CharsMap::parse(blob);
  EXPECT_TRUE(map.is_ok()) << map.status().to_string();
  return std::move(map).value();
}

std::string small_map() {
  MapBuilder builder;
  builder.add("a", "1");
  builder.add("ab", "two");
  builder.add("\u00E9", "e");
  builder.add("\t", " ");
  builder.add("x", "");
  return builder.build();
}

TEST(CharsMap, FindsTheShortestAndTheLongestRule) {
  const CharsMap map = parse_or_die(small_map());
  EXPECT_EQ(map.find_shortest("abc")->replacement, "1");
  EXPECT_EQ(map.find_shortest("abc")->n_bytes, 1U);
  EXPECT_EQ(map.find_longest("abc")->replacement, "two");
  EXPECT_EQ(map.find_longest("abc")->n_bytes, 2U);
  EXPECT_EQ(map.find_longest("ac")->replacement, "1");
  EXPECT_EQ(map.find_longest("\u00E9!")->replacement, "e");
  EXPECT_EQ(map.find_longest("x")->replacement, "");
  EXPECT_FALSE(map.find_longest("b"));
  EXPECT_FALSE(map.find_longest(""));
  EXPECT_FALSE(map.find_longest(std::string_view("\0a", 2)));
}

TEST(CharsMap, RefusesSizesThatDoNotFit) {
  const std::string good = small_map();
  const auto expect = [](const std::string& blob, const char* named) {
    const Status status = CharsMap::parse(blob).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption);
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
  };
  expect("", "0 bytes");
  expect("abc", "3 bytes");
  expect(std::string(4, '\0'), "a trie of 0 bytes");
  expect("\xFF\xFF\xFF\xFF" + good.substr(4), "4294967295");
  expect(good.substr(0, good.size() - 1), "no end");
  expect(MapBuilder::pack({0}, std::string("\xFF\0", 2)), "not UTF-8");
  expect(MapBuilder::pack({0}, std::string(300, 'a') + '\0'), "300 bytes");
}

// Whatever the units are, searching ends, inside the map, with valid UTF-8.
TEST(CharsMap, DamagedUnitsNeverLeadOutside) {
  const std::string good = small_map();
  const std::string text = "ab\u00E9x\t";
  for (size_t byte = 4; byte < good.size(); byte += 3) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string blob = good;
      blob[byte] = static_cast<char>(blob[byte] ^ flip);
      const auto map = CharsMap::parse(blob);
      if (!map.is_ok()) continue;
      for (size_t pos = 0; pos < text.size(); ++pos) {
        const auto rule = map->find_longest(std::string_view(text).substr(pos));
        EXPECT_LE(rule ? rule->n_bytes : 0, text.size() - pos);
      }
    }
  }
}

TEST(Normalizer, MapsWholeGraphemesByTheirShortestRule) {
  std::vector<Normalizer::Step> steps;
  steps.emplace_back(MapGraphemes{parse_or_die(small_map())});
  const Normalizer normalizer(std::move(steps));
  std::string scratch;
  // "a" and a combining mark are one cluster of 3 bytes: the rule for "a" replaces all of it. "a"
  // and "b" are two clusters, so the rule for "ab" never applies.
  EXPECT_EQ(normalizer.normalize("a\u0301b", scratch), "1b");
  EXPECT_EQ(normalizer.normalize("ab", scratch), "1b");
  // Seven bytes in one cluster: character by character.
  EXPECT_EQ(normalizer.normalize("a\u0301\u0301\u0301", scratch), "1\u0301\u0301\u0301");
}

TEST(SentencePieceRules, LongestRuleFirstAndUserDefinedPiecesUnchanged) {
  SentencePieceRules rules;
  rules.map = parse_or_die(small_map());
  rules.user_defined = AddedTokenFinder({AddedToken{.id = 0, .content = "a!"}});
  EXPECT_EQ(rules.normalize("ab a! a\tx"), "\u2581two\u2581a!\u25811");
  rules.removes_extra_spaces = false;
  EXPECT_EQ(rules.normalize(" b\t"), "\u2581\u2581b\u2581");
  rules.adds_dummy_prefix = false;
  rules.escapes_spaces = false;
  EXPECT_EQ(rules.normalize(" b\t"), " b ");
  EXPECT_EQ(rules.normalize(""), "");
}

TEST(Normalizer, StepsApplyInOrder) {
  std::vector<Normalizer::Step> steps;
  steps.emplace_back(StripSpace{true, true});
  steps.emplace_back(PrependText{"_"});
  steps.emplace_back(ReplaceText{" ", "_"});
  steps.emplace_back(ReplaceMatches{Regex::compile("_{2,}|$").value(), "-"});
  const Normalizer normalizer(std::move(steps));
  std::string scratch;
  EXPECT_EQ(normalizer.normalize(" \u3000a b  c\u0085", scratch), "_a_b-c");
  EXPECT_EQ(normalizer.normalize(" \t ", scratch), "");
  EXPECT_EQ(normalizer.normalize("", scratch), "");
}

}  // namespace
}  // namespace cairn
