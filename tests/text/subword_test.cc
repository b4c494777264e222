// The subword models over characters: BPE cut where no merge can cross, and unigram.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <random>

#include "text/char_bpe.h"
#include "text/piece_trie.h"
#include "text/scored_merges.h"
#include "text/unigram.h"

namespace cairn {
namespace {

using Ids = std::vector<TokenId>;

// Pieces with ids in order; scored, so that merges follow from them.
struct Vocabulary {
  explicit Vocabulary(std::vector<std::string> texts) : pieces(std::move(texts)), table(512) {
    for (TokenId id = 0; id < pieces.size(); ++id) {
      EXPECT_TRUE(table.insert(pieces[id], id));
      scored.push_back({pieces[id], id, -static_cast<float>(id)});
    }
  }

  CharBpe bpe(CharBpe::Options options = {}) const {
    auto merges = make_scored_merges(scored, table, std::vector<bool>(scored.size(), true));
    EXPECT_TRUE(merges.is_ok()) << merges.status().to_string();
    return {table, std::move(merges->merges), std::move(merges->joins), options};
  }

  // The definition: join the neighbours that make the best token, leftmost first, until none do.
  Ids encode_naively(const std::string& text) const {
    std::vector<std::string> parts;
    for (const char c : text) parts.emplace_back(1, c);
    for (;;) {
      size_t best = parts.size();
      TokenId best_id = ~TokenId{0};
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto id = table.find(parts[i] + parts[i + 1]);
        if (!id || *id >= best_id) continue;  // a lower id has the better score
        best = i;
        best_id = *id;
      }
      if (best == parts.size()) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    Ids ids;
    for (const std::string& part : parts) ids.push_back(*table.find(part));
    return ids;
  }

  std::vector<std::string> pieces;
  TokenTable table;
  std::vector<ScoredPiece> scored;
};

Ids encode(const CharBpe& bpe, std::string_view text) {
  CharBpe::Scratch scratch;
  Ids ids;
  bpe.encode(text, scratch, ids);
  return ids;
}

TEST(CharBpe, CutsChangeNothing) {
  const Vocabulary vocabulary({"a",
                               "b",
                               "c",
                               "_",
                               "ab",
                               "_a",
                               "bc",
                               "__",
                               "abc",
                               "_ab",
                               "__a",
                               "____",
                               "cab",
                               "bb",
                               "bbc",
                               "a_"});
  const CharBpe bpe = vocabulary.bpe();
  std::mt19937 random(20240727);
  for (size_t n = 0; n <= 120; ++n) {
    for (int round = 0; round < 8; ++round) {
      std::string text;
      for (size_t i = 0; i < n; ++i) text += "abc_"[random() % 4];
      ASSERT_EQ(encode(bpe, text), vocabulary.encode_naively(text)) << text;
    }
  }
}

TEST(CharBpe, JoinFilterKnowsEveryMergeAndLittleElse) {
  JoinFilter filter;
  filter.add("xa", "bx");
  filter.add("\u2581", "\u4E2D");
  filter.add("", "b");
  EXPECT_TRUE(filter.may_join('a', 'b'));
  EXPECT_TRUE(filter.may_join(0x2581, 0x4E2D));
  size_t n_joined = 0;
  for (char32_t left = 0; left < 200; ++left) {
    for (char32_t right = 0; right < 200; ++right) n_joined += filter.may_join(left, right) ? 1 : 0;
  }
  EXPECT_LE(n_joined, 3U);  // of 40,000: one, and chance
  filter.allow_all();
  EXPECT_TRUE(filter.may_join('y', 'z'));
}

TEST(CharBpe, UnknownCharacters) {
  std::vector<std::string> texts = {"?", "a", "b"};
  for (int byte = 0; byte < 256; ++byte) texts.push_back(fmt::format("<0x{:02X}>", byte));
  const Vocabulary vocabulary(texts);
  CharBpe::Options options;
  EXPECT_EQ(encode(vocabulary.bpe(options), "axyb"), (Ids{1, 2}));  // dropped
  options.unknown = 0;
  EXPECT_EQ(encode(vocabulary.bpe(options), "axybz"), (Ids{1, 0, 0, 2, 0}));
  options.fuses_unknown = true;
  EXPECT_EQ(encode(vocabulary.bpe(options), "axybz"), (Ids{1, 0, 2, 0}));
  options.has_byte_fallback = true;
  EXPECT_EQ(encode(vocabulary.bpe(options), "a\u00E9"), (Ids{1, 3 + 0xC3, 3 + 0xA9}));
}

TEST(ByteTokens, AreTwoHexDigits) {
  EXPECT_EQ(parse_byte_token("<0x0A>"), 10);
  EXPECT_EQ(parse_byte_token("<0xff>"), 255);
  for (const char* other :
       {"<0x0A", "<0x0AB>", "<0xG0>", "<0x+1>", "<0x 1>", "<0x1>", "0x0A", ""}) {
    EXPECT_EQ(parse_byte_token(other), std::nullopt) << other;
  }
}

TEST(PieceTrie, FindsEveryFrontShortestFirst) {
  const std::vector<std::string> pieces = {"abc", "a", "abd", "b", "", "abcde", "a", "\u4E2D"};
  std::vector<PieceTrie::Entry> entries;
  for (TokenId id = 0; id < pieces.size(); ++id) entries.push_back({pieces[id], id});
  const PieceTrie trie(entries);
  const auto fronts = [&](std::string_view text) {
    std::vector<std::pair<size_t, TokenId>> found;
    trie.for_each_prefix(text, [&](size_t n, TokenId id) { found.emplace_back(n, id); });
    return found;
  };
  using Fronts = std::vector<std::pair<size_t, TokenId>>;
  EXPECT_EQ(fronts("abcdef"), (Fronts{{1, 6}, {3, 0}, {5, 5}}));  // of two "a" the last
  EXPECT_EQ(fronts("abd"), (Fronts{{1, 6}, {3, 2}}));
  EXPECT_EQ(fronts("ab"), (Fronts{{1, 6}}));
  EXPECT_EQ(fronts("c"), Fronts());
  EXPECT_EQ(fronts(""), Fronts());
  EXPECT_EQ(trie.find("\u4E2D"), 7U);
  EXPECT_EQ(trie.find("abcd"), std::nullopt);
  EXPECT_EQ(trie.find(""), std::nullopt);
  EXPECT_EQ(PieceTrie({}).find("a"), std::nullopt);
}

// Every way to cut a text, for the definition of the best one.
double best_sum(std::string_view text,
                const std::vector<std::string>& pieces,
                const std::vector<double>& scores) {
  if (text.empty()) return 0;
  double best = -1e300;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (!text.starts_with(pieces[id])) continue;
    best = std::max(best, scores[id] + best_sum(text.substr(pieces[id].size()), pieces, scores));
  }
  return best;
}

TEST(Unigram, FindsTheLargestSum) {
  const std::vector<std::string> pieces = {"a", "b", "c", "ab", "bc", "abc", "aa", "caab"};
  const std::vector<double> scores = {-2.5, -3.25, -2.75, -4.5, -5.125, -8, -4.75, -9.5};
  std::vector<PieceTrie::Entry> entries;
  for (TokenId id = 0; id < pieces.size(); ++id) entries.push_back({pieces[id], id});
  const Unigram unigram(
      PieceTrie(entries), scores, ByteTokens(TokenTable(0)), {.unknown = 99, .unknown_score = -50});
  std::mt19937 random(20240728);
  Unigram::Scratch scratch;
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t i = 0; i < 1 + random() % 9; ++i) text += static_cast<char>('a' + random() % 3);
    Ids ids;
    unigram.encode(text, scratch, ids);
    double sum = 0;
    std::string joined;
    for (const TokenId id : ids) {
      sum += scores[id];
      joined += pieces[id];
    }
    ASSERT_EQ(joined, text);
    ASSERT_EQ(sum, best_sum(text, pieces, scores)) << text;
  }
}

TEST(Unigram, RunsOfUnknownCharactersAreOneToken) {
  const std::vector<std::string> pieces = {"<unk>", "a", "xy"};
  std::vector<PieceTrie::Entry> entries;
  for (TokenId id = 0; id < pieces.size(); ++id) entries.push_back({pieces[id], id});
  Unigram::Scratch scratch;
  const auto encoded = [&](std::string_view text, Unigram::Options options) {
    const Unigram unigram(PieceTrie(entries), {-1, -1, -100}, ByteTokens(TokenTable(0)), options);
    Ids ids;
    unigram.encode(text, scratch, ids);
    return ids;
  };
  EXPECT_EQ(encoded("azza\u4E2D", {.unknown_score = -11}), (Ids{1, 0, 1, 0}));
  // "xy" costs more than two unknown characters, which together are "xy" again.
  EXPECT_EQ(encoded("xy", {.unknown_score = -11}), (Ids{0}));
  EXPECT_EQ(encoded("xy", {.unknown_score = -11, .looks_up_unknown = true}), (Ids{2}));
}

}  // namespace
}  // namespace cairn
