#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include "text/added_tokens.h"
#include "text/normalizer.h"
#include "text/utf8.h"

namespace cairn {
namespace {

constexpr const char* kQwen =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string> split(const std::string& text,
                               const std::string& pattern,
                               SplitBehavior behavior = SplitBehavior::kIsolated,
                               bool is_inverted = false) {
  auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex.is_ok()) << regex.status().to_string();
  std::vector<Split> splits;
  splits.push_back({std::move(regex).value(), behavior, is_inverted});
  std::vector<Piece> pieces;
  PreTokenizer(std::move(splits)).split(text, pieces);
  std::vector<std::string> out;
  for (const Piece& piece : pieces)
    out.push_back(text.substr(piece.begin, piece.end - piece.begin));
  return out;
}

using Pieces = std::vector<std::string>;

TEST(PreTokenizer, QwenSplit) {
  EXPECT_EQ(split("Hello  world's 42\n\n x", kQwen),
            (Pieces{"Hello", " ", " world", "'s", " ", "4", "2", "\n\n", " x"}));
  EXPECT_EQ(split("a!?\r\nb", kQwen), (Pieces{"a", "!?\r\n", "b"}));
}

TEST(PreTokenizer, WhiteSpaceIsUnicodesAndNotPcres) {
  // U+0085 is white space; U+FEFF and U+180E are not, whatever PCRE2 thinks of the latter.
  EXPECT_EQ(split("!\u0085!", R"(\s+)"), (Pieces{"!", "\u0085", "!"}));
  EXPECT_EQ(split("!\uFEFF!", R"(\s+)"), (Pieces{"!\uFEFF!"}));
  EXPECT_EQ(split("!\u180E!", R"(\s+)"), (Pieces{"!\u180E!"}));
  EXPECT_EQ(split("!\u180E!", R"([^\s]+)"), (Pieces{"!\u180E!"}));
  EXPECT_EQ(split("\u180E ", R"(\S+)"), (Pieces{"\u180E", " "}));
  EXPECT_EQ(split("] x", R"([]\s]+)"), (Pieces{"] ", "x"}));
}

// Every code point that a text can hold, in order.
std::string all_characters() {
  std::string text;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    utf8::append(text, code);
  }
  return text;
}

TEST(Regex, GeneralCategoriesAreUnicode15s) {
  ASSERT_STREQ(utf8proc_unicode_version(), "15.0.0");
  const std::string text = all_characters();
  for (const std::string name : {"L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "N", "Nd", "P", "S"}) {
    const Regex regex = Regex::compile("\\p{" + name + "}+").value();
    Regex::Matcher matcher(regex);
    size_t n_wrong = 0;
    size_t pos = 0;
    const auto step_to = [&](size_t end, bool is_member) {
      while (pos < end) {
        const utf8::Decoded c = utf8::decode(std::string_view(text).substr(pos));
        const std::string category =
            utf8proc_category_string(static_cast<utf8proc_int32_t>(c.code));
        n_wrong += category.starts_with(name) == is_member ? 0 : 1;
        pos += c.n_bytes;
      }
    };
    while (const auto match = matcher.find(text, pos)) {
      step_to(match->begin, false);
      step_to(match->end, true);
    }
    step_to(text.size(), false);
    EXPECT_EQ(n_wrong, 0U) << name;
  }
}

TEST(Regex, CategoriesKeepTheirPlaceInAPattern) {
  // U+11F04 is a letter since Unicode 15, U+1F6DC a symbol.
  EXPECT_EQ(split("a\U00011F04\U0001F6DC", R"(\p{L}+)"), (Pieces{"a\U00011F04", "\U0001F6DC"}));
  EXPECT_EQ(split("a\U00011F04\U0001F6DC", R"(\pL+)"), (Pieces{"a\U00011F04", "\U0001F6DC"}));
  EXPECT_EQ(split("a\U00011F04!\U0001F6DC", R"(\P{L}+)"), (Pieces{"a\U00011F04", "!\U0001F6DC"}));
  EXPECT_EQ(split("a\U00011F04!\U0001F6DC", R"([^\p{L}\p{S}]+)"),
            (Pieces{"a\U00011F04", "!", "\U0001F6DC"}));
  EXPECT_EQ(split("\\p{L}x", R"(\Q\p{L}\E)"), (Pieces{"\\p{L}", "x"}));
  EXPECT_FALSE(Regex::compile("\\p{").is_ok());
  EXPECT_FALSE(Regex::compile("\\p").is_ok());
  EXPECT_FALSE(Regex::compile("[\\").is_ok());
}

TEST(PreTokenizer, CaseFoldingIsUnicodes) {
  EXPECT_EQ(split("x'\u017F", kQwen), (Pieces{"x", "'\u017F"}));
  EXPECT_EQ(split("x'Ll", kQwen), (Pieces{"x", "'Ll"}));
}

TEST(PreTokenizer, Behaviors) {
  const std::string text = "ab--c-";
  EXPECT_EQ(split(text, "-"), (Pieces{"ab", "-", "-", "c", "-"}));
  EXPECT_EQ(split(text, "-", SplitBehavior::kRemoved), (Pieces{"ab", "c"}));
  EXPECT_EQ(split(text, "[a-z]+", SplitBehavior::kRemoved, true), (Pieces{"ab", "c"}));
  EXPECT_EQ(split(text, "-", SplitBehavior::kMergedWithPrevious), (Pieces{"ab-", "-", "c-"}));
  EXPECT_EQ(split(text, "-", SplitBehavior::kMergedWithNext), (Pieces{"ab", "-", "-c", "-"}));
  EXPECT_EQ(split(text, "-", SplitBehavior::kContiguous), (Pieces{"ab", "--", "c", "-"}));
  EXPECT_EQ(split("", "-"), (Pieces{}));
}

TEST(PreTokenizer, EmptyMatchesSplitNothing) {
  EXPECT_EQ(split("日本x", "x*"), (Pieces{"日本", "x"}));
}

TEST(PreTokenizer, ALongRunOfSpacesIsOnePieceAndOneSpace) {
  const std::string spaces(300'000, ' ');
  EXPECT_EQ(split(spaces + "x", kQwen), (Pieces{spaces.substr(1), " x"}));
}

TEST(PreTokenizer, StepsFollowOneAnother) {
  std::vector<Split> splits;
  splits.push_back({Regex::compile(R"(\p{N}{1,3})").value(), SplitBehavior::kIsolated, false});
  splits.push_back({Regex::compile(R"([a-z]+)").value(), SplitBehavior::kIsolated, false});
  std::vector<Piece> pieces;
  PreTokenizer(std::move(splits)).split("ab1234!", pieces);
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_EQ(pieces[1].begin, 2U);
  EXPECT_EQ(pieces[1].end, 5U);
  EXPECT_EQ(pieces[2].end, 6U);
}

TEST(Regex, AnErrorShowsThePattern) {
  const auto regex = Regex::compile("(a");
  ASSERT_FALSE(regex.is_ok());
  EXPECT_EQ(regex.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(regex.status().message().find("(a"), std::string::npos);
}

TEST(Regex, HostilePatternsEnd) {
  auto regex = Regex::compile("(a+)+$").value();
  Regex::Matcher matcher(regex);
  EXPECT_EQ(matcher.find(std::string(40, 'a') + "b", 0), std::nullopt);
}

Normalizer normalizer(Normalizer::Step step) {
  std::vector<Normalizer::Step> steps;
  steps.push_back(std::move(step));
  return Normalizer(std::move(steps));
}

TEST(Normalizer, ComposesOnlyWhereNeeded) {
  const Normalizer nfc = normalizer(NormalForm::kNfc);
  std::string scratch;
  const std::string plain = "caf\u00E9";
  EXPECT_EQ(nfc.normalize(plain, scratch).data(), plain.data());
  EXPECT_EQ(nfc.normalize("cafe\u0301", scratch), "caf\u00E9");
  EXPECT_EQ(nfc.normalize("\u1112\u1161\u11AB", scratch), "\uD55C");
  EXPECT_EQ(nfc.normalize(std::string("e\0\u0301", 4), scratch), std::string("e\0\u0301", 4));
}

TEST(Normalizer, CompatibilityForms) {
  std::string scratch;
  EXPECT_EQ(normalizer(NormalForm::kNfkc).normalize("ﬁ①", scratch), "fi1");
  EXPECT_EQ(normalizer(NormalForm::kNfd).normalize("\u00E9", scratch), "e\u0301");
  EXPECT_EQ(normalizer(NormalForm::kNfkd).normalize("\u00E9ﬁ", scratch), "e\u0301fi");
  EXPECT_EQ(Normalizer().normalize("e\u0301", scratch), "e\u0301");
}

struct Found {
  size_t begin, end;
  TokenId id;
  friend bool operator==(const Found&, const Found&) = default;
};

std::vector<Found> find_all(const std::vector<AddedToken>& tokens, const std::string& text) {
  std::vector<AddedTokenFinder::Match> matches;
  AddedTokenFinder(tokens).find_all(text, matches);
  std::vector<Found> out;
  for (const auto& match : matches) out.push_back({match.begin, match.end, match.id});
  return out;
}

TEST(AddedTokens, LeftmostThenLongest) {
  const std::vector<AddedToken> tokens = {{1, "<a>"}, {2, "<a><b>"}, {3, "a>"}, {4, ""}};
  EXPECT_EQ(find_all(tokens, "x<a><b>"), (std::vector<Found>{{1, 7, 2}}));
  EXPECT_EQ(find_all(tokens, "<a><a>"), (std::vector<Found>{{0, 3, 1}, {3, 6, 1}}));
  EXPECT_EQ(find_all(tokens, "<a <b>a>"), (std::vector<Found>{{6, 8, 3}}));
  EXPECT_EQ(find_all(tokens, ""), (std::vector<Found>{}));
}

TEST(AddedTokens, StripsWhiteSpaceAroundItself) {
  AddedToken left{1, "<m>"};
  left.strips_left = true;
  EXPECT_EQ(find_all({left}, "a \u3000<m> b"), (std::vector<Found>{{1, 8, 1}}));
  EXPECT_EQ(find_all({left}, "<m> <m>"), (std::vector<Found>{{0, 3, 1}, {3, 7, 1}}));
  AddedToken right{2, "<m>"};
  right.strips_right = true;
  EXPECT_EQ(find_all({right}, "a <m> \n<m>b"), (std::vector<Found>{{2, 7, 2}, {7, 10, 2}}));
}

TEST(AddedTokens, SingleWordsNeedABoundary) {
  AddedToken word{1, "<w>"};
  word.is_single_word = true;
  EXPECT_EQ(find_all({word}, "a<w> é<w> <w>_ <w>"), (std::vector<Found>{{16, 19, 1}}));
}

}  // namespace
}  // namespace cairn
