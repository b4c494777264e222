#include "text/tokenizer.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>
#include <variant>

#include "text/tokenizer_parts.h"
#include "text/utf8.h"

namespace cairn {

namespace {

// One call of encode(): the steps between text and ids, with their scratch memory.
class Encoding {
 public:
  Encoding(const Normalizer& normalizer,
           const AddedTokenFinder& normalized_finder,
           const PreTokenizer& pre_tokenizer,
           const SubwordModel& model,
           std::vector<TokenId>& ids)
      : normalizer_(normalizer),
        normalized_finder_(normalized_finder),
        pre_tokenizer_(pre_tokenizer),
        model_(model),
        ids_(ids) {}

  // Text without added tokens of the raw kind. Normalisers never see across those.
  //   is_start  it begins the whole input
  void add_raw(std::string_view text, bool is_start) {
    if (text.empty()) return;
    std::string scratch;
    const std::string_view normalized = normalizer_.normalize(text, scratch);
    matches_.clear();
    normalized_finder_.find_all(normalized, matches_);
    size_t done = 0;
    for (const AddedTokenFinder::Match& match : matches_) {
      add_plain(normalized.substr(done, match.begin - done), is_start && done == 0);
      ids_.push_back(match.id);
      done = match.end;
    }
    add_plain(normalized.substr(done), is_start && done == 0);
  }

 private:
  void add_plain(std::string_view text, bool is_start) {
    if (text.empty()) return;
    std::string marked;
    text = pre_tokenizer_.mark(text, is_start, marked);
    pieces_.clear();
    pre_tokenizer_.split(text, pieces_);
    for (const Piece& piece : pieces_) {
      const std::string_view bytes = text.substr(piece.begin, piece.end - piece.begin);
      std::visit([&](const auto& model) { encode(model, bytes); }, model_);
    }
  }

  template <typename Model>
  void encode(const Model& model, std::string_view piece) {
    model.encode(piece, std::get<typename Model::Scratch>(scratch_), ids_);
  }

  const Normalizer& normalizer_;
  const AddedTokenFinder& normalized_finder_;
  const PreTokenizer& pre_tokenizer_;
  const SubwordModel& model_;
  std::vector<TokenId>& ids_;
  std::vector<AddedTokenFinder::Match> matches_;
  std::vector<Piece> pieces_;
  std::tuple<MergeScratch, Unigram::Scratch> scratch_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}

Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::string replaced;
  if (!utf8::is_valid(text)) {
    replaced = utf8::lossy(text);
    text = replaced;
  }
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 8);
  if (add_special_tokens) ids = parts_->prefix;
  append_ids(text, 0, ids);
  if (add_special_tokens) {
    ids.insert(ids.end(), parts_->suffix.begin(), parts_->suffix.end());
  }
  return ids;
}

// Of valid UTF-8. `begin` is 0 or the end of an added token.
void Tokenizer::append_ids(std::string_view text, size_t begin, std::vector<TokenId>& ids) const {
  // Looked for in the whole text: what is found depends on what came before.
  std::vector<AddedTokenFinder::Match> matches;
  parts_->raw_finder.find_all(text, matches);
  Encoding encoding(
      parts_->normalizer, parts_->normalized_finder, parts_->pre_tokenizer, parts_->model, ids);
  size_t done = begin;
  for (const AddedTokenFinder::Match& match : matches) {
    if (match.end <= begin) continue;
    encoding.add_raw(text.substr(done, match.begin - done), done == 0);
    ids.push_back(match.id);
    done = match.end;
  }
  encoding.add_raw(text.substr(done), done == 0);
}

std::vector<size_t> Tokenizer::cuts(std::string_view text) const {
  std::vector<size_t> ends;
  if (!utf8::is_valid(text)) return ends;
  std::vector<AddedTokenFinder::Match> matches;
  parts_->raw_finder.find_all(text, matches);
  for (const AddedTokenFinder::Match& match : matches) ends.push_back(match.end);
  return ends;
}

std::vector<TokenId> Tokenizer::encode_behind(std::string_view text, size_t cut) const {
  std::vector<TokenId> ids;
  append_ids(text, cut, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::string bytes;
  bool is_at_front = true;
  for (const TokenId id : ids) {
    if (skip_special_tokens && is_special(id)) continue;
    append_bytes(id, is_at_front, bytes);
  }
  return utf8::lossy(bytes);
}

void Tokenizer::append_bytes(TokenId id, bool& is_at_front, std::string& out) const {
  std::string_view bytes = token_bytes(id);
  if (bytes.empty()) return;
  if (parts_->tokens[id].keeps_space) is_at_front = false;
  if (is_at_front && parts_->front == FrontSpace::kFirstTokenDropped) {
    std::remove_copy(bytes.begin(), bytes.end(), std::back_inserter(out), ' ');
    is_at_front = false;
    return;
  }
  if (is_at_front && parts_->front != FrontSpace::kKept && bytes.front() == ' ') {
    bytes.remove_prefix(1);
    is_at_front = bytes.empty() && parts_->front == FrontSpace::kLeadingDropped;
  } else {
    is_at_front = false;
  }
  out += bytes;
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  return id < parts_->tokens.size() ? parts_->tokens[id].bytes : std::string_view();
}

bool Tokenizer::is_added(TokenId id) const {
  return id < parts_->tokens.size() && parts_->tokens[id].is_added;
}

bool Tokenizer::is_special(TokenId id) const {
  return id < parts_->tokens.size() && parts_->tokens[id].is_special;
}

std::optional<TokenId> Tokenizer::find_token(std::string_view content) const {
  for (const AddedToken& token : parts_->added) {
    if (token.content == content) return token.id;
  }
  if (const auto* bpe = std::get_if<Bpe>(&parts_->model)) return bpe->find(content);
  std::string spelling;
  for (const char c : content) {
    if (c == ' ') {
      spelling += kSpaceMark;
    } else {
      spelling += c;
    }
  }
  return std::visit([&](const auto& model) { return model.find(spelling); }, parts_->model);
}

TokenId Tokenizer::vocab_end() const {
  return static_cast<TokenId>(parts_->tokens.size());
}

const Digest& Tokenizer::digest() const {
  return parts_->digest;
}

}  // namespace cairn
