// A Tokenizer from the vocabulary inside a GGUF file.
#include <fmt/core.h>

#include <utility>

#include "formats/gguf_pre_tokenizers.h"
#include "formats/gguf_vocabulary.h"
#include "text/byte_level.h"
#include "text/scored_merges.h"
#include "text/tokenizer_builder.h"
#include "text/utf8.h"

namespace cairn {

namespace {

class GgufReader {
 public:
  explicit GgufReader(const GgufVocabulary& vocabulary) : vocabulary_(vocabulary) {}

  Result<std::shared_ptr<const Tokenizer>> run();

 private:
  Status check() const;
  Status check_affix(std::string_view name, std::optional<uint32_t> id) const;
  bool is_text(size_t id) const;
  Status place_tokens();
  Result<std::string> bytes_of(size_t id) const;
  Status set_byte_level(const GgufPreTokenizer& pre);
  Status set_pre_tokenizer(const GgufPreTokenizer& pre);
  Result<MergeTable> make_merges(const TokenTable& table);
  Status set_scored();
  void set_affixes(bool adds_bos);

  const GgufVocabulary& vocabulary_;
  TokenizerBuilder builder_{"GGUF vocabulary"};
};

Status GgufReader::check_affix(std::string_view name, std::optional<uint32_t> id) const {
  if (!id || *id < vocabulary_.tokens.size()) return Status::ok();
  return builder_.damaged(
      fmt::format("tokenizer.ggml.{} is {}, with {} tokens", name, *id, vocabulary_.tokens.size()));
}

uint64_t total_bytes(const std::vector<std::string_view>& texts) {
  uint64_t n_bytes = 0;
  for (const std::string_view text : texts) n_bytes += text.size();
  return n_bytes;
}

Status GgufReader::check() const {
  const size_t n = vocabulary_.tokens.size();
  if (!vocabulary_.is_scored() && vocabulary_.model != "gpt2") {
    return builder_.unsupported(fmt::format(
        "tokenizer.ggml.model is \"{}\"; supported are llama and gpt2", vocabulary_.model));
  }
  CAIRN_RETURN_IF_ERROR(builder_.check_count(n));
  // Before one is copied.
  CAIRN_RETURN_IF_ERROR(builder_.check_bytes(total_bytes(vocabulary_.tokens), "tokens"));
  CAIRN_RETURN_IF_ERROR(builder_.check_bytes(total_bytes(vocabulary_.merges), "merges"));
  if (!vocabulary_.token_types.empty() && vocabulary_.token_types.size() != n) {
    return builder_.damaged(
        fmt::format("{} token types for {} tokens", vocabulary_.token_types.size(), n));
  }
  if (vocabulary_.is_scored() && vocabulary_.scores.size() != n) {
    return builder_.damaged(fmt::format("{} scores for {} tokens", vocabulary_.scores.size(), n));
  }
  CAIRN_RETURN_IF_ERROR(check_affix("bos_token_id", vocabulary_.bos_token_id));
  CAIRN_RETURN_IF_ERROR(check_affix("eos_token_id", vocabulary_.eos_token_id));
  return check_affix("unknown_token_id", vocabulary_.unknown_token_id);
}

// True for tokens that text can become by merging.
bool GgufReader::is_text(size_t id) const {
  const int32_t type = vocabulary_.type_of(id);
  return type == GgufVocabulary::kNormal || type == GgufVocabulary::kUserDefined ||
         type == GgufVocabulary::kUnused;
}

Result<std::string> GgufReader::bytes_of(size_t id) const {
  const std::string_view text = vocabulary_.tokens[id];
  std::string bytes;
  if (!vocabulary_.is_scored()) {
    // Added tokens are spelt as they are; so is what is outside of the alphabet.
    if (vocabulary_.type_of(id) != GgufVocabulary::kNormal || !append_byte_level(bytes, text))
      bytes = text;
    return bytes;
  }
  if (vocabulary_.type_of(id) == GgufVocabulary::kByte) {
    const auto byte = parse_byte_token(text);
    if (!byte) return builder_.damaged(fmt::format("byte token {} is \"{}\"", id, text));
    return std::string(1, static_cast<char>(*byte));
  }
  for (size_t pos = 0; pos < text.size();) {
    const bool is_mark = text.substr(pos).starts_with(kSpaceMark);
    bytes += is_mark ? ' ' : text[pos];
    pos += is_mark ? kSpaceMark.size() : 1;
  }
  return bytes;
}

Status GgufReader::place_tokens() {
  const size_t n = vocabulary_.tokens.size();
  CAIRN_RETURN_IF_ERROR(builder_.reserve(n == 0 ? 0 : n - 1, n));
  for (size_t i = 0; i < n; ++i) {
    const auto id = static_cast<TokenId>(i);
    CAIRN_ASSIGN_OR_RETURN(const std::string bytes, bytes_of(i));
    const int32_t type = vocabulary_.type_of(i);
    builder_.fingerprint().number(static_cast<uint64_t>(type));
    if (type != GgufVocabulary::kControl && type != GgufVocabulary::kUnknown &&
        type != GgufVocabulary::kUserDefined) {
      CAIRN_RETURN_IF_ERROR(builder_.place_token(id, bytes));
      continue;
    }
    AddedToken added;
    added.id = id;
    added.content = vocabulary_.tokens[i];
    added.is_special = type != GgufVocabulary::kUserDefined;
    if (!utf8::is_valid(added.content)) added.content.clear();  // no text can contain it
    CAIRN_RETURN_IF_ERROR(builder_.place_added_token(std::move(added), bytes));
  }
  return Status::ok();
}

Result<MergeTable> GgufReader::make_merges(const TokenTable& table) {
  MergeTable merges(vocabulary_.merges.size());
  std::string bytes;
  uint32_t rank = 0;
  for (const std::string_view line : vocabulary_.merges) {
    // The left half may begin with a space only in vocabularies that are not byte-level.
    const size_t space = line.find(' ', 1);
    if (line.empty() || space == std::string_view::npos) {
      return builder_.damaged(fmt::format("merge {} is not two tokens with a space between", rank));
    }
    bytes.clear();
    const bool left_fits = append_byte_level(bytes, line.substr(0, space));
    const size_t n_left = bytes.size();
    if (left_fits && append_byte_level(bytes, line.substr(space + 1))) {
      const std::string_view all = bytes;
      const auto left = table.find(all.substr(0, n_left));
      const auto right = table.find(all.substr(n_left));
      const auto merged = table.find(all);
      if (!left || !right || !merged) {
        return builder_.damaged(
            fmt::format("merge {} names a token that is not in the vocabulary", rank));
      }
      merges.insert(*left, *right, {rank, *merged});
      builder_.fingerprint().number((uint64_t{*left} << 32U) | *right);
    }
    ++rank;
  }
  return merges;
}

Status GgufReader::set_pre_tokenizer(const GgufPreTokenizer& pre) {
  std::vector<Split> splits;
  for (const std::string_view pattern : pre.splits) {
    auto regex = Regex::compile(pattern);
    if (!regex.is_ok()) return regex.status();
    splits.push_back({std::move(regex).value(), SplitBehavior::kIsolated, false});
    builder_.fingerprint().text(pattern);
  }
  FrontMark front;
  if (vocabulary_.add_space_prefix.value_or(false)) front = {FrontMark::When::kAlways, " ", false};
  builder_.fingerprint().text(front.mark);
  builder_.parts().pre_tokenizer = PreTokenizer(std::move(splits), std::move(front));
  builder_.fingerprint().number((pre.composes ? 1U : 0U) | (pre.ignore_merges ? 2U : 0U));
  if (!pre.composes) return Status::ok();
  std::vector<Normalizer::Step> steps;
  steps.emplace_back(NormalForm::kNfc);
  builder_.parts().normalizer = Normalizer(std::move(steps));
  return Status::ok();
}

Status GgufReader::set_byte_level(const GgufPreTokenizer& pre) {
  CAIRN_RETURN_IF_ERROR(set_pre_tokenizer(pre));
  TokenTable table(vocabulary_.tokens.size());
  std::string bytes;
  for (size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
    bytes.clear();
    if (!is_text(id) || !append_byte_level(bytes, vocabulary_.tokens[id]) || bytes.empty())
      continue;
    // Added tokens may spell what another token spells; those come last and are left out.
    CAIRN_ASSIGN_OR_RETURN(const std::string_view kept,
                           builder_.keep_key(static_cast<TokenId>(id), bytes));
    table.insert(kept, static_cast<TokenId>(id));
  }
  CAIRN_ASSIGN_OR_RETURN(MergeTable merges, make_merges(table));
  builder_.parts().model =
      Bpe(std::move(table), std::move(merges), Bpe::Options{pre.ignore_merges, std::nullopt});
  return Status::ok();
}

Status GgufReader::set_scored() {
  const size_t n = vocabulary_.tokens.size();
  TokenTable table(n);
  std::vector<bool> is_mergeable(n, false);
  std::vector<ScoredPiece> pieces;
  pieces.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = vocabulary_.tokens[i];
    const bool is_byte = vocabulary_.type_of(i) == GgufVocabulary::kByte;
    if (text.empty() || !utf8::is_valid(text) || (!is_text(i) && !is_byte)) continue;
    CAIRN_ASSIGN_OR_RETURN(const std::string_view kept, builder_.keep_key(id, text));
    if (!table.insert(kept, id) || is_byte) continue;
    is_mergeable[i] = true;
    pieces.push_back({kept, id, vocabulary_.scores[i]});
    builder_.fingerprint().number(std::bit_cast<uint32_t>(vocabulary_.scores[i]));
  }
  auto merges = make_scored_merges(std::move(pieces), table, is_mergeable);
  if (!merges.is_ok()) return merges.status().with_prefix("GGUF vocabulary");
  CharBpe::Options options;
  options.unknown = vocabulary_.unknown_token_id;
  options.fuses_unknown = true;
  options.has_byte_fallback = true;
  builder_.parts().model =
      CharBpe(std::move(table), std::move(merges->merges), std::move(merges->joins), options);
  const bool adds_space = vocabulary_.add_space_prefix.value_or(true);
  builder_.fingerprint().number(adds_space ? 1 : 0);
  std::vector<Normalizer::Step> steps;
  if (adds_space) {
    steps.emplace_back(PrependText{std::string(kSpaceMark)});
    builder_.parts().front = FrontSpace::kFirstDropped;
  }
  steps.emplace_back(ReplaceText{" ", std::string(kSpaceMark)});
  builder_.parts().normalizer = Normalizer(std::move(steps));
  return Status::ok();
}

void GgufReader::set_affixes(bool adds_bos) {
  if (vocabulary_.bos_token_id && vocabulary_.add_bos_token.value_or(adds_bos)) {
    builder_.parts().prefix.push_back(*vocabulary_.bos_token_id);
  }
  if (vocabulary_.eos_token_id && vocabulary_.add_eos_token.value_or(false)) {
    builder_.parts().suffix.push_back(*vocabulary_.eos_token_id);
  }
}

Result<std::shared_ptr<const Tokenizer>> GgufReader::run() {
  CAIRN_RETURN_IF_ERROR(check());
  builder_.fingerprint().text(vocabulary_.model);
  CAIRN_RETURN_IF_ERROR(place_tokens());
  if (vocabulary_.is_scored()) {
    CAIRN_RETURN_IF_ERROR(set_scored());
    set_affixes(true);
    return builder_.finish(false);
  }
  auto pre = find_gguf_pre_tokenizer(vocabulary_.pre);
  if (!pre.is_ok()) return pre.status().with_prefix("GGUF vocabulary");
  CAIRN_RETURN_IF_ERROR(set_byte_level(*pre));
  set_affixes(pre->adds_bos);
  return builder_.finish(false);
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  return GgufReader(vocabulary).run();
}

}  // namespace cairn
