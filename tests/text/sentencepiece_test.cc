// SentencePiece's .model files: goldens by the library itself (0.1.97), and damaged files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "text/detokenizer.h"
#include "text/oracle_files.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer.h"

namespace cairn {
namespace {

// Writes the protocol-buffer messages that make up a .model file.
class Message {
 public:
  Message& number(unsigned field, uint64_t value) { return varint(field << 3U).varint(value); }

  Message& text(unsigned field, const std::string& value) {
    varint((field << 3U) | 2U).varint(value.size());
    bytes += value;
    return *this;
  }

  Message& real(unsigned field, float value) {
    varint((field << 3U) | 5U);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }

  std::string bytes;

 private:
  Message& varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>(value | 0x80U);
    bytes += static_cast<char>(value);
    return *this;
  }
};

constexpr unsigned kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4;

std::string piece(const std::string& text, float score, unsigned type) {
  return Message().text(1, text).real(2, score).number(3, type).bytes;
}

// "<unk>", "<s>", U+2581, a, b, "ab", U+2581 "ab", "<x>".
std::string small_model(unsigned kind, bool removes_extra_spaces = false) {
  Message model;
  model.text(1, piece("<unk>", 0, kUnknown)).text(1, piece("<s>", 0, kControl));
  model.text(1, piece("\u2581", -1, kNormal)).text(1, piece("a", -2, kNormal));
  model.text(1, piece("b", -3, kNormal)).text(1, piece("ab", -4, kNormal));
  model.text(1, piece("\u2581ab", -5, kNormal)).text(1, piece("<x>", 0, kUserDefined));
  model.text(2, Message().number(3, kind).bytes);
  model.text(3, Message().number(3, 1).number(4, removes_extra_spaces ? 1 : 0).bytes);
  return model.bytes;
}

std::shared_ptr<const Tokenizer> make(const std::string& model,
                                      const SentencePieceOptions& options = {}) {
  auto tokenizer = Tokenizer::from_sentencepiece(model, options);
  EXPECT_TRUE(tokenizer.is_ok()) << tokenizer.status().to_string();
  return std::move(tokenizer).value();
}

std::string stream_pieces(const std::shared_ptr<const Tokenizer>& tokenizer,
                          const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer, true);
  std::string out;
  for (const TokenId id : ids) out += detokenizer.append(id);
  return out + detokenizer.finish();
}

class SentencePieceGoldens : public testing::TestWithParam<const char*> {};

TEST_P(SentencePieceGoldens, EncodeDecodeAndStream) {
  const std::string name = GetParam();
  const auto oracles = oracle_folder();
  if (!oracles) GTEST_SKIP() << name << ": set CAIRN_ORACLES";
  const std::string bytes = read_file_or_die(*oracles + "/models/" + name + "/spm.model");
  const auto tokenizer = make(bytes, {.finds_control_pieces = false});
  size_t n = 0;
  for (const Json& row : read_jsonl_gz_or_die(*oracles + "/data/spm/" + name + ".jsonl.gz")) {
    const auto text = row["text"].get<std::string>();
    const auto ids = row["ids"].get<std::vector<TokenId>>();
    const auto decoded = row["decoded"].get<std::string>();
    EXPECT_EQ(tokenizer->encode(text, false), ids) << row["i"] << ": " << text.substr(0, 200);
    EXPECT_EQ(tokenizer->decode(ids, true), decoded) << row["i"];
    EXPECT_EQ(stream_pieces(tokenizer, ids), decoded) << row["i"];
    ++n;
  }
  EXPECT_EQ(n, 384U);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         SentencePieceGoldens,
                         testing::Values("spm-unigram-en", "tiny-unigram", "tiny-spm-bpe"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(SentencePiece, ControlPiecesAreFoundWhenAskedFor) {
  const auto tokenizer = make(small_model(2));
  EXPECT_EQ(tokenizer->encode("<s>ab", false), (std::vector<TokenId>{1, 6}));
  EXPECT_EQ(tokenizer->encode("ab", true), (std::vector<TokenId>{1, 6}));
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{1, 6}, true), "ab");
  const auto plain = make(small_model(2), {.finds_control_pieces = false, .adds_bos = false});
  EXPECT_EQ(plain->encode("<s>", true), (std::vector<TokenId>{2, 0}));  // one unknown run
}

TEST(SentencePiece, BestScoreMergesFirstAndUserDefinedPiecesAreNeverMerged) {
  const auto tokenizer = make(small_model(2));
  EXPECT_EQ(tokenizer->encode("abab ab", false), (std::vector<TokenId>{6, 5, 6}));
  EXPECT_EQ(tokenizer->encode("a<x>b", false), (std::vector<TokenId>{2, 3, 7, 4}));
  EXPECT_FALSE(tokenizer->is_special(7));
}

TEST(SentencePiece, UnigramTakesTheLargestSum) {
  const auto tokenizer = make(small_model(1));
  // U+2581 "ab" costs 5; U+2581 and "ab" 5, and a tie keeps what was found first.
  EXPECT_EQ(tokenizer->encode("aab", false), (std::vector<TokenId>{2, 3, 5}));
  EXPECT_EQ(tokenizer->encode("a<x>b", false), (std::vector<TokenId>{2, 3, 7, 4}));
  EXPECT_EQ(tokenizer->encode("azzb", false), (std::vector<TokenId>{2, 3, 0, 4}));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{2, 3, 0, 4}, true), "a \u2047 b");
}

TEST(SentencePiece, ExtraSpacesGoWhereTheModelSaysSo) {
  const auto tokenizer = make(small_model(1, true));
  EXPECT_EQ(tokenizer->encode("  a  b ", false), (std::vector<TokenId>{2, 3, 2, 4}));
  EXPECT_EQ(tokenizer->encode("   ", false), std::vector<TokenId>());
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{2, 2, 3, 2, 4}, true), "a b");
  const auto keeping = make(small_model(1, false));
  EXPECT_EQ(keeping->encode(" a", false), (std::vector<TokenId>{2, 2, 3}));
  EXPECT_EQ(keeping->decode(std::vector<TokenId>{2, 2, 3}, true), " a");
}

TEST(SentencePiece, RefusesWhatItDoesNotKnowByName) {
  const auto expect = [](const std::string& model, StatusCode code, const std::string& named) {
    const Status status = Tokenizer::from_sentencepiece(model).status();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
  };
  const std::string good = small_model(2);
  expect(small_model(3), StatusCode::kUnsupported, "word");
  expect(small_model(4), StatusCode::kUnsupported, "char");
  expect(small_model(9), StatusCode::kCorruption, "9");
  expect("", StatusCode::kCorruption, "0 of 0 pieces");
  expect(good + Message().text(1, piece("ab", 0, kNormal)).bytes, StatusCode::kCorruption, "id 8");
  expect(good + Message().text(1, piece("", 0, kNormal)).bytes, StatusCode::kCorruption, "piece 8");
  expect(good + Message().text(1, piece("\xFF", 0, kNormal)).bytes,
         StatusCode::kCorruption,
         "piece 8 is not UTF-8");
  expect(good + Message().text(1, piece("q", 0, 77)).bytes, StatusCode::kCorruption, "type 77");
  expect(good + Message().text(1, piece("q", std::nanf(""), kNormal)).bytes,
         StatusCode::kCorruption,
         "id 8");
  expect(good + Message().text(1, piece(std::string(600, 'q'), 0, kNormal)).bytes,
         StatusCode::kUnsupported,
         "600 bytes");
  expect(good + Message().text(2, Message().number(3, 2).number(35, 1).bytes).bytes,
         StatusCode::kCorruption,
         "byte_fallback");
  expect(good + Message().text(2, Message().number(3, 2).number(24, 1).bytes).bytes,
         StatusCode::kUnsupported,
         "suffix");
  expect(good + Message().text(3, Message().text(2, "abc").bytes).bytes,
         StatusCode::kCorruption,
         "character map");
}

TEST(SentencePiece, RefusesEveryFrontOfAFileOrReadsItWhole) {
  const std::string whole = small_model(2);
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto parsed = parse_sentencepiece_model(std::string_view(whole).substr(0, n));
    // A cut between two fields leaves a message that is whole, with fewer pieces.
    if (!parsed.is_ok()) continue;
    EXPECT_LE(parsed->pieces.size(), 8U) << n;
    EXPECT_GE(parsed->pieces.size(), 1U) << n;
  }
  EXPECT_FALSE(parse_sentencepiece_model(std::string_view(whole).substr(0, 9)).is_ok());
  EXPECT_FALSE(parse_sentencepiece_model(std::string(20, '\xFF')).is_ok());
}

}  // namespace
}  // namespace cairn
