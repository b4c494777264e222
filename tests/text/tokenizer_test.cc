#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "text/detokenizer.h"
#include "text/oracle_files.h"

namespace cairn {
namespace {

const std::string kDemo = std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo";
const std::string kTiny = std::string(CAIRN_SOURCE_DIR) + "/tests/data/oracles/_tokenizer";

// A complete small tokenizer, to be varied: letters a-c, "ab", a special token and a plain one.
Json small_tokenizer() {
  return parse_json(R"({
    "added_tokens": [{"id": 4, "content": "<s>", "special": true, "normalized": false},
                     {"id": 5, "content": "<t>", "special": false, "normalized": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": ["a b"]}})",
                    "test")
      .value();
}

std::shared_ptr<const Tokenizer> load_or_die(const std::string& dir) {
  auto tokenizer = Tokenizer::load(dir);
  EXPECT_TRUE(tokenizer.is_ok()) << tokenizer.status().to_string();
  return std::move(tokenizer).value();
}

std::shared_ptr<const Tokenizer> make(const Json& json) {
  auto tokenizer = Tokenizer::from_json(json.dump());
  EXPECT_TRUE(tokenizer.is_ok()) << tokenizer.status().to_string();
  return std::move(tokenizer).value();
}

Status refusal(const Json& json) {
  return Tokenizer::from_json(json.dump()).status();
}

std::string stream_text(const std::shared_ptr<const Tokenizer>& tokenizer,
                        const std::vector<TokenId>& ids,
                        bool skip) {
  Detokenizer detokenizer(tokenizer, skip);
  std::string out;
  for (const TokenId id : ids) out += detokenizer.append(id);
  return out + detokenizer.finish();
}

TEST(Tokenizer, DemoCases) {
  const auto tokenizer = load_or_die(kDemo);
  const Json cases = read_json_or_die(kDemo + "/tokenizer_cases.json");
  ASSERT_GE(cases["cases"].size(), 30U);
  for (const Json& row : cases["cases"]) {
    const auto text = row["text"].get<std::string>();
    const auto ids = row["ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer->encode(text, false), ids) << text;
    EXPECT_EQ(stream_text(tokenizer, ids, false), tokenizer->decode(ids, false)) << text;
  }
}

TEST(Tokenizer, DemoPromptsEncodeToTheirIds) {
  const auto tokenizer = load_or_die(kDemo);
  const Json goldens = read_json_or_die(kDemo + "/demo_goldens.json");
  size_t n = 0;
  for (const Json& row : goldens["conversations"]) {
    const auto ids = row["prompt_ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer->encode(row["prompt"].get<std::string>(), false), ids);
    EXPECT_EQ(tokenizer->decode(ids, false), row["prompt"].get<std::string>());
    ++n;
  }
  EXPECT_GT(n, 0U);
}

TEST(Tokenizer, TinyOracleCases) {
  const auto tokenizer = load_or_die(kTiny);
  const Json cases = read_json_or_die(kTiny + "/cases.json");
  ASSERT_FALSE(cases["cases"].empty());
  for (const Json& row : cases["cases"]) {
    const auto ids = row["ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer->encode(row["text"].get<std::string>(), false), ids);
    EXPECT_EQ(tokenizer->decode(ids, false), row["decoded"].get<std::string>());
  }
}

TEST(Tokenizer, KnowsItsAddedTokens) {
  const auto tokenizer = load_or_die(kDemo);
  EXPECT_EQ(tokenizer->vocab_end(), 4096U);
  EXPECT_EQ(tokenizer->find_token("<|im_end|>"), 4091U);
  EXPECT_TRUE(tokenizer->is_special(4091));
  EXPECT_TRUE(tokenizer->is_added(4092));  // <tool_call>
  EXPECT_FALSE(tokenizer->is_special(4092));
  EXPECT_FALSE(tokenizer->is_added(0));
  EXPECT_FALSE(tokenizer->is_added(4096));
  EXPECT_EQ(tokenizer->token_bytes(4096), "");
  EXPECT_EQ(tokenizer->token_bytes(4091), "<|im_end|>");
  EXPECT_EQ(tokenizer->find_token("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer->token_bytes(*tokenizer->find_token(" the")), " the");
}

TEST(Tokenizer, SkipsSpecialTokensOnlyWhenAsked) {
  const auto tokenizer = make(small_tokenizer());
  const std::vector<TokenId> ids = {4, 3, 5, 2, 4};
  EXPECT_EQ(tokenizer->encode("<s>ab<t>c<s>", false), ids);
  EXPECT_EQ(tokenizer->decode(ids, false), "<s>ab<t>c<s>");
  EXPECT_EQ(tokenizer->decode(ids, true), "ab<t>c");
  EXPECT_EQ(stream_text(tokenizer, ids, true), "ab<t>c");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{0, 999, 1}, false), "ab");  // unknown: skipped
}

TEST(Tokenizer, PostProcessorAddsItsTokensOnRequest) {
  Json json = small_tokenizer();
  json["post_processor"] = parse_json(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}},
      {"SpecialToken": {"id": "end"}}], "special_tokens": {"<s>": {"ids": [4]}, "end": {"ids": [5, 4]}}}]})",
                                      "test")
                               .value();
  const auto tokenizer = make(json);
  EXPECT_EQ(tokenizer->encode("ab", false), (std::vector<TokenId>{3}));
  EXPECT_EQ(tokenizer->encode("ab", true), (std::vector<TokenId>{4, 3, 5, 4}));
  EXPECT_EQ(tokenizer->encode("", true), (std::vector<TokenId>{4, 5, 4}));
}

TEST(Tokenizer, MergesComeAsStringsOrPairs) {
  Json json = small_tokenizer();
  json["model"]["merges"] = Json::array({Json::array({"a", "b"})});
  EXPECT_EQ(make(json)->encode("abc", false), (std::vector<TokenId>{3, 2}));
  EXPECT_EQ(make(json)->digest(), make(small_tokenizer())->digest());
}

TEST(Tokenizer, DigestSeesWhatChangesEncodingAndNothingElse) {
  const Digest base = make(small_tokenizer())->digest();
  EXPECT_EQ(Tokenizer::from_json(small_tokenizer().dump(4)).value()->digest(), base);
  std::vector<Json> others(6, small_tokenizer());
  others[0]["model"]["merges"] = Json::array();
  others[1]["normalizer"] = {{"type", "NFC"}};
  others[2]["added_tokens"][0]["lstrip"] = true;
  others[3]["pre_tokenizer"]["add_prefix_space"] = true;
  others[4]["model"]["ignore_merges"] = true;
  others[5]["pre_tokenizer"]["use_regex"] = false;
  for (size_t i = 0; i < others.size(); ++i) EXPECT_NE(make(others[i])->digest(), base) << i;
}

TEST(Tokenizer, NormalizedTokensAreFoundAfterNormalisation) {
  Json json = small_tokenizer();
  json["normalizer"] = {{"type", "NFKC"}};
  json["added_tokens"][1]["normalized"] = true;
  const auto tokenizer = make(json);
  // Full-width letters become "<t>" only by normalisation; "<s>" is looked for before it.
  EXPECT_EQ(tokenizer->encode("a＜t＞b", false), (std::vector<TokenId>{0, 5, 1}));
  EXPECT_EQ(tokenizer->encode("a＜s＞b", false), (std::vector<TokenId>{0, 1}));
}

TEST(Tokenizer, PrefixSpaceGoesBeforeEachPlainText) {
  Json json = small_tokenizer();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  json["model"]["vocab"]["\u0120"] = 6;
  const auto tokenizer = make(json);
  EXPECT_EQ(tokenizer->encode("a<s> b", false), (std::vector<TokenId>{6, 0, 4, 6, 1}));
}

TEST(Tokenizer, InvalidBytesCountAsReplacementCharacters) {
  const auto tokenizer = load_or_die(kDemo);
  EXPECT_EQ(tokenizer->encode("a\xFF\xE2\x82", false), tokenizer->encode("a\uFFFD\uFFFD", false));
}

TEST(Tokenizer, RefusesWhatItDoesNotKnowByName) {
  const auto expect = [](Json json,
                         const Json::json_pointer& where,
                         const Json& value,
                         StatusCode code,
                         const std::string& named) {
    json[where] = value;
    const Status status = refusal(json);
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
  };
  using P = Json::json_pointer;
  const Json good = small_tokenizer();
  const auto kind = [](const char* type) { return Json{{"type", type}}; };
  constexpr auto kUnsupported = StatusCode::kUnsupported;
  constexpr auto kCorruption = StatusCode::kCorruption;
  expect(good, P("/model/type"), "Unigram", kUnsupported, "Unigram");
  expect(good, P("/normalizer"), kind("Lowercase"), kUnsupported, "Lowercase");
  expect(good, P("/pre_tokenizer"), kind("BertPreTokenizer"), kUnsupported, "BertPreTokenizer");
  expect(good, P("/pre_tokenizer"), nullptr, kUnsupported, "ByteLevel");
  expect(good, P("/decoder"), kind("WordPiece"), kUnsupported, "WordPiece");
  expect(good, P("/decoder"), nullptr, kUnsupported, "decoder");
  expect(good, P("/post_processor"), kind("BertProcessing"), kUnsupported, "BertProcessing");
  expect(good, P("/model/byte_fallback"), true, kUnsupported, "byte_fallback");
  expect(
      good, P("/model/continuing_subword_prefix"), "##", kUnsupported, "continuing_subword_prefix");
  expect(good, P("/model/dropout"), 0.1, kUnsupported, "dropout");
  expect(good, P("/model/vocab"), 3, kCorruption, "vocab");
  expect(good, P("/model/vocab/a"), -1, kCorruption, "\"a\"");
  expect(good, P("/model/vocab/a"), 4'000'000'000U, kCorruption, "4000000000");
  expect(good, P("/model/vocab/a"), 1, kCorruption, "id 1");
  expect(good, P("/model/merges"), Json::array({"a"}), kCorruption, "merge \"a\"");
  expect(good, P("/model/merges"), Json::array({"a x"}), kCorruption, "merge 0");
  expect(good, P("/model/merges"), Json::array({"b c"}), kCorruption, "merge 0");
  expect(good, P("/model/merges"), Json::array({Json::array({"a"})}), kCorruption, "merge");
  expect(good, P("/added_tokens/1/id"), 4, kCorruption, "id 4");
  expect(good, P("/added_tokens/1/special"), "yes", kCorruption, "special");
  expect(
      good,
      P("/pre_tokenizer"),
      parse_json(R"({"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"})", "t").value(),
      StatusCode::kInvalidArgument,
      "(");
  expect(good,
         P("/pre_tokenizer"),
         parse_json(R"({"type":"Split","pattern":{"Regex":"a"},"behavior":"Odd"})", "t").value(),
         kCorruption,
         "Odd");
}

TEST(Tokenizer, RefusesWhatIsNoTokenizerFile) {
  EXPECT_EQ(Tokenizer::from_json("").status().code(), StatusCode::kCorruption);
  EXPECT_EQ(Tokenizer::from_json("[]").status().code(), StatusCode::kCorruption);
  EXPECT_EQ(Tokenizer::from_json("{}").status().code(), StatusCode::kCorruption);
  EXPECT_EQ(Tokenizer::load("/no/such/folder").status().code(), StatusCode::kNotFound);
  const std::string whole = small_tokenizer().dump();
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(Tokenizer::from_json(whole.substr(0, n)).is_ok()) << n;
  }
}

TEST(Tokenizer, SplitByAStringIsLiteral) {
  Json json = small_tokenizer();
  json["pre_tokenizer"] = parse_json(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"String": "a.\\E["}, "behavior": "Removed"},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})",
                                     "test")
                              .value();
  EXPECT_EQ(make(json)->encode("caa.\\E[bab", false), (std::vector<TokenId>{2, 0, 1, 3}));
}

// Letters, U+2581, "U+2581 a", bytes: the shape of a converted SentencePiece vocabulary.
Json small_spm_tokenizer() {
  return parse_json(R"({
    "added_tokens": [{"id": 5, "content": "<s>", "special": true, "normalized": false}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
    "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "<unk>",
      "vocab": {"<unk>": 0, "a": 1, "b": 2, "\u2581": 3, "\u2581a": 4, "<0xC3>": 6, "<0xA9>": 7},
      "merges": ["\u2581 a"]}})",
                    "test")
      .value();
}

TEST(Tokenizer, OneSpaceGoesInFrontAndComesOffAgain) {
  const auto tokenizer = make(small_spm_tokenizer());
  EXPECT_EQ(tokenizer->encode("a a", false), (std::vector<TokenId>{4, 4}));
  EXPECT_EQ(tokenizer->encode("a<s>a", false), (std::vector<TokenId>{4, 5, 4}));
  EXPECT_EQ(tokenizer->encode("\u00E9z", false), (std::vector<TokenId>{3, 6, 7, 0}));
  const std::vector<TokenId> ids = {5, 4, 4, 6, 7, 2};
  EXPECT_EQ(tokenizer->decode(ids, true), "a a\u00E9b");
  EXPECT_EQ(stream_text(tokenizer, ids, true), "a a\u00E9b");
  EXPECT_EQ(tokenizer->decode(ids, false), "<s> a a\u00E9b");  // the space is not at the front
  EXPECT_EQ(stream_text(tokenizer, ids, false), "<s> a a\u00E9b");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{3, 4}, true), " a");
  EXPECT_EQ(tokenizer->token_bytes(4), " a");
  EXPECT_EQ(tokenizer->find_token(" a"), 4U);
}

TEST(Tokenizer, MetaspaceMarksEveryTextOrTheFirst) {
  Json json = small_spm_tokenizer();
  json["normalizer"] = nullptr;
  json["decoder"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}};
  json["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"split", true}};
  const auto encoded = [&](const char* scheme, const std::string& text) {
    json["pre_tokenizer"]["prepend_scheme"] = scheme;
    return make(json)->encode(text, false);
  };
  EXPECT_EQ(encoded("always", "a<s>a a"), (std::vector<TokenId>{4, 5, 4, 4}));
  EXPECT_EQ(encoded("first", "a<s>a a"), (std::vector<TokenId>{4, 5, 1, 4}));
  EXPECT_EQ(encoded("never", "a<s>a a"), (std::vector<TokenId>{1, 5, 1, 4}));
  EXPECT_EQ(encoded("always", " a"), (std::vector<TokenId>{4}));
  EXPECT_EQ(make(json)->decode(std::vector<TokenId>{4, 4}, true), "a a");
}

TEST(Tokenizer, UnigramModels) {
  Json json = small_spm_tokenizer();
  json["model"] = parse_json(R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1],
    ["b", -2], ["\u2581", -3], ["\u2581ab", -5], ["ab", -4]]})",
                             "test")
                      .value();
  json["added_tokens"] = Json::array();
  const auto tokenizer = make(json);
  EXPECT_EQ(tokenizer->encode("ab ba", false), (std::vector<TokenId>{4, 3, 2, 1}));
  EXPECT_EQ(tokenizer->encode("z", false), (std::vector<TokenId>{3, 0}));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{4, 3, 2, 1}, true), "ab ba");
  json["model"]["unk_id"] = nullptr;
  EXPECT_EQ(refusal(json).code(), StatusCode::kUnsupported);
  json["model"]["unk_id"] = 6;
  EXPECT_EQ(refusal(json).code(), StatusCode::kUnsupported);
  json["model"]["unk_id"] = 0;
  json["model"]["vocab"][2] = Json::array({"b"});
  EXPECT_NE(refusal(json).message().find("entry 2"), std::string::npos);
}

TEST(Tokenizer, DecodersThatCannotBeStreamedAreRefused) {
  const auto expect = [](const char* decoders, const char* named) {
    Json json = small_spm_tokenizer();
    json["decoder"]["decoders"] = parse_json(decoders, "test").value();
    const Status status = refusal(json);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.to_string();
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
  };
  expect(R"([{"type": "Fuse"}, {"type": "ByteFallback"}])", "ByteFallback");
  expect(R"([{"type": "Strip", "content": " ", "start": 1, "stop": 0}])", "Strip");
  expect(R"([{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 0, "stop": 1}])",
         "Strip");
  expect(R"([{"type": "Replace", "pattern": {"Regex": "x"}, "content": ""}])", "string");
  expect(R"([{"type": "Replace", "pattern": {"String": "x"}, "content": "yy"}])", "longer");
  expect(R"([{"type": "BPEDecoder"}])", "BPEDecoder");
  expect(R"([{"type": "ByteLevel"}])", "ByteLevel");
}

TEST(Tokenizer, NormalizersThatBlowTextsUpAreRefused) {
  Json json = small_spm_tokenizer();
  Json step = json["normalizer"]["normalizers"][1];
  step["content"] = std::string(64, 'x');
  json["normalizer"]["normalizers"] = Json::array({step, step});
  EXPECT_TRUE(Tokenizer::from_json(json.dump()).is_ok());
  json["normalizer"]["normalizers"] = Json::array({step, step, step});
  EXPECT_EQ(refusal(json).code(), StatusCode::kUnsupported);
  step["content"] = std::string(65, 'x');
  json["normalizer"]["normalizers"] = Json::array({step});
  EXPECT_EQ(refusal(json).code(), StatusCode::kUnsupported);
  json["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAA"}};
  EXPECT_NE(refusal(json).message().find("base64"), std::string::npos);
}

TEST(Detokenizer, NeverEmitsHalfACharacter) {
  const auto tokenizer = load_or_die(kDemo);
  const std::string text = "naïve 東京 😀👩‍👩‍👧‍👦 \u0301x";
  const auto ids = tokenizer->encode(text, false);
  Detokenizer detokenizer(tokenizer, false);
  std::string out;
  for (const TokenId id : ids) {
    const std::string part = detokenizer.append(id);
    EXPECT_EQ(part.find("\uFFFD"), std::string::npos);
    out += part;
  }
  EXPECT_EQ(detokenizer.finish(), "");
  EXPECT_EQ(out, tokenizer->decode(ids, false));
}

TEST(Detokenizer, AnUnfinishedCharacterIsReplacedAtTheEnd) {
  const auto tokenizer = load_or_die(kDemo);
  const auto ids = tokenizer->encode("\u2603", false);  // no token of its own: several bytes
  ASSERT_GT(ids.size(), 1U);
  Detokenizer detokenizer(tokenizer, false);
  EXPECT_EQ(detokenizer.append(ids[0]), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.finish(), "");
  // A character that is broken off by another one.
  EXPECT_EQ(detokenizer.append(ids[0]), "");
  EXPECT_EQ(detokenizer.append(*tokenizer->find_token("a")), "\uFFFDa");
}

TEST(Detokenizer, AnySequenceOfIdsStreamsToWhatItDecodesTo) {
  const auto tokenizer = load_or_die(kDemo);
  uint32_t state = 1;
  for (int round = 0; round < 200; ++round) {
    std::vector<TokenId> ids;
    for (int i = 0; i < 50; ++i) {
      state = state * 1664525U + 1013904223U;
      // Single bytes (ids below 256) come often, so that characters break everywhere.
      const uint32_t limit = (state >> 8U) % 3 == 0 ? 4200 : 256;
      ids.push_back((state >> 12U) % limit);
    }
    ASSERT_EQ(stream_text(tokenizer, ids, true), tokenizer->decode(ids, true));
    ASSERT_EQ(stream_text(tokenizer, ids, false), tokenizer->decode(ids, false));
  }
}

}  // namespace
}  // namespace cairn
