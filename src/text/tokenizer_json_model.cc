// tokenizer.json: vocabulary, added tokens, merges and scores.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "text/byte_level.h"
#include "text/tokenizer_json.h"

namespace cairn::tokenizer_json {

namespace {

// What a character without a token costs more than the worst token (SentencePiece's constant).
constexpr double kUnknownPenalty = 10;

struct Entry {
  std::string_view spelling;
  TokenId id = 0;
};

class ModelReader {
 public:
  ModelReader(const element& root,
              const element& model,
              const Spelling& spelling,
              TokenizerBuilder& builder)
      : root_(root), model_(model), spelling_(spelling), builder_(builder) {}

  Status read_bpe();
  Status read_unigram();

 private:
  Status check_bpe();
  Status read_entries();
  Status read_scored_entries();
  Result<std::vector<AddedToken>> read_added_tokens();
  Result<AddedToken> read_added_token(const element& entry);
  Status place_tokens();
  Result<TokenTable> make_table();
  std::optional<std::string_view> key_of(std::string_view spelling, std::string& scratch) const;
  Result<MergeTable> read_merges(const TokenTable& table, JoinFilter* joins);
  Status read_merge(const element& entry, std::string_view& left, std::string_view& right) const;
  Result<TokenId> find_half(const TokenTable& table, std::string_view key, size_t merge_idx) const;
  Result<std::optional<TokenId>> read_unknown(const TokenTable& table);

  const element& root_;
  const element& model_;
  const Spelling& spelling_;
  TokenizerBuilder& builder_;
  std::vector<Entry> entries_;
  std::vector<double> scores_;  // of a unigram model
  double score_min_ = 0;
};

Status ModelReader::check_bpe() {
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto node = member(model_, affix);
    std::string_view value;
    if (node && (node->get(value) != simdjson::SUCCESS || !value.empty())) {
      return builder_.unsupported(
          fmt::format("\"{}\" is set; only BPE without it is supported", affix));
    }
  }
  const auto dropout = member(model_, "dropout");
  double rate = 0;
  if (dropout && (dropout->get(rate) != simdjson::SUCCESS || rate != 0)) {
    return builder_.unsupported(
        "\"dropout\" is set: such a tokenizer gives another answer each time");
  }
  return Status::ok();
}

Status ModelReader::read_entries() {
  object vocab;
  if (model_["vocab"].get(vocab) != simdjson::SUCCESS) {
    return builder_.damaged("\"model.vocab\" is missing or not a mapping");
  }
  for (const auto field : vocab) {
    uint64_t id = 0;
    if (field.value.get(id) != simdjson::SUCCESS || id > UINT32_MAX) {
      return builder_.damaged(
          fmt::format("the id of vocabulary entry \"{}\" is no number below 2^32", field.key));
    }
    entries_.push_back({field.key, static_cast<TokenId>(id)});
  }
  return Status::ok();
}

Status ModelReader::read_scored_entries() {
  CAIRN_ASSIGN_OR_RETURN(const array vocab, array_member(model_, "vocab"));
  for (const element entry : vocab) {
    array pair;
    std::string_view spelling;
    double score = 0;
    if (entry.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
        pair.at(0).get(spelling) != simdjson::SUCCESS ||
        pair.at(1).get(score) != simdjson::SUCCESS) {
      return builder_.damaged(
          fmt::format("vocabulary entry {} is not [text, score]", entries_.size()));
    }
    score_min_ = entries_.empty() ? score : std::min(score_min_, score);
    builder_.fingerprint().number(std::bit_cast<uint64_t>(score));
    scores_.push_back(score);
    entries_.push_back({spelling, static_cast<TokenId>(entries_.size())});
  }
  return Status::ok();
}

Result<std::vector<AddedToken>> ModelReader::read_added_tokens() {
  std::vector<AddedToken> tokens;
  if (!member(root_, "added_tokens")) return tokens;
  CAIRN_ASSIGN_OR_RETURN(const array entries, array_member(root_, "added_tokens"));
  for (const element entry : entries) {
    CAIRN_ASSIGN_OR_RETURN(AddedToken token, read_added_token(entry));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Result<AddedToken> ModelReader::read_added_token(const element& entry) {
  AddedToken token;
  CAIRN_ASSIGN_OR_RETURN(const std::string_view content, text_member(entry, "content"));
  token.content = content;
  uint64_t id = 0;
  if (entry["id"].get(id) != simdjson::SUCCESS || id > UINT32_MAX) {
    return builder_.damaged(
        fmt::format("the id of added token \"{}\" is no number below 2^32", content));
  }
  token.id = static_cast<TokenId>(id);
  CAIRN_ASSIGN_OR_RETURN(token.is_special, bool_member(entry, "special", false));
  CAIRN_ASSIGN_OR_RETURN(token.is_normalized, bool_member(entry, "normalized", !token.is_special));
  CAIRN_ASSIGN_OR_RETURN(token.is_single_word, bool_member(entry, "single_word", false));
  CAIRN_ASSIGN_OR_RETURN(token.strips_left, bool_member(entry, "lstrip", false));
  CAIRN_ASSIGN_OR_RETURN(token.strips_right, bool_member(entry, "rstrip", false));
  return token;
}

// The vocabulary first, then the added tokens, which win over it. Decoders see added tokens too, so
// their contents go through the same rules.
Status ModelReader::place_tokens() {
  CAIRN_ASSIGN_OR_RETURN(auto added, read_added_tokens());
  uint64_t id_max = 0;
  for (const Entry& entry : entries_) id_max = std::max<uint64_t>(id_max, entry.id);
  for (const AddedToken& token : added) id_max = std::max<uint64_t>(id_max, token.id);
  CAIRN_RETURN_IF_ERROR(builder_.reserve(id_max, entries_.size() + added.size()));
  for (const Entry& entry : entries_) {
    CAIRN_RETURN_IF_ERROR(builder_.place_token(entry.id, spelling_.bytes_of(entry.spelling)));
  }
  for (AddedToken& token : added) {
    const std::string bytes = spelling_.bytes_of(token.content);
    CAIRN_RETURN_IF_ERROR(builder_.place_added_token(std::move(token), bytes));
  }
  return Status::ok();
}

// What stands for a spelling in the table of the model: its bytes in a byte-level vocabulary
// (nothing when it is not spelt in that alphabet: no text can become it), else itself.
std::optional<std::string_view> ModelReader::key_of(std::string_view spelling,
                                                    std::string& scratch) const {
  if (!spelling_.is_byte_level) return spelling;
  scratch.clear();
  if (!append_byte_level(scratch, spelling)) return std::nullopt;
  return scratch;
}

Result<TokenTable> ModelReader::make_table() {
  TokenTable table(entries_.size());
  std::string scratch;
  for (const Entry& entry : entries_) {
    const auto key = key_of(entry.spelling, scratch);
    if (!key || key->empty()) continue;
    if (!table.insert(builder_.parts().arena.keep(*key), entry.id)) {
      return builder_.damaged(fmt::format("id {} spells the same bytes as another id", entry.id));
    }
  }
  return table;
}

Status ModelReader::read_merge(const element& entry,
                               std::string_view& left,
                               std::string_view& right) const {
  std::string_view line;
  if (entry.get(line) == simdjson::SUCCESS) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      return builder_.damaged(
          fmt::format("merge \"{}\" is not two tokens with a space between", line));
    }
    left = line.substr(0, space);
    right = line.substr(space + 1);
    return Status::ok();
  }
  array pair;
  if (entry.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
      pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) {
    return builder_.damaged("a merge is neither \"left right\" nor [left, right]");
  }
  return Status::ok();
}

Result<TokenId> ModelReader::find_half(const TokenTable& table,
                                       std::string_view key,
                                       size_t merge_idx) const {
  if (const auto id = table.find(key)) return *id;
  return builder_.damaged(
      fmt::format("merge {} names a token that is not in the vocabulary", merge_idx));
}

Result<MergeTable> ModelReader::read_merges(const TokenTable& table, JoinFilter* joins) {
  CAIRN_ASSIGN_OR_RETURN(const array entries, array_member(model_, "merges"));
  // simdjson counts up to 2^24 - 1 and saturates there; beyond, no vocabulary is known.
  const size_t n_merges = entries.size();
  if (n_merges >= 0xFFFFFF) return builder_.damaged("more than 16 million merges");
  MergeTable merges(n_merges);
  builder_.fingerprint().number(n_merges);
  const ByteTokens byte_tokens(table);
  std::string left_scratch;
  std::string right_scratch;
  std::string whole;
  uint32_t rank = 0;
  for (const element entry : entries) {
    std::string_view left;
    std::string_view right;
    CAIRN_RETURN_IF_ERROR(read_merge(entry, left, right));
    const auto left_key = key_of(left, left_scratch);
    const auto right_key = key_of(right, right_scratch);
    // A merge of characters outside the byte alphabet can never apply to byte-level text.
    if (left_key && right_key) {
      whole = *left_key;
      whole += *right_key;
      CAIRN_ASSIGN_OR_RETURN(const TokenId left_id, find_half(table, *left_key, rank));
      CAIRN_ASSIGN_OR_RETURN(const TokenId right_id, find_half(table, *right_key, rank));
      CAIRN_ASSIGN_OR_RETURN(const TokenId merged, find_half(table, whole, rank));
      merges.insert(left_id, right_id, {rank, merged});
      builder_.fingerprint().number((uint64_t{left_id} << 32U) | right_id);
      if (joins != nullptr) joins->add(*left_key, *right_key);
      if (joins != nullptr && (parse_byte_token(left) || parse_byte_token(right))) {
        joins->allow_all();
      }
    }
    ++rank;
  }
  return merges;
}

Result<std::optional<TokenId>> ModelReader::read_unknown(const TokenTable& table) {
  std::optional<TokenId> id;
  const auto node = member(model_, "unk_token");
  if (!node) return id;
  std::string_view unknown;
  if (node->get(unknown) != simdjson::SUCCESS) {
    return builder_.damaged("\"unk_token\" is not a string");
  }
  std::string scratch;
  if (const auto key = key_of(unknown, scratch)) id = table.find(*key);
  builder_.fingerprint().text(unknown);
  return id;
}

Status ModelReader::read_bpe() {
  CAIRN_RETURN_IF_ERROR(check_bpe());
  CAIRN_RETURN_IF_ERROR(read_entries());
  CAIRN_RETURN_IF_ERROR(place_tokens());
  CAIRN_ASSIGN_OR_RETURN(TokenTable table, make_table());
  CAIRN_ASSIGN_OR_RETURN(const auto unknown, read_unknown(table));
  CAIRN_ASSIGN_OR_RETURN(const bool ignore_merges, bool_member(model_, "ignore_merges", false));
  CAIRN_ASSIGN_OR_RETURN(const bool fuses_unknown, bool_member(model_, "fuse_unk", false));
  CAIRN_ASSIGN_OR_RETURN(const bool byte_fallback, bool_member(model_, "byte_fallback", false));
  builder_.fingerprint().number((ignore_merges ? 1U : 0U) | (fuses_unknown ? 2U : 0U) |
                                (byte_fallback ? 4U : 0U));
  if (spelling_.is_byte_level) {
    if (byte_fallback) {
      return builder_.unsupported("\"byte_fallback\" is set in a byte-level vocabulary");
    }
    CAIRN_ASSIGN_OR_RETURN(MergeTable merges, read_merges(table, nullptr));
    builder_.parts().model =
        Bpe(std::move(table), std::move(merges), Bpe::Options{ignore_merges, unknown});
    return Status::ok();
  }
  JoinFilter joins;
  CAIRN_ASSIGN_OR_RETURN(MergeTable merges, read_merges(table, &joins));
  builder_.parts().model =
      CharBpe(std::move(table),
              std::move(merges),
              std::move(joins),
              CharBpe::Options{ignore_merges, unknown, fuses_unknown, byte_fallback});
  return Status::ok();
}

Status ModelReader::read_unigram() {
  if (spelling_.is_byte_level) {
    return builder_.unsupported("a Unigram model with a ByteLevel pre-tokenizer");
  }
  CAIRN_RETURN_IF_ERROR(read_scored_entries());
  CAIRN_RETURN_IF_ERROR(place_tokens());
  Unigram::Options options;
  uint64_t unknown = 0;
  if (model_["unk_id"].get(unknown) != simdjson::SUCCESS || unknown >= entries_.size()) {
    return builder_.unsupported("a Unigram model whose \"unk_id\" is no id of its vocabulary");
  }
  options.unknown = static_cast<TokenId>(unknown);
  options.unknown_score = score_min_ - kUnknownPenalty;
  options.looks_up_unknown = true;
  CAIRN_ASSIGN_OR_RETURN(options.has_byte_fallback, bool_member(model_, "byte_fallback", false));
  builder_.fingerprint().number(unknown * 2 + (options.has_byte_fallback ? 1 : 0));
  TokenTable table(entries_.size());
  std::vector<PieceTrie::Entry> pieces;
  pieces.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    const std::string_view piece = builder_.parts().arena.keep(entry.spelling);
    if (!piece.empty()) table.insert(piece, entry.id);
    pieces.push_back({piece, entry.id});
  }
  builder_.parts().model =
      Unigram(PieceTrie(std::move(pieces)), std::move(scores_), ByteTokens(table), options);
  return Status::ok();
}

}  // namespace

Status read_model(const element& root, const Spelling& spelling, TokenizerBuilder& builder) {
  const auto model = member(root, "model");
  if (!model) return builder.damaged("\"model\" is missing");
  std::string_view type = "BPE";
  if (member(*model, "type")) {
    CAIRN_ASSIGN_OR_RETURN(type, text_member(*model, "type"));
  }
  builder.fingerprint().text(type);
  ModelReader reader(root, *model, spelling, builder);
  if (type == "BPE") return reader.read_bpe();
  if (type == "Unigram") return reader.read_unigram();
  return builder.unsupported(fmt::format("model of type {}; supported are BPE and Unigram", type));
}

}  // namespace cairn::tokenizer_json
