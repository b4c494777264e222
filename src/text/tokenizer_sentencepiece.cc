// A Tokenizer from SentencePiece's .model file.
#include <fmt/core.h>

#include <algorithm>
#include <cfloat>
#include <utility>

#include "text/scored_merges.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer_builder.h"
#include "text/utf8.h"

namespace cairn {

namespace {

using Piece = SentencePieceModel::Piece;
using Type = SentencePieceModel::Type;

// What a character without a token costs more than the worst token.
constexpr float kUnknownPenalty = 10;

std::string with_spaces(std::string_view piece) {
  std::string out;
  for (size_t pos = 0; pos < piece.size();) {
    if (piece.substr(pos).starts_with(kSpaceMark)) {
      out += ' ';
      pos += kSpaceMark.size();
    } else {
      out += piece[pos++];
    }
  }
  return out;
}

class SentencePieceReader {
 public:
  SentencePieceReader(SentencePieceModel model, SentencePieceOptions options)
      : model_(std::move(model)), options_(options) {}

  Result<std::shared_ptr<const Tokenizer>> run();

 private:
  Status check() const;
  Status place_pieces();
  Status place(TokenId id, const Piece& piece);
  Status set_rules();
  Status set_bpe();
  Status set_unigram();
  Status check_bytes(const TokenTable& table) const;
  void set_affixes();
  bool is_control(int64_t id) const;

  bool is_bpe() const { return model_.kind == SentencePieceModel::Kind::kBpe; }

  // The text of a placed piece where it stays.
  Result<std::string_view> keep(size_t id) {
    return builder_.keep_key(static_cast<TokenId>(id), model_.pieces[id].text);
  }

  SentencePieceModel model_;
  SentencePieceOptions options_;
  TokenizerBuilder builder_{"SentencePiece model"};
};

Status SentencePieceReader::check() const {
  constexpr std::string_view kKinds[] = {"", "unigram", "BPE", "word", "char"};
  if (!is_bpe() && model_.kind != SentencePieceModel::Kind::kUnigram) {
    return builder_.unsupported(fmt::format("model of type {}; supported are BPE and unigram",
                                            kKinds[static_cast<size_t>(model_.kind)]));
  }
  if (model_.treats_space_as_suffix) {
    return builder_.unsupported("treat_whitespace_as_suffix is set");
  }
  if (!model_.decoder_map.empty()) return builder_.unsupported("it has a denormalizer");
  return Status::ok();
}

Status SentencePieceReader::place(TokenId id, const Piece& piece) {
  builder_.fingerprint().number(std::bit_cast<uint32_t>(piece.score));
  builder_.fingerprint().number(static_cast<uint64_t>(piece.type));
  AddedToken added;
  added.id = id;
  switch (piece.type) {
    case Type::kControl:
      // Without content it is never found in a text, as in SentencePiece itself.
      if (options_.finds_control_pieces) added.content = piece.text;
      added.is_special = true;
      return builder_.place_added_token(std::move(added), piece.text);
    case Type::kUserDefined:
      // A unigram model weighs them like other pieces, only better.
      if (!is_bpe()) return builder_.place_token(id, with_spaces(piece.text));
      added.content = piece.text;
      added.is_normalized = true;
      return builder_.place_added_token(std::move(added), with_spaces(piece.text));
    case Type::kByte: {
      const auto byte = parse_byte_token(piece.text);
      if (!byte) return builder_.damaged(fmt::format("byte piece {} is \"{}\"", id, piece.text));
      return builder_.place_token(id, std::string(1, static_cast<char>(*byte)));
    }
    case Type::kUnknown:
      CAIRN_RETURN_IF_ERROR(builder_.place_token(id, model_.unknown_text));
      builder_.parts().tokens[id].keeps_space = true;
      return Status::ok();
    case Type::kNormal:
    case Type::kUnused:
      break;
  }
  return builder_.place_token(id, with_spaces(piece.text));
}

Status SentencePieceReader::place_pieces() {
  CAIRN_RETURN_IF_ERROR(builder_.reserve(model_.pieces.size() - 1, model_.pieces.size()));
  for (size_t id = 0; id < model_.pieces.size(); ++id) {
    CAIRN_RETURN_IF_ERROR(place(static_cast<TokenId>(id), model_.pieces[id]));
  }
  return Status::ok();
}

Status SentencePieceReader::set_rules() {
  SentencePieceRules rules;
  rules.adds_dummy_prefix = model_.adds_dummy_prefix;
  rules.removes_extra_spaces = model_.removes_extra_spaces;
  rules.escapes_spaces = model_.escapes_spaces;
  if (!model_.characters_map.empty()) {
    CAIRN_ASSIGN_OR_RETURN(rules.map, CharsMap::parse(model_.characters_map));
  }
  std::vector<AddedToken> user_defined;
  uint64_t n_bytes = 0;
  for (const Piece& piece : model_.pieces) {
    if (piece.type != Type::kUserDefined) continue;
    n_bytes += piece.text.size();
    CAIRN_RETURN_IF_ERROR(builder_.check_added(user_defined.size() + 1, n_bytes));
    user_defined.emplace_back();
    user_defined.back().content = piece.text;
  }
  rules.user_defined = AddedTokenFinder(std::move(user_defined));
  builder_.fingerprint().text(model_.characters_map);
  builder_.fingerprint().number(
      (rules.adds_dummy_prefix ? 1U : 0U) | (rules.removes_extra_spaces ? 2U : 0U) |
      (rules.escapes_spaces ? 4U : 0U) | (model_.has_byte_fallback ? 8U : 0U));
  if (rules.removes_extra_spaces) {
    builder_.parts().front = FrontSpace::kLeadingDropped;
  } else if (rules.adds_dummy_prefix) {
    builder_.parts().front = FrontSpace::kFirstDropped;
  }
  std::vector<Normalizer::Step> steps;
  steps.emplace_back(std::move(rules));
  builder_.parts().normalizer = Normalizer(std::move(steps));
  return Status::ok();
}

Status SentencePieceReader::check_bytes(const TokenTable& table) const {
  if (!model_.has_byte_fallback || ByteTokens(table).is_complete()) return Status::ok();
  return builder_.damaged("byte_fallback is set, but not every byte has a piece");
}

Status SentencePieceReader::set_bpe() {
  TokenTable table(model_.pieces.size());
  std::vector<bool> is_mergeable(model_.pieces.size(), false);
  std::vector<ScoredPiece> scored;
  scored.reserve(model_.pieces.size());
  for (size_t i = 0; i < model_.pieces.size(); ++i) {
    const Piece& piece = model_.pieces[i];
    const auto id = static_cast<TokenId>(i);
    const bool is_text = piece.type == Type::kNormal || piece.type == Type::kUserDefined ||
                         piece.type == Type::kUnused;
    if (!is_text && piece.type != Type::kByte) continue;
    CAIRN_ASSIGN_OR_RETURN(const std::string_view text, keep(i));
    if (!table.insert(text, id)) {
      return builder_.damaged(fmt::format("id {} is spelt as another id", id));
    }
    if (!is_text) continue;
    is_mergeable[i] = true;
    scored.push_back({text, id, piece.score});
  }
  CAIRN_RETURN_IF_ERROR(check_bytes(table));
  auto merges = make_scored_merges(std::move(scored), table, is_mergeable);
  if (!merges.is_ok()) return merges.status().with_prefix("SentencePiece model");
  CharBpe::Options options;
  options.unknown = model_.unknown;
  options.fuses_unknown = true;
  options.has_byte_fallback = model_.has_byte_fallback;
  builder_.parts().model =
      CharBpe(std::move(table), std::move(merges->merges), std::move(merges->joins), options);
  return Status::ok();
}

Status SentencePieceReader::set_unigram() {
  float score_min = FLT_MAX;
  float score_max = FLT_MIN;  // as in SentencePiece: the least positive number, not the least
  for (const Piece& piece : model_.pieces) {
    if (piece.type != Type::kNormal) continue;
    score_min = std::min(score_min, piece.score);
    score_max = std::max(score_max, piece.score);
  }
  TokenTable bytes(kByteSpellings);
  std::vector<PieceTrie::Entry> entries;
  entries.reserve(model_.pieces.size());
  std::vector<double> scores;
  scores.reserve(model_.pieces.size());
  for (size_t i = 0; i < model_.pieces.size(); ++i) {
    const Piece& piece = model_.pieces[i];
    const auto id = static_cast<TokenId>(i);
    scores.push_back(static_cast<double>(piece.score));
    if (piece.type == Type::kByte) {
      CAIRN_ASSIGN_OR_RETURN(const std::string_view text, keep(i));
      bytes.insert(text, id);
    }
    if (piece.type == Type::kUserDefined) {
      // A bonus, so that it is always taken.
      const float best = static_cast<float>(piece.text.size()) * score_max;
      scores.back() = static_cast<double>(best) - 0.1;
    } else if (piece.type != Type::kNormal) {
      continue;
    }
    CAIRN_ASSIGN_OR_RETURN(const std::string_view text, keep(i));
    entries.push_back({text, id});
  }
  CAIRN_RETURN_IF_ERROR(check_bytes(bytes));
  Unigram::Options options;
  options.unknown = model_.unknown;
  options.unknown_score = static_cast<double>(score_min - kUnknownPenalty);
  options.has_byte_fallback = model_.has_byte_fallback;
  options.has_f32_sums = true;
  builder_.parts().model =
      Unigram(PieceTrie(std::move(entries)), std::move(scores), ByteTokens(bytes), options);
  return Status::ok();
}

bool SentencePieceReader::is_control(int64_t id) const {
  return id >= 0 && static_cast<uint64_t>(id) < model_.pieces.size() &&
         model_.pieces[static_cast<size_t>(id)].type == Type::kControl;
}

void SentencePieceReader::set_affixes() {
  if (options_.adds_bos && is_control(model_.bos)) {
    builder_.parts().prefix.push_back(static_cast<TokenId>(model_.bos));
  }
  if (options_.adds_eos && is_control(model_.eos)) {
    builder_.parts().suffix.push_back(static_cast<TokenId>(model_.eos));
  }
}

Result<std::shared_ptr<const Tokenizer>> SentencePieceReader::run() {
  CAIRN_RETURN_IF_ERROR(check());
  builder_.fingerprint().text(is_bpe() ? "SentencePiece BPE" : "SentencePiece unigram");
  CAIRN_RETURN_IF_ERROR(place_pieces());
  CAIRN_RETURN_IF_ERROR(set_rules());
  CAIRN_RETURN_IF_ERROR(is_bpe() ? set_bpe() : set_unigram());
  set_affixes();
  return builder_.finish(false);
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_sentencepiece(
    std::string_view model, const SentencePieceOptions& options) {
  CAIRN_ASSIGN_OR_RETURN(SentencePieceModel parsed, parse_sentencepiece_model(model));
  return SentencePieceReader(std::move(parsed), options).run();
}

}  // namespace cairn
