#include "text/bpe.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace cairn {
namespace {

// A vocabulary over "a".."d" with the merges given, ranked in order. Ids: letters first.
struct Fixture {
  explicit Fixture(const std::vector<std::pair<std::string, std::string>>& merge_list,
                   bool ignore_merges = false) {
    for (const char letter : std::string("abcd")) tokens.push_back(std::string(1, letter));
    for (const auto& [left, right] : merge_list) {
      bool is_known = false;
      for (const std::string& token : tokens) is_known |= token == left + right;
      if (!is_known) tokens.push_back(left + right);
    }
    TokenTable table(tokens.size());
    for (TokenId id = 0; id < tokens.size(); ++id) EXPECT_TRUE(table.insert(tokens[id], id));
    MergeTable merges(merge_list.size());
    for (uint32_t rank = 0; rank < merge_list.size(); ++rank) {
      const auto& [left, right] = merge_list[rank];
      const TokenId left_id = *table.find(left);
      const TokenId right_id = *table.find(right);
      merges.insert(left_id, right_id, {rank, *table.find(left + right)});
      ranked.push_back({left_id, right_id, *table.find(left + right)});
    }
    bpe =
        std::make_unique<Bpe>(std::move(table), std::move(merges), Bpe::Options{ignore_merges, {}});
  }

  std::vector<TokenId> encode(const std::string& piece) const {
    std::vector<TokenId> ids;
    Bpe::Scratch scratch;
    bpe->encode(piece, scratch, ids);
    return ids;
  }

  // The definition, step by step: the first merge in rank order that applies, leftmost.
  std::vector<TokenId> encode_naively(const std::string& piece) const {
    std::vector<TokenId> ids;
    for (const char c : piece) ids.push_back(static_cast<TokenId>(c - 'a'));
    for (bool merged = true; merged;) {
      merged = false;
      for (size_t rank = 0; rank < ranked.size() && !merged; ++rank) {
        for (size_t i = 0; i + 1 < ids.size() && !merged; ++i) {
          if (ids[i] != ranked[rank].left || ids[i + 1] != ranked[rank].right) continue;
          ids[i] = ranked[rank].merged;
          ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
          merged = true;
        }
      }
    }
    return ids;
  }

  struct Ranked {
    TokenId left, right, merged;
  };

  std::vector<std::string> tokens;
  std::vector<Ranked> ranked;
  std::unique_ptr<Bpe> bpe;
};

TEST(Bpe, LowestRankFirstThenLeftmost) {
  const Fixture f({{"a", "a"}, {"aa", "aa"}, {"b", "a"}});
  EXPECT_EQ(f.encode("aaa"), (std::vector<TokenId>{4, 0}));  // leftmost pair
  EXPECT_EQ(f.encode("aaaaa"), (std::vector<TokenId>{5, 0}));
  EXPECT_EQ(f.encode("baa"), (std::vector<TokenId>{1, 4}));  // aa outranks ba
}

TEST(Bpe, AgreesWithTheDefinitionAtEveryLength) {
  const Fixture f({{"a", "b"},
                   {"b", "c"},
                   {"a", "a"},
                   {"ab", "c"},
                   {"aa", "ab"},
                   {"c", "d"},
                   {"a", "bc"},
                   {"d", "d"},
                   {"dd", "dd"},
                   {"b", "b"},
                   {"bb", "a"},
                   {"abc", "d"}});
  std::mt19937 random(20240726);
  for (size_t n = 0; n <= 160; ++n) {  // both sides of the switch to the heap
    for (int round = 0; round < 6; ++round) {
      std::string piece;
      for (size_t i = 0; i < n; ++i) piece += static_cast<char>('a' + random() % 4);
      ASSERT_EQ(f.encode(piece), f.encode_naively(piece)) << piece;
    }
  }
}

TEST(Bpe, OneRepeatedCharacterIsNotQuadratic) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::string run = "a"; run.size() < 64; run += run) merges.emplace_back(run, run);
  const Fixture f(merges);
  const std::string piece(300'000, 'a');
  const auto start = std::chrono::steady_clock::now();
  const auto ids = f.encode(piece);
  const auto seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(ids.size(), 300'000U / 64 + 1);
  EXPECT_LT(seconds, 20.0);  // 0.1 s in a release build; a quadratic loop takes minutes
}

TEST(Bpe, IgnoreMergesTakesAWholeTokenAsItIs) {
  // "abc" cannot be reached by merging: "b c" goes first.
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"b", "c"}, {"a", "b"}, {"ab", "c"}};
  EXPECT_EQ(Fixture(merges).encode("abc"), (std::vector<TokenId>{0, 4}));
  EXPECT_EQ(Fixture(merges, true).encode("abc"), (std::vector<TokenId>{6}));
  EXPECT_EQ(Fixture(merges, true).encode("abcd"), (std::vector<TokenId>{0, 4, 3}));
}

TEST(Bpe, BytesWithoutATokenAreDroppedOrUnknown) {
  TokenTable table(2);
  ASSERT_TRUE(table.insert("a", 0));
  ASSERT_TRUE(table.insert("?", 1));
  const Bpe dropping(table, MergeTable(0), {});
  const Bpe marking(table, MergeTable(0), {false, 1});
  Bpe::Scratch scratch;
  std::vector<TokenId> ids;
  dropping.encode("axa", scratch, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{0, 0}));
  ids.clear();
  marking.encode("axa", scratch, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{0, 1, 0}));
}

TEST(TokenTable, RefusesTheSameBytesTwice) {
  TokenTable table(2);
  EXPECT_TRUE(table.insert("x", 0));
  EXPECT_FALSE(table.insert("x", 1));
  EXPECT_EQ(table.find("x"), 0U);
  EXPECT_EQ(table.find("y"), std::nullopt);
}

}  // namespace
}  // namespace cairn
