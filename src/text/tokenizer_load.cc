// Reads tokenizer.json. Nothing in it is trusted: ids and sizes are bounded by the file's own size,
// and every kind that Cairn does not implement is named in the error.
#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/coding.h"
#include "base/file_system.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

namespace cairn {

namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr uint64_t kFileBytesMax = uint64_t{256} << 20U;

// The split that a ByteLevel pre-tokenizer brings along (Radford et al. 2019).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Ids may leave gaps, but a file cannot ask for much more memory than it has entries.
constexpr uint64_t kIdSlack = 65'536;

Status damaged(std::string what) {
  return Status::corruption("tokenizer.json: " + std::move(what));
}

Status unsupported(std::string what) {
  return Status::unsupported("tokenizer.json: " + std::move(what));
}

// The member, or nothing when it is missing or null.
std::optional<element> member(const element& parent, std::string_view key) {
  element value;
  if (parent[key].get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

Result<std::string_view> text_member(const element& parent, std::string_view key) {
  std::string_view value;
  if (parent[key].get(value) != simdjson::SUCCESS) {
    return damaged(fmt::format("\"{}\" is missing or not a string", key));
  }
  return value;
}

Result<bool> bool_member(const element& parent, std::string_view key, bool when_missing) {
  const auto value = member(parent, key);
  if (!value) return when_missing;
  bool flag = false;
  if (value->get(flag) != simdjson::SUCCESS) {
    return damaged(fmt::format("\"{}\" is not true or false", key));
  }
  return flag;
}

Result<array> array_member(const element& parent, std::string_view key) {
  array value;
  if (parent[key].get(value) != simdjson::SUCCESS) {
    return damaged(fmt::format("\"{}\" is missing or not a list", key));
  }
  return value;
}

// Everything that enters the digest, one length-prefixed field after another.
class Fingerprint {
 public:
  void text(std::string_view value) { bytes_.text(value); }

  void number(uint64_t value) { bytes_.u64(value); }

  void numbers(const std::vector<TokenId>& values) {
    number(values.size());
    for (const TokenId value : values) bytes_.u32(value);
  }

  Digest finish() { return sha256(bytes_.view()); }

 private:
  ByteWriter bytes_;
};

}  // namespace

class TokenizerLoader {
 public:
  static Result<std::shared_ptr<const Tokenizer>> load(const element& root) {
    TokenizerLoader loader;
    loader.fingerprint_.text("cairn tokenizer 1");
    return loader.run(root);
  }

 private:
  using Parts = Tokenizer::Parts;

  struct Steps {
    std::vector<Split> splits;
    bool is_byte_level = false;
    bool add_prefix_space = false;
  };

  Result<std::shared_ptr<const Tokenizer>> run(const element& root);
  Status check_model(const element& model);
  Status read_vocabulary(const element& root, const element& model);
  Result<std::vector<std::pair<std::string_view, TokenId>>> vocabulary_entries(
      const element& model);
  Status read_added_tokens(const element& root, std::vector<AddedToken>& out);
  Result<AddedToken> read_added_token(const element& entry);
  Status place_token(std::string_view spelling, TokenId id);
  Status place_added_token(const AddedToken& token);
  Result<MergeTable> read_merges(const element& model, const TokenTable& table);
  Status read_merge(const element& entry, std::string_view& left, std::string_view& right) const;
  Result<TokenId> find_half(const TokenTable& table,
                            std::string_view bytes,
                            size_t merge_idx) const;
  Status read_normalizer(const element& node, std::vector<NormalForm>& out);
  Status read_pre_tokenizer(const element& node, Steps& steps);
  Status read_split(const element& node, Steps& steps);
  Status add_split(std::string_view pattern,
                   SplitBehavior behavior,
                   bool is_inverted,
                   Steps& steps);
  Status check_decoder(const element& root);
  Status read_post_processor(const element& node,
                             std::vector<TokenId>& prefix,
                             std::vector<TokenId>& suffix);
  Status read_template(const element& node,
                       std::vector<TokenId>& prefix,
                       std::vector<TokenId>& suffix);
  AddedTokenFinder make_finder(bool for_normalized, const Normalizer& normalizer) const;

  Fingerprint fingerprint_;
  std::unique_ptr<std::string> arena_ = std::make_unique<std::string>();
  std::vector<Parts::Token> tokens_;
  std::vector<bool> is_mergeable_;  // by id: in the vocabulary and spelt in the byte alphabet
  std::vector<AddedToken> added_;
  size_t n_entries_ = 0;
};

Result<std::shared_ptr<const Tokenizer>> TokenizerLoader::run(const element& root) {
  const auto model = member(root, "model");
  if (!model) return damaged("\"model\" is missing");
  CAIRN_RETURN_IF_ERROR(check_model(*model));
  std::vector<NormalForm> forms;
  if (const auto node = member(root, "normalizer")) {
    CAIRN_RETURN_IF_ERROR(read_normalizer(*node, forms));
  }
  Steps steps;
  if (const auto node = member(root, "pre_tokenizer")) {
    CAIRN_RETURN_IF_ERROR(read_pre_tokenizer(*node, steps));
  }
  if (!steps.is_byte_level) {
    return unsupported(
        "the pre-tokenizer has no ByteLevel step; only byte-level vocabularies are supported");
  }
  CAIRN_RETURN_IF_ERROR(check_decoder(root));
  CAIRN_RETURN_IF_ERROR(read_vocabulary(root, *model));
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  if (const auto node = member(root, "post_processor")) {
    CAIRN_RETURN_IF_ERROR(read_post_processor(*node, prefix, suffix));
  }
  fingerprint_.numbers(prefix);
  fingerprint_.numbers(suffix);

  TokenTable table(n_entries_);
  for (TokenId id = 0; id < tokens_.size(); ++id) {
    if (!is_mergeable_[id] || tokens_[id].bytes.empty()) continue;
    if (!table.insert(tokens_[id].bytes, id)) {
      return damaged(fmt::format("id {} spells the same bytes as another id", id));
    }
  }
  CAIRN_ASSIGN_OR_RETURN(MergeTable merges, read_merges(*model, table));
  Bpe::Options options;
  CAIRN_ASSIGN_OR_RETURN(options.ignore_merges, bool_member(*model, "ignore_merges", false));
  fingerprint_.number(options.ignore_merges ? 1 : 0);
  if (const auto node = member(*model, "unk_token")) {
    std::string_view unknown;
    if (node->get(unknown) != simdjson::SUCCESS) return damaged("\"unk_token\" is not a string");
    std::string bytes;
    append_byte_level(bytes, unknown);
    options.unknown = table.find(bytes);
    fingerprint_.text(unknown);
  }
  Normalizer normalizer(std::move(forms));
  AddedTokenFinder raw_finder = make_finder(false, normalizer);
  AddedTokenFinder normalized_finder = make_finder(true, normalizer);
  auto parts = std::make_unique<const Parts>(
      Parts{std::move(arena_),
            std::move(tokens_),
            std::move(added_),
            std::move(raw_finder),
            std::move(normalized_finder),
            std::move(normalizer),
            PreTokenizer(std::move(steps.splits), steps.add_prefix_space),
            Bpe(std::move(table), std::move(merges), options),
            std::move(prefix),
            std::move(suffix),
            fingerprint_.finish()});
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
}

Status TokenizerLoader::check_model(const element& model) {
  if (const auto type = member(model, "type")) {
    std::string_view name;
    if (type->get(name) != simdjson::SUCCESS)
      return damaged("the model's \"type\" is not a string");
    if (name != "BPE") {
      return unsupported(fmt::format("model of type {}; only byte-level BPE is supported", name));
    }
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto node = member(model, affix);
    std::string_view value;
    if (node && (node->get(value) != simdjson::SUCCESS || !value.empty())) {
      return unsupported(
          fmt::format("\"{}\" is set; only byte-level BPE without it is supported", affix));
    }
  }
  CAIRN_ASSIGN_OR_RETURN(const bool byte_fallback, bool_member(model, "byte_fallback", false));
  if (byte_fallback) {
    return unsupported("\"byte_fallback\" is set; only byte-level BPE without it is supported");
  }
  const auto dropout = member(model, "dropout");
  double rate = 0;
  if (dropout && (dropout->get(rate) != simdjson::SUCCESS || rate != 0)) {
    return unsupported("\"dropout\" is set: such a tokenizer gives another answer each time");
  }
  return Status::ok();
}

Result<std::vector<std::pair<std::string_view, TokenId>>> TokenizerLoader::vocabulary_entries(
    const element& model) {
  object vocab;
  if (model["vocab"].get(vocab) != simdjson::SUCCESS) {
    return damaged("\"model.vocab\" is missing or not a mapping");
  }
  std::vector<std::pair<std::string_view, TokenId>> entries;
  for (const auto field : vocab) {
    uint64_t id = 0;
    if (field.value.get(id) != simdjson::SUCCESS || id > UINT32_MAX) {
      return damaged(
          fmt::format("the id of vocabulary entry \"{}\" is no number below 2^32", field.key));
    }
    entries.emplace_back(field.key, static_cast<TokenId>(id));
  }
  return entries;
}

// Fills tokens_ and arena_: the vocabulary first, then the added tokens, which win over it.
Status TokenizerLoader::read_vocabulary(const element& root, const element& model) {
  CAIRN_ASSIGN_OR_RETURN(const auto entries, vocabulary_entries(model));
  CAIRN_RETURN_IF_ERROR(read_added_tokens(root, added_));
  n_entries_ = entries.size() + added_.size();
  uint64_t id_max = 0;
  size_t n_bytes = 0;
  for (const auto& [spelling, id] : entries) {
    id_max = std::max<uint64_t>(id_max, id);
    n_bytes += spelling.size();
  }
  for (const AddedToken& token : added_) {
    id_max = std::max<uint64_t>(id_max, token.id);
    n_bytes += token.content.size();
  }
  if (n_entries_ == 0) return damaged("the vocabulary is empty");
  if (id_max >= 2 * uint64_t{n_entries_} + kIdSlack) {
    return damaged(
        fmt::format("the largest id is {}, far beyond the {} entries", id_max, n_entries_));
  }
  // Spelling in the byte alphabet never takes fewer bytes than the token has, so views stay valid.
  arena_->reserve(n_bytes);
  tokens_.resize(static_cast<size_t>(id_max) + 1);
  is_mergeable_.resize(tokens_.size());
  for (const auto& [spelling, id] : entries) CAIRN_RETURN_IF_ERROR(place_token(spelling, id));
  for (const AddedToken& token : added_) CAIRN_RETURN_IF_ERROR(place_added_token(token));
  fingerprint_.number(tokens_.size());
  for (const Parts::Token& token : tokens_) fingerprint_.text(token.bytes);
  return Status::ok();
}

Status TokenizerLoader::place_token(std::string_view spelling, TokenId id) {
  Parts::Token& token = tokens_[id];
  if (token.is_known) return damaged(fmt::format("id {} is given to two vocabulary entries", id));
  const size_t begin = arena_->size();
  is_mergeable_[id] = append_byte_level(*arena_, spelling);
  // A special token may be spelt with characters outside the alphabet: it stands for itself.
  if (!is_mergeable_[id]) *arena_ += spelling;
  token.bytes = std::string_view(*arena_).substr(begin);
  token.is_known = true;
  return Status::ok();
}

Status TokenizerLoader::place_added_token(const AddedToken& added) {
  Parts::Token& token = tokens_[added.id];
  if (token.is_added) {
    return damaged(fmt::format("id {} is given to two added tokens", added.id));
  }
  // The byte-level decoder sees added tokens too, so their content goes through the alphabet.
  const size_t begin = arena_->size();
  if (!append_byte_level(*arena_, added.content)) *arena_ += added.content;
  token.bytes = std::string_view(*arena_).substr(begin);
  token.is_known = true;
  token.is_added = true;
  token.is_special = added.is_special;
  return Status::ok();
}

Status TokenizerLoader::read_added_tokens(const element& root, std::vector<AddedToken>& out) {
  if (!member(root, "added_tokens")) return Status::ok();
  CAIRN_ASSIGN_OR_RETURN(const array entries, array_member(root, "added_tokens"));
  for (const element entry : entries) {
    CAIRN_ASSIGN_OR_RETURN(AddedToken token, read_added_token(entry));
    fingerprint_.text(token.content);
    fingerprint_.number(token.id);
    const unsigned flags = (token.is_special ? 1U : 0U) | (token.is_normalized ? 2U : 0U) |
                           (token.is_single_word ? 4U : 0U) | (token.strips_left ? 8U : 0U) |
                           (token.strips_right ? 16U : 0U);
    fingerprint_.number(flags);
    out.push_back(std::move(token));
  }
  return Status::ok();
}

Result<AddedToken> TokenizerLoader::read_added_token(const element& entry) {
  AddedToken token;
  CAIRN_ASSIGN_OR_RETURN(const std::string_view content, text_member(entry, "content"));
  token.content = content;
  uint64_t id = 0;
  if (entry["id"].get(id) != simdjson::SUCCESS || id > UINT32_MAX) {
    return damaged(fmt::format("the id of added token \"{}\" is no number below 2^32", content));
  }
  token.id = static_cast<TokenId>(id);
  CAIRN_ASSIGN_OR_RETURN(token.is_special, bool_member(entry, "special", false));
  CAIRN_ASSIGN_OR_RETURN(token.is_normalized, bool_member(entry, "normalized", !token.is_special));
  CAIRN_ASSIGN_OR_RETURN(token.is_single_word, bool_member(entry, "single_word", false));
  CAIRN_ASSIGN_OR_RETURN(token.strips_left, bool_member(entry, "lstrip", false));
  CAIRN_ASSIGN_OR_RETURN(token.strips_right, bool_member(entry, "rstrip", false));
  return token;
}

Status TokenizerLoader::read_merge(const element& entry,
                                   std::string_view& left,
                                   std::string_view& right) const {
  std::string_view line;
  if (entry.get(line) == simdjson::SUCCESS) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      return damaged(fmt::format("merge \"{}\" is not two tokens with a space between", line));
    }
    left = line.substr(0, space);
    right = line.substr(space + 1);
    return Status::ok();
  }
  array pair;
  if (entry.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
      pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) {
    return damaged("a merge is neither \"left right\" nor [left, right]");
  }
  return Status::ok();
}

Result<TokenId> TokenizerLoader::find_half(const TokenTable& table,
                                           std::string_view bytes,
                                           size_t merge_idx) const {
  if (const auto id = table.find(bytes)) return *id;
  return damaged(fmt::format("merge {} names a token that is not in the vocabulary", merge_idx));
}

Result<MergeTable> TokenizerLoader::read_merges(const element& model, const TokenTable& table) {
  CAIRN_ASSIGN_OR_RETURN(const array entries, array_member(model, "merges"));
  // simdjson counts up to 2^24 - 1 and saturates there; beyond, no vocabulary is known.
  const size_t n_merges = entries.size();
  if (n_merges >= 0xFFFFFF) return damaged("more than 16 million merges");
  MergeTable merges(n_merges);
  fingerprint_.number(n_merges);
  std::string bytes;
  uint32_t rank = 0;
  for (const element entry : entries) {
    std::string_view left;
    std::string_view right;
    CAIRN_RETURN_IF_ERROR(read_merge(entry, left, right));
    bytes.clear();
    const bool left_fits = append_byte_level(bytes, left);
    const size_t n_left = bytes.size();
    // A merge of characters outside the byte alphabet can never apply to byte-level text.
    if (left_fits && append_byte_level(bytes, right)) {
      const std::string_view all = bytes;
      CAIRN_ASSIGN_OR_RETURN(const TokenId left_id, find_half(table, all.substr(0, n_left), rank));
      CAIRN_ASSIGN_OR_RETURN(const TokenId right_id, find_half(table, all.substr(n_left), rank));
      CAIRN_ASSIGN_OR_RETURN(const TokenId merged, find_half(table, all, rank));
      merges.insert(left_id, right_id, {rank, merged});
      fingerprint_.number((uint64_t{left_id} << 32U) | right_id);
    }
    ++rank;
  }
  return merges;
}

Status TokenizerLoader::read_normalizer(const element& node, std::vector<NormalForm>& out) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view type, text_member(node, "type"));
  if (type == "Sequence") {
    CAIRN_ASSIGN_OR_RETURN(const array steps, array_member(node, "normalizers"));
    for (const element step : steps) CAIRN_RETURN_IF_ERROR(read_normalizer(step, out));
    return Status::ok();
  }
  constexpr std::pair<std::string_view, NormalForm> kForms[] = {{"NFC", NormalForm::kNfc},
                                                                {"NFD", NormalForm::kNfd},
                                                                {"NFKC", NormalForm::kNfkc},
                                                                {"NFKD", NormalForm::kNfkd}};
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    out.push_back(form);
    fingerprint_.text(type);
    return Status::ok();
  }
  return unsupported(fmt::format(
      "normalizer of type {}; supported are NFC, NFD, NFKC, NFKD and sequences of them", type));
}

Status TokenizerLoader::read_pre_tokenizer(const element& node, Steps& steps) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view type, text_member(node, "type"));
  if (type == "Sequence") {
    CAIRN_ASSIGN_OR_RETURN(const array nodes, array_member(node, "pretokenizers"));
    for (const element step : nodes) CAIRN_RETURN_IF_ERROR(read_pre_tokenizer(step, steps));
    return Status::ok();
  }
  if (steps.is_byte_level) {
    return unsupported(fmt::format("pre-tokenizer {} comes after ByteLevel", type));
  }
  if (type == "Split") return read_split(node, steps);
  if (type == "Digits") {
    CAIRN_ASSIGN_OR_RETURN(const bool one_by_one, bool_member(node, "individual_digits", false));
    return add_split(
        "\\p{N}", one_by_one ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false, steps);
  }
  if (type != "ByteLevel") {
    return unsupported(
        fmt::format("pre-tokenizer of type {}; supported are Split, Digits and ByteLevel", type));
  }
  CAIRN_ASSIGN_OR_RETURN(const bool add_prefix_space, bool_member(node, "add_prefix_space", true));
  CAIRN_ASSIGN_OR_RETURN(const bool use_regex, bool_member(node, "use_regex", true));
  if (add_prefix_space && !steps.splits.empty()) {
    return unsupported("ByteLevel adds a prefix space to every piece of an earlier split");
  }
  steps.is_byte_level = true;
  steps.add_prefix_space = add_prefix_space;
  fingerprint_.text(add_prefix_space ? "prefix space" : "no prefix space");
  if (!use_regex) return Status::ok();
  return add_split(kGpt2Pattern, SplitBehavior::kIsolated, false, steps);
}

Status TokenizerLoader::read_split(const element& node, Steps& steps) {
  constexpr std::pair<std::string_view, SplitBehavior> kBehaviors[] = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  CAIRN_ASSIGN_OR_RETURN(const std::string_view name, text_member(node, "behavior"));
  CAIRN_ASSIGN_OR_RETURN(const bool is_inverted, bool_member(node, "invert", false));
  const auto* behavior = std::find_if(std::begin(kBehaviors),
                                      std::end(kBehaviors),
                                      [name](const auto& known) { return known.first == name; });
  if (behavior == std::end(kBehaviors)) {
    return damaged(fmt::format("a Split's behavior is \"{}\", which is none", name));
  }
  const auto pattern = member(node, "pattern");
  if (!pattern) return damaged("a Split has no pattern");
  std::string_view text;
  if ((*pattern)["Regex"].get(text) == simdjson::SUCCESS) {
    return add_split(text, behavior->second, is_inverted, steps);
  }
  if ((*pattern)["String"].get(text) != simdjson::SUCCESS) {
    return damaged("a Split's pattern is neither {\"Regex\": ...} nor {\"String\": ...}");
  }
  // \Q...\E quotes everything but its own end, which is written outside.
  std::string quoted = "\\Q";
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = text.find("\\E", pos);
    if (end == std::string_view::npos) {
      quoted += text.substr(pos);
      break;
    }
    quoted += text.substr(pos, end - pos);
    quoted += "\\E\\\\E\\Q";
    pos = end + 2;
  }
  quoted += "\\E";
  return add_split(quoted, behavior->second, is_inverted, steps);
}

Status TokenizerLoader::add_split(std::string_view pattern,
                                  SplitBehavior behavior,
                                  bool is_inverted,
                                  Steps& steps) {
  auto regex = Regex::compile(pattern);
  if (!regex.is_ok()) return regex.status().with_prefix("tokenizer.json: pre-tokenizer");
  steps.splits.push_back({std::move(regex).value(), behavior, is_inverted});
  fingerprint_.text(pattern);
  fingerprint_.number(static_cast<uint64_t>(behavior) * 2 + (is_inverted ? 1 : 0));
  return Status::ok();
}

Status TokenizerLoader::check_decoder(const element& root) {
  const auto node = member(root, "decoder");
  if (!node) return unsupported("no decoder; only the ByteLevel decoder is supported");
  CAIRN_ASSIGN_OR_RETURN(std::string_view type, text_member(*node, "type"));
  if (type == "Sequence") {
    CAIRN_ASSIGN_OR_RETURN(const array steps, array_member(*node, "decoders"));
    if (steps.size() == 1) {
      CAIRN_ASSIGN_OR_RETURN(type, text_member(steps.at(0).value_unsafe(), "type"));
    }
  }
  if (type == "ByteLevel") return Status::ok();
  return unsupported(fmt::format("decoder of type {}; only ByteLevel is supported", type));
}

Status TokenizerLoader::read_post_processor(const element& node,
                                            std::vector<TokenId>& prefix,
                                            std::vector<TokenId>& suffix) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view type, text_member(node, "type"));
  if (type == "ByteLevel") return Status::ok();  // moves offsets only
  if (type == "TemplateProcessing") return read_template(node, prefix, suffix);
  if (type != "Sequence") {
    return unsupported(fmt::format(
        "post-processor of type {}; supported are ByteLevel, TemplateProcessing and sequences",
        type));
  }
  CAIRN_ASSIGN_OR_RETURN(const array steps, array_member(node, "processors"));
  for (const element step : steps) {
    CAIRN_RETURN_IF_ERROR(read_post_processor(step, prefix, suffix));
  }
  return Status::ok();
}

Status TokenizerLoader::read_template(const element& node,
                                      std::vector<TokenId>& prefix,
                                      std::vector<TokenId>& suffix) {
  CAIRN_ASSIGN_OR_RETURN(const array pieces, array_member(node, "single"));
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  bool has_text = false;
  for (const element piece : pieces) {
    if (member(piece, "Sequence")) {
      if (has_text) return unsupported("the post-processor repeats the text");
      has_text = true;
      continue;
    }
    const auto special = member(piece, "SpecialToken");
    if (!special) return damaged("a post-processor piece is neither SpecialToken nor Sequence");
    CAIRN_ASSIGN_OR_RETURN(const std::string_view name, text_member(*special, "id"));
    const auto known = member(node, "special_tokens");
    const auto token = known ? member(*known, name) : std::nullopt;
    if (!token) return damaged(fmt::format("post-processor token \"{}\" is not declared", name));
    CAIRN_ASSIGN_OR_RETURN(const array ids, array_member(*token, "ids"));
    for (const element entry : ids) {
      uint64_t id = 0;
      if (entry.get(id) != simdjson::SUCCESS || id >= tokens_.size() || !tokens_[id].is_known) {
        return damaged(fmt::format("post-processor token \"{}\" has an unknown id", name));
      }
      (has_text ? after : before).push_back(static_cast<TokenId>(id));
    }
  }
  if (!has_text) return unsupported("the post-processor leaves the text out");
  prefix.insert(prefix.begin(), before.begin(), before.end());
  suffix.insert(suffix.end(), after.begin(), after.end());
  return Status::ok();
}

AddedTokenFinder TokenizerLoader::make_finder(bool for_normalized,
                                              const Normalizer& normalizer) const {
  std::vector<AddedToken> wanted;
  // Special tokens come first, so that they win over others of the same content.
  for (const bool special : {true, false}) {
    for (const AddedToken& token : added_) {
      if (token.is_normalized != for_normalized || token.is_special != special) continue;
      wanted.push_back(token);
      if (!for_normalized) continue;
      std::string scratch;
      wanted.back().content = std::string(normalizer.normalize(token.content, scratch));
    }
  }
  return AddedTokenFinder(std::move(wanted));
}

namespace {

Result<std::shared_ptr<const Tokenizer>> load_padded(const simdjson::padded_string& json) {
  simdjson::dom::parser parser;
  element root;
  if (const auto error = parser.parse(json).get(root); error != simdjson::SUCCESS) {
    return damaged(fmt::format("not JSON: {}", simdjson::error_message(error)));
  }
  if (!root.is_object()) return damaged("not a mapping");
  return TokenizerLoader::load(root);
}

// Straight into the padded memory that simdjson wants: a vocabulary is 10 MB and more.
Result<simdjson::padded_string> read_padded(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const auto file, posix_file_system().open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileStat stat, file->stat());
  if (stat.size_bytes > kFileBytesMax) {
    return Status::invalid_argument(
        fmt::format("{}: {} bytes, at most {} are read", path, stat.size_bytes, kFileBytesMax));
  }
  simdjson::padded_string json(static_cast<size_t>(stat.size_bytes));
  CAIRN_RETURN_IF_ERROR(
      file->read_at(0, std::as_writable_bytes(std::span<char>(json.data(), json.size()))));
  return json;
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& model_dir) {
  CAIRN_ASSIGN_OR_RETURN(const simdjson::padded_string json,
                         read_padded(model_dir + "/tokenizer.json"));
  auto tokenizer = load_padded(json);
  if (!tokenizer.is_ok()) return tokenizer.status().with_prefix(model_dir);
  return tokenizer;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json) {
  return load_padded(simdjson::padded_string(tokenizer_json));
}

}  // namespace cairn
