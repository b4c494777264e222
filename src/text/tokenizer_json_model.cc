// tokenizer.json: vocabulary, added tokens, merges and scores.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/json_scanner.h"
#include "text/byte_level.h"
#include "text/tokenizer_json.h"

namespace cairn::tokenizer_json {

namespace {

// What a character without a token costs more than the worst token (SentencePiece's constant).
constexpr double kUnknownPenalty = 10;

// The largest known files have 262,144 tokens, 580,604 merges and 6,414 added tokens.
constexpr size_t kMergesMax = size_t{1} << 20U;
constexpr size_t kPiecesMax = size_t{1} << 19U;  // of a unigram model, whose trie takes more memory

struct Entry {
  std::string_view raw;  // its spelling, as the file escapes it
  TokenId id = 0;
};

class ModelReader {
 public:
  ModelReader(const Members& root,
              const Members& model,
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
  Result<AddedToken> read_added_token(const JsonView& entry);
  Status place_tokens();
  Result<TokenTable> make_table();
  std::optional<std::string_view> key_of(std::string_view spelling, std::string& scratch) const;
  Result<MergeTable> read_merges(const TokenTable& table, JoinFilter* joins);
  Status read_merge(const JsonView& entry, std::string& left, std::string& right) const;
  Result<TokenId> find_half(const TokenTable& table, std::string_view key, size_t merge_idx) const;
  Result<std::optional<TokenId>> read_unknown(const TokenTable& table);

  const Members& root_;
  const Members& model_;
  const Spelling& spelling_;
  TokenizerBuilder& builder_;
  std::vector<Entry> entries_;
  std::vector<double> scores_;  // of a unigram model
  double score_min_ = 0;
};

Status ModelReader::check_bpe() {
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto node = member(model_, affix);
    if (node && node->raw_string() != std::string_view()) {
      return builder_.unsupported(
          fmt::format("\"{}\" is set; only BPE without it is supported", affix));
    }
  }
  const auto dropout = member(model_, "dropout");
  if (dropout && dropout->number() != 0.0) {
    return builder_.unsupported(
        "\"dropout\" is set: such a tokenizer gives another answer each time");
  }
  return Status::ok();
}

Status ModelReader::read_entries() {
  const auto vocab = member(model_, "vocab");
  if (!vocab || !vocab->is_object()) {
    return builder_.damaged("\"model.vocab\" is missing or not a mapping");
  }
  const size_t n_entries = vocab->count();
  CAIRN_RETURN_IF_ERROR(builder_.check_count(n_entries));
  entries_.reserve(n_entries);
  for (auto fields = vocab->items(); const auto field = fields.next();) {
    const auto id = field->value.unsigned_integer();
    if (!id || *id > UINT32_MAX) {
      return builder_.damaged(
          fmt::format("the id of vocabulary entry \"{}\" is no number below 2^32", field->raw_key));
    }
    entries_.push_back({field->raw_key, static_cast<TokenId>(*id)});
  }
  return Status::ok();
}

Status ModelReader::read_scored_entries() {
  CAIRN_ASSIGN_OR_RETURN(const JsonView vocab, array_member(model_, "vocab"));
  const size_t n_entries = vocab.count();
  if (n_entries > kPiecesMax) {
    return builder_.unsupported(fmt::format(
        "a Unigram model of {} tokens, at most {} are supported", n_entries, kPiecesMax));
  }
  entries_.reserve(n_entries);
  scores_.reserve(n_entries);
  for (auto items = vocab.items(); const auto item = items.next();) {
    auto pair = item->value.items();
    const auto raw = pair.next().value_or(JsonView::Member()).value.raw_string();
    const auto score = pair.next().value_or(JsonView::Member()).value.number();
    if (item->value.is_object() || !raw || !score || pair.next()) {
      return builder_.damaged(
          fmt::format("vocabulary entry {} is not [text, score]", entries_.size()));
    }
    score_min_ = entries_.empty() ? *score : std::min(score_min_, *score);
    builder_.fingerprint().number(std::bit_cast<uint64_t>(*score));
    scores_.push_back(*score);
    entries_.push_back({*raw, static_cast<TokenId>(entries_.size())});
  }
  return Status::ok();
}

Result<std::vector<AddedToken>> ModelReader::read_added_tokens() {
  std::vector<AddedToken> tokens;
  if (!member(root_, "added_tokens")) return tokens;
  CAIRN_ASSIGN_OR_RETURN(const JsonView entries, array_member(root_, "added_tokens"));
  size_t n_bytes = 0;
  for (auto items = entries.items(); const auto item = items.next();) {
    CAIRN_ASSIGN_OR_RETURN(AddedToken token, read_added_token(item->value));
    n_bytes += token.content.size();
    tokens.push_back(std::move(token));
    CAIRN_RETURN_IF_ERROR(builder_.check_added(tokens.size(), n_bytes));
  }
  return tokens;
}

Result<AddedToken> ModelReader::read_added_token(const JsonView& entry) {
  AddedToken token;
  CAIRN_ASSIGN_OR_RETURN(token.content, text_member(entry, "content"));
  const auto id = entry.find("id").value_or(JsonView()).unsigned_integer();
  if (!id || *id > UINT32_MAX) {
    return builder_.damaged(
        fmt::format("the id of added token \"{}\" is no number below 2^32", token.content));
  }
  token.id = static_cast<TokenId>(*id);
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
  std::string scratch;
  for (const Entry& entry : entries_) {
    CAIRN_RETURN_IF_ERROR(
        builder_.place_token(entry.id, spelling_.bytes_of(unescape_json(entry.raw, scratch))));
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
  std::string unescaped;
  std::string scratch;
  for (const Entry& entry : entries_) {
    const auto key = key_of(unescape_json(entry.raw, unescaped), scratch);
    if (!key || key->empty()) continue;
    CAIRN_ASSIGN_OR_RETURN(const std::string_view kept, builder_.keep_key(entry.id, *key));
    if (!table.insert(kept, entry.id)) {
      return builder_.damaged(fmt::format("id {} spells the same bytes as another id", entry.id));
    }
  }
  return table;
}

Status ModelReader::read_merge(const JsonView& entry, std::string& left, std::string& right) const {
  std::string scratch;
  if (const auto raw = entry.raw_string()) {
    const std::string_view line = unescape_json(*raw, scratch);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      return builder_.damaged(
          fmt::format("merge \"{}\" is not two tokens with a space between", line));
    }
    left = line.substr(0, space);
    right = line.substr(space + 1);
    return Status::ok();
  }
  auto pair = entry.items();
  const auto first = pair.next().value_or(JsonView::Member()).value.raw_string();
  const auto second = pair.next().value_or(JsonView::Member()).value.raw_string();
  if (entry.is_object() || !first || !second || pair.next()) {
    return builder_.damaged("a merge is neither \"left right\" nor [left, right]");
  }
  left = unescape_json(*first, scratch);
  right = unescape_json(*second, scratch);
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
  CAIRN_ASSIGN_OR_RETURN(const JsonView entries, array_member(model_, "merges"));
  const size_t n_merges = entries.count();
  if (n_merges > kMergesMax) {
    return builder_.unsupported(
        fmt::format("{} merges, at most {} are supported", n_merges, kMergesMax));
  }
  MergeTable merges(n_merges);
  builder_.fingerprint().number(n_merges);
  const ByteTokens byte_tokens(table);
  std::string left_scratch;
  std::string right_scratch;
  std::string whole;
  uint32_t rank = 0;
  std::string left;
  std::string right;
  for (auto items = entries.items(); const auto item = items.next();) {
    CAIRN_RETURN_IF_ERROR(read_merge(item->value, left, right));
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
  CAIRN_ASSIGN_OR_RETURN(const std::string unknown, text_member(model_, "unk_token"));
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
  const auto unknown = model_.find("unk_id").value_or(JsonView()).unsigned_integer();
  if (!unknown || *unknown >= entries_.size()) {
    return builder_.unsupported("a Unigram model whose \"unk_id\" is no id of its vocabulary");
  }
  options.unknown = static_cast<TokenId>(*unknown);
  options.unknown_score = score_min_ - kUnknownPenalty;
  options.looks_up_unknown = true;
  CAIRN_ASSIGN_OR_RETURN(options.has_byte_fallback, bool_member(model_, "byte_fallback", false));
  builder_.fingerprint().number(*unknown * 2 + (options.has_byte_fallback ? 1 : 0));
  TokenTable bytes(kByteSpellings);
  std::vector<PieceTrie::Entry> pieces;
  pieces.reserve(entries_.size());
  std::string scratch;
  for (const Entry& entry : entries_) {
    CAIRN_ASSIGN_OR_RETURN(const std::string_view piece,
                           builder_.keep_key(entry.id, unescape_json(entry.raw, scratch)));
    if (parse_byte_token(piece)) bytes.insert(piece, entry.id);
    pieces.push_back({piece, entry.id});
  }
  entries_ = {};  // before the trie takes its memory
  builder_.parts().model =
      Unigram(PieceTrie(std::move(pieces)), std::move(scores_), ByteTokens(bytes), options);
  return Status::ok();
}

}  // namespace

Status read_model(const Members& root, const Spelling& spelling, TokenizerBuilder& builder) {
  const auto node = member(root, "model");
  if (!node) return builder.damaged("\"model\" is missing");
  const Members model(*node,
                      {"type",
                       "vocab",
                       "merges",
                       "unk_token",
                       "unk_id",
                       "dropout",
                       "continuing_subword_prefix",
                       "end_of_word_suffix",
                       "ignore_merges",
                       "fuse_unk",
                       "byte_fallback"});
  std::string type = "BPE";
  if (member(model, "type")) {
    CAIRN_ASSIGN_OR_RETURN(type, text_member(model, "type"));
  }
  builder.fingerprint().text(type);
  ModelReader reader(root, model, spelling, builder);
  if (type == "BPE") return reader.read_bpe();
  if (type == "Unigram") return reader.read_unigram();
  return builder.unsupported(fmt::format("model of type {}; supported are BPE and Unigram", type));
}

}  // namespace cairn::tokenizer_json
