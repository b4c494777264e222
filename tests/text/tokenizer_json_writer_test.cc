// GGUF vocabularies written as tokenizer.json: the same ids, from hand-made ones to whole published
// ones (CAIRN_ORACLES, CAIRN_VOCABS).
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/coding.h"
#include "formats/gguf_from_hf.h"
#include "formats/hf_from_gguf.h"
#include "text/oracle_files.h"
#include "text/tokenizer.h"

namespace cairn {
namespace {

using IdList = std::vector<TokenId>;

std::shared_ptr<const Tokenizer> written(const GgufVocabulary& vocabulary) {
  const auto json = tokenizer_json_of(vocabulary);
  EXPECT_TRUE(json.is_ok()) << json.status().to_string();
  auto tokenizer = Tokenizer::from_json(*json);
  EXPECT_TRUE(tokenizer.is_ok()) << tokenizer.status().to_string();
  return std::move(tokenizer).value();
}

class WrittenGguf : public testing::TestWithParam<const char*> {};

TEST_P(WrittenGguf, GivesTheIdsOfTheFile) {
  const auto oracles = oracle_folder();
  if (!oracles) GTEST_SKIP() << GetParam() << ": set CAIRN_ORACLES";
  const GgufText file(
      read_gz_or_die(fmt::format("{}/gguf/ggml-vocab-{}.gguf.gz", *oracles, GetParam())));
  const auto own = Tokenizer::from_gguf(file.vocabulary()).value();
  const auto json = written(file.vocabulary());
  // Added tokens of Latin letters: the ByteLevel decoder of a tokenizer.json takes them for bytes.
  const auto is_reread = [&](TokenId id) { return json->token_bytes(id) != own->token_bytes(id); };
  size_t n_reread = 0;
  for (TokenId id = 0; id < own->vocab_end(); ++id) n_reread += is_reread(id) ? 1 : 0;
  EXPECT_EQ(n_reread, std::string_view(GetParam()) == "deepseek-coder" ? 13U : 0U);
  size_t n = 0;
  for (const Json& row : read_jsonl_gz_or_die(*oracles + "/gguf/goldens.jsonl.gz")) {
    const auto text = row["text"].get<std::string>();
    const IdList ids = own->encode(text, true);
    EXPECT_EQ(json->encode(text, true), ids) << text.substr(0, 200);
    if (row["tokenizer"] == GetParam()) {
      EXPECT_EQ(json->encode(text, false), row["ids"].get<IdList>()) << text.substr(0, 200);
      ++n;
    }
    if (std::any_of(ids.begin(), ids.end(), is_reread)) continue;
    EXPECT_EQ(json->decode(ids, false), own->decode(ids, false));
    EXPECT_EQ(json->decode(ids, true), own->decode(ids, true));
  }
  EXPECT_EQ(n, 46U);
}

INSTANTIATE_TEST_SUITE_P(Files,
                         WrittenGguf,
                         testing::Values("phi-3", "gpt-2", "deepseek-coder", "falcon"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

struct Published {
  const char* name;  // of the goldens and of the package
  int64_t n_rows;    // of the model, some without a token
};

class PublishedVocabulary : public testing::TestWithParam<Published> {};

TEST_P(PublishedVocabulary, ComesBackFromGguf) {
  const auto [name, n_rows] = GetParam();
  const auto oracles = oracle_folder();
  if (!oracles) GTEST_SKIP() << name << ": set CAIRN_ORACLES";
  const auto folder = vocab_folder(std::string("tokenizer-") + name);
  if (!folder) GTEST_SKIP() << name << ": not in CAIRN_VOCABS, see tools/fetch_vocabs.sh";
  HfConfig config;
  config.vocab_size = n_rows;
  GgufMetadataBuilder metadata;
  const Status status = add_gguf_tokenizer(*folder, config, &metadata);
  ASSERT_TRUE(status.is_ok()) << status.to_string();
  ByteWriter gguf;
  gguf.u32(kGgufMagic);
  gguf.u32(3);
  gguf.u64(0);
  gguf.u64(metadata.n_entries());
  gguf.bytes(metadata.bytes());
  const GgufText file(
      std::string(reinterpret_cast<const char*>(gguf.view().data()), gguf.view().size()));
  ASSERT_EQ(file.vocabulary().tokens.size(), static_cast<size_t>(n_rows));
  const auto tokenizer = written(file.vocabulary());
  EXPECT_LT(tokenizer->vocab_end(), n_rows);  // rows without a token got none
  size_t n = 0;
  for (const Json& row :
       read_jsonl_gz_or_die(fmt::format("{}/data/tokenizers/{}.jsonl.gz", *oracles, name))) {
    const auto ids = row["ids"].get<IdList>();
    EXPECT_EQ(tokenizer->encode(row["text"].get<std::string>(), false), ids) << row["i"];
    EXPECT_EQ(tokenizer->decode(ids, false), row["decoded"].get<std::string>()) << row["i"];
    ++n;
  }
  EXPECT_EQ(n, 384U);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies,
                         PublishedVocabulary,
                         testing::Values(Published{"llama3_1", 128320}, Published{"qwen3", 151936}),
                         [](const auto& test) { return std::string(test.param.name); });

// "ab" can come about by one merge, "abc" by two that have the same score.
GgufVocabulary scored_vocabulary() {
  GgufVocabulary v;
  v.model = "llama";
  v.tokens = {"<unk>", "<s>", "</s>", "\u2581", "a", "b", "c", "ab", "bc", "abc", "\u2581a"};
  v.token_types = {2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1};
  v.scores = {0, 0, 0, -9, -9, -9, -9, -2, -3, -4, -1};
  v.bos_token_id = 1;
  v.eos_token_id = 2;
  v.unknown_token_id = 0;
  return v;
}

TEST(TokenizerJsonWriter, ScoresBecomeMergesInTheirOrder) {
  GgufVocabulary v = scored_vocabulary();
  const Json json = parse_json(tokenizer_json_of(v).value(), "written").value();
  EXPECT_EQ(json["model"]["merges"].dump(),
            "[[\"\u2581\",\"a\"],"
            R"(["a","b"],["b","c"],["a","bc"],["ab","c"]])");
  EXPECT_EQ(written(v)->encode("abc", true), (IdList{1, 10, 8}));
  EXPECT_EQ(written(v)->encode("babc", false), (IdList{3, 5, 9}));
  v.add_space_prefix = false;
  v.add_bos_token = false;
  v.add_eos_token = true;
  EXPECT_EQ(written(v)->encode("abc", true), (IdList{9, 2}));
  EXPECT_EQ(written(v)->decode(IdList{10, 8}, false), " abc");
}

GgufVocabulary byte_vocabulary() {
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = "qwen2";
  v.tokens = {"a", "b", "\u0120", "ab", "<s>", "<u>", "[PAD6]"};
  v.token_types = {1, 1, 1, 1, 3, 4, 5};
  v.merges = {"a b"};
  v.bos_token_id = 4;
  return v;
}

TEST(TokenizerJsonWriter, ByteLevelKeepsAddedTokensAndDropsFillers) {
  GgufVocabulary v = byte_vocabulary();
  const auto plain = written(v);
  EXPECT_EQ(plain->encode("ab a<s>b<u>", true), (IdList{3, 2, 0, 4, 1, 5}));
  EXPECT_TRUE(plain->is_special(4));
  EXPECT_TRUE(plain->is_added(5));
  EXPECT_FALSE(plain->is_special(5));
  EXPECT_EQ(plain->vocab_end(), 6U);
  v.add_bos_token = true;
  EXPECT_EQ(written(v)->encode("a", true), (IdList{4, 0}));
  EXPECT_EQ(written(v)->encode("a", false), (IdList{0}));
}

TEST(TokenizerJsonWriter, RefusesWhatTheFileHasNoPlaceFor) {
  const auto expect = [](const GgufVocabulary& v, const char* named) {
    const Status status = tokenizer_json_of(v).status();
    EXPECT_FALSE(status.is_ok());
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
  };
  GgufVocabulary v = byte_vocabulary();
  v.tokens[1] = "a";
  expect(v, "token 1 is spelt \"a\" like token 0");
  v = byte_vocabulary();
  v.tokens[1] = "\xff";
  expect(v, "token 1 is not UTF-8");
  v = byte_vocabulary();
  v.merges = {"ab"};
  expect(v, "entry 0");
  v = byte_vocabulary();
  v.pre = "odd";
  expect(v, "odd");
  v = byte_vocabulary();
  v.model = "bert";
  expect(v, "bert");
  v = byte_vocabulary();
  v.add_space_prefix = true;
  expect(v, "add_space_prefix");
  v = scored_vocabulary();
  v.scores.pop_back();
  expect(v, "10 entries for 11 tokens");
  v = scored_vocabulary();
  const std::string huge(600, 'a');
  v.tokens[9] = huge;
  expect(v, "600 bytes");
}

}  // namespace
}  // namespace cairn
