// Vocabularies of GGUF files against llama.cpp's own test vectors, and what is refused.
#include "formats/gguf_vocabulary.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "formats/gguf_pre_tokenizers.h"
#include "text/detokenizer.h"
#include "text/oracle_files.h"
#include "text/tokenizer.h"

namespace cairn {
namespace {

std::shared_ptr<const Tokenizer> make(const GgufVocabulary& vocabulary) {
  auto tokenizer = Tokenizer::from_gguf(vocabulary);
  EXPECT_TRUE(tokenizer.is_ok()) << tokenizer.status().to_string();
  return std::move(tokenizer).value();
}

struct Vector {
  const char* name;  // of the vectors
  const char* file;  // vocabulary that has their tokens
};

class GgufGoldens : public testing::TestWithParam<Vector> {};

TEST_P(GgufGoldens, EncodeAndStream) {
  const auto oracles = oracle_folder();
  if (!oracles) GTEST_SKIP() << GetParam().name << ": set CAIRN_ORACLES";
  const std::string file = std::string("ggml-vocab-") + GetParam().file + ".gguf.gz";
  const GgufText source(read_gz_or_die(*oracles + "/gguf/" + file));
  const auto tokenizer = make(source.vocabulary());
  size_t n = 0;
  for (const Json& row : read_jsonl_gz_or_die(*oracles + "/gguf/goldens.jsonl.gz")) {
    if (row["tokenizer"] != GetParam().name) continue;
    const auto text = row["text"].get<std::string>();
    const auto ids = row["ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer->encode(text, false), ids) << row["i"] << ": " << text.substr(0, 200);
    EXPECT_EQ(tokenizer->decode(ids, false), text) << row["i"];
    Detokenizer detokenizer(tokenizer, false);
    std::string streamed;
    for (const TokenId id : ids) streamed += detokenizer.append(id);
    EXPECT_EQ(streamed + detokenizer.finish(), text) << row["i"];
    ++n;
  }
  EXPECT_EQ(n, 46U);
}

// The true Llama 2 vocabulary is the first 32,000 tokens of Phi-3's. StarCoder's vectors have no
// vocabulary with them.
INSTANTIATE_TEST_SUITE_P(Vectors,
                         GgufGoldens,
                         testing::Values(Vector{"phi-3", "phi-3"},
                                         Vector{"llama-spm", "phi-3"},
                                         Vector{"gpt-2", "gpt-2"},
                                         Vector{"deepseek-coder", "deepseek-coder"},
                                         Vector{"falcon", "falcon"}),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A byte-level vocabulary of letters, "ab" and a control token.
struct Small {
  Small() {
    vocabulary.model = "gpt2";
    vocabulary.pre = "gpt-2";
    vocabulary.tokens = {"a", "b", "\u0120", "ab", "<s>", "<u>"};
    vocabulary.token_types = types;
    vocabulary.merges = {"a b"};
    vocabulary.bos_token_id = 4;
  }

  std::vector<int32_t> types = {1, 1, 1, 1, 3, 4};
  GgufVocabulary vocabulary;
};

// Scores in the order in which merges are wanted, bytes for what has no token.
struct SmallScored {
  SmallScored() {
    vocabulary.model = "llama";
    vocabulary.tokens = {"<unk>", "<s>", "\u2581", "a", "b", "ab", "\u2581a"};
    types = {2, 3, 1, 1, 1, 1, 1};
    scores = {0, 0, -1, -1, -1, -3, -2};
    for (size_t byte = 0; byte < 256; ++byte) {
      bytes.push_back(fmt::format("<0x{:02X}>", byte));
      types.push_back(6);
      scores.push_back(0);
    }
    for (const std::string& byte : bytes) vocabulary.tokens.push_back(byte);
    vocabulary.token_types = types;
    vocabulary.scores = scores;
    vocabulary.bos_token_id = 1;
    vocabulary.unknown_token_id = 0;
  }

  std::vector<std::string> bytes;
  std::vector<int32_t> types;
  std::vector<float> scores;
  GgufVocabulary vocabulary;
};

using Ids = std::vector<TokenId>;

TEST(GgufVocabulary, ByteLevel) {
  Small small;
  const auto tokenizer = make(small.vocabulary);
  EXPECT_EQ(tokenizer->encode("ab a<s>b<u>", false), (Ids{3, 2, 0, 4, 1, 5}));
  EXPECT_TRUE(tokenizer->is_special(4));
  EXPECT_FALSE(tokenizer->is_special(5));
  EXPECT_EQ(tokenizer->encode("a", true), (Ids{0}));  // gpt-2 adds no BOS of itself
  small.vocabulary.add_bos_token = true;
  EXPECT_EQ(make(small.vocabulary)->encode("a", true), (Ids{4, 0}));
}

TEST(GgufVocabulary, ScoredPiecesMergeByScoreAndFallBackToBytes) {
  SmallScored small;
  const auto tokenizer = make(small.vocabulary);
  EXPECT_EQ(tokenizer->encode("ab", false), (Ids{6, 4}));  // U+2581 "a" has the better score
  EXPECT_EQ(tokenizer->encode("bab", false), (Ids{2, 4, 5}));
  EXPECT_EQ(tokenizer->encode("\u00E9", false), (Ids{2, 7 + 0xC3, 7 + 0xA9}));
  EXPECT_EQ(tokenizer->encode("a", true), (Ids{1, 6}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("  \u00E9a", false), false), "  \u00E9a");
  small.vocabulary.add_space_prefix = false;
  const auto bare = make(small.vocabulary);
  EXPECT_EQ(bare->encode("ab", false), (Ids{5}));
  EXPECT_EQ(bare->decode(Ids{6, 4}, false), " ab");
}

TEST(GgufVocabulary, QwenComposesAsItsOwnTokenizerDoes) {
  Small small;
  small.vocabulary.tokens.insert(small.vocabulary.tokens.end(), {"\u00C3", "\u00A9"});
  small.types.insert(small.types.end(), {1, 1});
  small.vocabulary.token_types = small.types;
  small.vocabulary.pre = "qwen2";
  EXPECT_EQ(make(small.vocabulary)->encode("e\u0301", false), (Ids{6, 7}));
}

TEST(GgufVocabulary, EveryPreTokenizerCompiles) {
  const Status unknown = find_gguf_pre_tokenizer("no such").status();
  ASSERT_EQ(unknown.code(), StatusCode::kUnsupported);
  const std::string& message = unknown.message();
  EXPECT_NE(message.find("no such"), std::string::npos);
  size_t pos = message.find("are ") + 4;
  size_t n = 0;
  while (pos < message.size()) {
    const size_t end = std::min(message.find(", ", pos), message.size());
    Small small;
    small.vocabulary.pre = std::string_view(message).substr(pos, end - pos);
    EXPECT_EQ(make(small.vocabulary)->decode(Ids{3, 2, 0}, false), "ab a") << small.vocabulary.pre;
    const auto ids = make(small.vocabulary)->encode("ab a", false);
    EXPECT_EQ(ids, (Ids{3, 2, 0})) << small.vocabulary.pre;
    pos = end + 2;
    ++n;
  }
  EXPECT_GE(n, 40U);
  EXPECT_TRUE(find_gguf_pre_tokenizer("").is_ok());
}

TEST(GgufVocabulary, RefusesWhatDoesNotFitTogether) {
  const auto expect = [](const GgufVocabulary& vocabulary, StatusCode code, const char* named) {
    const Status status = Tokenizer::from_gguf(vocabulary).status();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
  };
  const Small small;  // owns what the copies view
  const auto varied = [&small](auto change) {
    GgufVocabulary vocabulary = small.vocabulary;
    change(vocabulary);
    return vocabulary;
  };
  using V = GgufVocabulary;
  const std::vector<int32_t> short_types = {1};
  const auto wrong = StatusCode::kCorruption;
  expect(varied([](V& v) { v.model = "bert"; }), StatusCode::kUnsupported, "bert");
  expect(varied([](V& v) { v.pre = "odd"; }), StatusCode::kUnsupported, "odd");
  expect(varied([](V& v) { v.bos_token_id = 6; }), wrong, "bos_token_id is 6");
  expect(varied([&](V& v) { v.token_types = short_types; }), wrong, "1 token types");
  expect(varied([](V& v) { v.merges = {"ab"}; }), wrong, "merge 0");
  expect(varied([](V& v) { v.merges = {"a b", "b a"}; }), wrong, "merge 1");
  expect(varied([](V& v) { v.model = "llama"; }), wrong, "0 scores");
  expect(varied([](V& v) {
           v.tokens.clear();
           v.token_types = {};
           v.bos_token_id.reset();
         }),
         wrong,
         "empty");
}

}  // namespace
}  // namespace cairn
