// Whole vocabularies against the reference implementation: ids, text and streamed text of 384 hard
// inputs each. The vocabularies are fetched by tools/fetch_vocabs.sh.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "text/detokenizer.h"
#include "text/oracle_files.h"
#include "text/tokenizer.h"

namespace cairn {
namespace {

struct Vocabulary {
  const char* name;     // golden file
  const char* package;  // last part of the package's name; nullptr: beside the goldens
  bool adds_a_prefix;   // its post-processor puts tokens in front
};

class TokenizerGoldens : public testing::TestWithParam<Vocabulary> {};

std::string stream(const std::shared_ptr<const Tokenizer>& tokenizer,
                   const std::vector<TokenId>& ids,
                   bool skip) {
  Detokenizer detokenizer(tokenizer, skip);
  std::string out;
  for (const TokenId id : ids) out += detokenizer.append(id);
  return out + detokenizer.finish();
}

// Wherever a text may be cut, its parts have the ids of the whole.
void expect_parts_make_the_whole(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> whole = tokenizer.encode(text, false);
  for (const size_t cut : tokenizer.cuts(text)) {
    std::vector<TokenId> ids = tokenizer.encode(text.substr(0, cut), false);
    const std::vector<TokenId> rest = tokenizer.encode_behind(text, cut);
    ids.insert(ids.end(), rest.begin(), rest.end());
    EXPECT_EQ(ids, whole) << "cut at " << cut << " of: " << text.substr(0, 200);
  }
}

TEST_P(TokenizerGoldens, EncodeDecodeAndStream) {
  const std::string name = GetParam().name;
  const auto oracles = oracle_folder();
  if (!oracles) GTEST_SKIP() << name << ": set CAIRN_ORACLES";
  auto vocab = std::optional(*oracles + "/models/" + name);
  if (GetParam().package != nullptr) {
    vocab = vocab_folder(std::string("tokenizer-") + GetParam().package);
    if (!vocab) GTEST_SKIP() << name << ": not in CAIRN_VOCABS, see tools/fetch_vocabs.sh";
  }
  auto loaded = Tokenizer::load(*vocab);
  ASSERT_TRUE(loaded.is_ok()) << loaded.status().to_string();
  const auto tokenizer = std::move(loaded).value();
  const auto prefix = tokenizer->encode("", true);
  EXPECT_EQ(!prefix.empty(), GetParam().adds_a_prefix);
  size_t n = 0;
  for (const Json& row :
       read_jsonl_gz_or_die(*oracles + "/data/tokenizers/" + name + ".jsonl.gz")) {
    const auto text = row["text"].get<std::string>();
    const auto ids = row["ids"].get<std::vector<TokenId>>();
    const auto decoded = row["decoded"].get<std::string>();
    EXPECT_EQ(tokenizer->encode(text, false), ids) << row["i"] << ": " << text.substr(0, 200);
    EXPECT_EQ(tokenizer->decode(ids, false), decoded) << row["i"];
    expect_parts_make_the_whole(*tokenizer, text);
    EXPECT_EQ(stream(tokenizer, ids, false), decoded) << row["i"];
    const auto skipped =
        row.contains("decoded_skip") ? row["decoded_skip"].get<std::string>() : decoded;
    EXPECT_EQ(tokenizer->decode(ids, true), skipped) << row["i"];
    EXPECT_EQ(stream(tokenizer, ids, true), skipped) << row["i"];
    auto special = prefix;
    special.insert(special.end(), ids.begin(), ids.end());
    if (row.contains("ids_special")) special = row["ids_special"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer->encode(text, true), special) << row["i"];
    ++n;
  }
  EXPECT_EQ(n, 384U);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies,
                         TokenizerGoldens,
                         testing::Values(Vocabulary{"qwen3", "qwen3", false},
                                         Vocabulary{"llama3", "llama3", false},
                                         Vocabulary{"llama3_1", "llama3_1", true},
                                         Vocabulary{"deepseek_v3", "deepseek_v3", false},
                                         Vocabulary{"gptoss", "gptoss", false},
                                         Vocabulary{"gpt4o", "gpt4o", false},
                                         Vocabulary{"gpt35turbo", "gpt35turbo", false},
                                         Vocabulary{"claude", "claude", false},
                                         Vocabulary{"mistral_v1", "llama2", true},
                                         Vocabulary{"gemini", "gemini", true},
                                         Vocabulary{"gemma3", "gemma3", true},
                                         Vocabulary{"spm-unigram-en", nullptr, false},
                                         Vocabulary{"tiny-unigram", nullptr, false}),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace cairn
