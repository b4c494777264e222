// From the vocabulary of a GGUF file to a tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/json.h"
#include "formats/gguf_pre_tokenizers.h"
#include "formats/hf_from_gguf.h"

namespace cairn {
namespace {

// U+2581, which pieces with scores have for a space.
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// A piece is cut at every place, so the cost grows with the square of its length.
constexpr size_t kPieceBytesMax = 512;
constexpr size_t kMergesMax = 1 << 22;  // eight times the most of a published vocabulary

class TokenizerJsonWriter {
 public:
  explicit TokenizerJsonWriter(const GgufVocabulary& vocabulary) : vocabulary_(vocabulary) {}

  Result<std::string> run();

 private:
  Status check() const;
  bool is_filler(size_t id) const;
  bool is_added(size_t id) const;
  Status claim_texts();
  Json vocab() const;
  Json added_tokens() const;
  Result<Json> byte_level_merges() const;
  Result<Json> scored_merges() const;
  Status set_byte_level(const GgufPreTokenizer& pre, Json* json) const;
  Status set_scored(Json* json) const;
  Json post_processor(bool adds_bos) const;

  std::string text(uint32_t id) const { return std::string(vocabulary_.tokens[id]); }

  const GgufVocabulary& vocabulary_;
  // By text: the id that has it in the vocabulary. Ordinary tokens come before added ones.
  std::unordered_map<std::string_view, uint32_t> ids_;
};

Status TokenizerJsonWriter::check() const {
  if (!vocabulary_.is_scored() && vocabulary_.model != "gpt2") {
    return Status::unsupported(fmt::format(
        "tokenizer.ggml.model is {:?}; supported are llama and gpt2", vocabulary_.model));
  }
  if (vocabulary_.is_scored() && vocabulary_.scores.size() != vocabulary_.tokens.size()) {
    return Status::invalid_argument(
        fmt::format("tokenizer.ggml.scores has {} entries for {} tokens",
                    vocabulary_.scores.size(),
                    vocabulary_.tokens.size()));
  }
  return Status::ok();
}

// What fills a model's rows up where the tokenizer has no token.
bool TokenizerJsonWriter::is_filler(size_t id) const {
  return vocabulary_.type_of(id) == GgufVocabulary::kUnused &&
         vocabulary_.tokens[id] == fmt::format("[PAD{}]", id);
}

bool TokenizerJsonWriter::is_added(size_t id) const {
  const int32_t type = vocabulary_.type_of(id);
  return type == GgufVocabulary::kControl || type == GgufVocabulary::kUnknown ||
         type == GgufVocabulary::kUserDefined;
}

Status TokenizerJsonWriter::claim_texts() {
  ids_.reserve(vocabulary_.tokens.size());
  for (const bool added : {false, true}) {
    for (size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
      if (is_added(id) != added || is_filler(id)) continue;
      const std::string_view token = vocabulary_.tokens[id];
      if (!is_utf8(token)) {
        return Status::unsupported(
            fmt::format("token {} is not UTF-8, which a tokenizer.json has to be", id));
      }
      const bool is_new = ids_.emplace(token, static_cast<uint32_t>(id)).second;
      if (!is_new && !added) {
        return Status::unsupported(
            fmt::format("token {} is spelt {:?} like token {}; a tokenizer.json has no place for "
                        "the second",
                        id,
                        token,
                        ids_[token]));
      }
    }
  }
  return Status::ok();
}

Json TokenizerJsonWriter::vocab() const {
  // Straight into the object's list: a look-up for each key would take quadratic time.
  Json::object_t entries;
  entries.reserve(ids_.size());
  for (size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
    const auto at = ids_.find(vocabulary_.tokens[id]);
    if (at != ids_.end() && at->second == id) entries.emplace_back(std::string(at->first), id);
  }
  return entries;
}

Json TokenizerJsonWriter::added_tokens() const {
  Json list = Json::array();
  for (size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
    if (!is_added(id)) continue;
    list.push_back({{"id", id},
                    {"content", vocabulary_.tokens[id]},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", vocabulary_.type_of(id) != GgufVocabulary::kUserDefined}});
  }
  return list;
}

Result<Json> TokenizerJsonWriter::byte_level_merges() const {
  Json merges = Json::array();
  for (const std::string_view line : vocabulary_.merges) {
    const size_t space = line.find(' ', 1);
    if (line.empty() || space == std::string_view::npos || !is_utf8(line)) {
      return Status::invalid_argument(fmt::format(
          "tokenizer.ggml.merges: entry {} is not two tokens with a space between", merges.size()));
    }
    merges.push_back(Json::array({line.substr(0, space), line.substr(space + 1)}));
  }
  return merges;
}

// Two pieces merge when their texts together are a piece, the one with the best score first.
Result<Json> TokenizerJsonWriter::scored_merges() const {
  struct Merge {
    std::string_view left;
    std::string_view right;
    float score = 0;
  };

  std::vector<Merge> merges;
  const auto joins = [&](std::string_view part) {
    const auto at = ids_.find(part);
    if (at == ids_.end()) return false;
    const int32_t type = vocabulary_.type_of(at->second);
    return type != GgufVocabulary::kByte && type != GgufVocabulary::kControl &&
           type != GgufVocabulary::kUnknown;
  };
  for (size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
    const std::string_view piece = vocabulary_.tokens[id];
    if (is_filler(id) || !joins(piece) || ids_.at(piece) != id) continue;
    const float score = vocabulary_.scores[id];
    if (piece.size() > kPieceBytesMax || std::isnan(score)) {
      return Status::unsupported(fmt::format(
          "token {} has {} bytes and score {}; supported are pieces of at most {} bytes "
          "with a number",
          id,
          piece.size(),
          score,
          kPieceBytesMax));
    }
    for (size_t n = 1; n < piece.size(); ++n) {
      const bool is_inside = (static_cast<unsigned char>(piece[n]) & 0xC0U) == 0x80U;
      const std::string_view left = piece.substr(0, n);
      const std::string_view right = piece.substr(n);
      if (!is_inside && joins(left) && joins(right)) merges.push_back({left, right, score});
    }
    if (merges.size() > kMergesMax) {
      return Status::unsupported(
          fmt::format("the scores imply more than {} merges, which is no vocabulary", kMergesMax));
    }
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return a.score > b.score;
  });
  Json list = Json::array();
  for (const Merge& merge : merges) list.push_back(Json::array({merge.left, merge.right}));
  return list;
}

Json TokenizerJsonWriter::post_processor(bool adds_bos) const {
  Json single = Json::array();
  Json pair = Json::array();
  Json special = Json::object();
  const auto add_token = [&](const std::optional<uint32_t>& id, bool wanted) {
    if (!id || !wanted) return;
    const std::string name = text(*id);
    single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
    pair.push_back(single.back());
    special[name] = {{"id", name}, {"ids", Json::array({*id})}, {"tokens", Json::array({name})}};
  };
  const auto add_text = [](Json* to, const char* which, int type) {
    to->push_back({{"Sequence", {{"id", which}, {"type_id", type}}}});
  };
  add_token(vocabulary_.bos_token_id, vocabulary_.add_bos_token.value_or(adds_bos));
  add_text(&single, "A", 0);
  add_text(&pair, "A", 0);
  add_text(&pair, "B", 1);
  add_token(vocabulary_.eos_token_id, vocabulary_.add_eos_token.value_or(false));
  if (special.empty()) return nullptr;
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(special)}};
}

Status TokenizerJsonWriter::set_byte_level(const GgufPreTokenizer& pre, Json* json) const {
  if (vocabulary_.add_space_prefix.value_or(false)) {
    return Status::unsupported(
        "tokenizer.ggml.add_space_prefix is true for a byte-level vocabulary, whose splits leave "
        "no place for it in a tokenizer.json");
  }
  Json& root = *json;
  if (pre.composes) root["normalizer"] = {{"type", "NFC"}};
  Json steps = Json::array();
  for (const std::string_view pattern : pre.splits) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", false}});
  root["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  root["post_processor"] = post_processor(pre.adds_bos);
  root["decoder"] = {{"type", "ByteLevel"},
                     {"add_prefix_space", true},
                     {"trim_offsets", true},
                     {"use_regex", true}};
  Json& model = root["model"];
  model["ignore_merges"] = pre.ignore_merges;
  model["vocab"] = vocab();
  CAIRN_ASSIGN_OR_RETURN(model["merges"], byte_level_merges());
  return Status::ok();
}

Status TokenizerJsonWriter::set_scored(Json* json) const {
  const bool adds_space = vocabulary_.add_space_prefix.value_or(true);
  Json before = Json::array();
  if (adds_space) before.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  before.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}});
  Json after =
      Json::array({{{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}});
  if (adds_space) {
    after.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  Json& root = *json;
  root["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(before)}};
  root["post_processor"] = post_processor(true);
  root["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(after)}};
  Json& model = root["model"];
  if (vocabulary_.unknown_token_id) model["unk_token"] = text(*vocabulary_.unknown_token_id);
  model["fuse_unk"] = true;
  model["byte_fallback"] = true;
  model["vocab"] = vocab();
  CAIRN_ASSIGN_OR_RETURN(model["merges"], scored_merges());
  return Status::ok();
}

Result<std::string> TokenizerJsonWriter::run() {
  CAIRN_RETURN_IF_ERROR(check());
  CAIRN_RETURN_IF_ERROR(claim_texts());
  Json root = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", added_tokens()},
               {"normalizer", nullptr},
               {"pre_tokenizer", nullptr},
               {"post_processor", nullptr},
               {"decoder", nullptr}};
  root["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"ignore_merges", false}};
  if (vocabulary_.is_scored()) {
    CAIRN_RETURN_IF_ERROR(set_scored(&root));
  } else {
    CAIRN_ASSIGN_OR_RETURN(const GgufPreTokenizer pre, find_gguf_pre_tokenizer(vocabulary_.pre));
    CAIRN_RETURN_IF_ERROR(set_byte_level(pre, &root));
  }
  return dump_json(root) + "\n";
}

}  // namespace

Result<std::string> tokenizer_json_of(const GgufVocabulary& vocabulary) {
  return TokenizerJsonWriter(vocabulary).run();
}

}  // namespace cairn
