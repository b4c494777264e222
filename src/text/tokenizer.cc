#include "text/tokenizer.h"

#include <utility>

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
           const Bpe& bpe,
           std::vector<TokenId>& ids)
      : normalizer_(normalizer),
        normalized_finder_(normalized_finder),
        pre_tokenizer_(pre_tokenizer),
        bpe_(bpe),
        ids_(ids) {}

  // Text without added tokens of the raw kind. Normalisers never see across those.
  void add_raw(std::string_view text) {
    if (text.empty()) return;
    std::string scratch;
    const std::string_view normalized = normalizer_.normalize(text, scratch);
    matches_.clear();
    normalized_finder_.find_all(normalized, matches_);
    size_t done = 0;
    for (const AddedTokenFinder::Match& match : matches_) {
      add_plain(normalized.substr(done, match.begin - done));
      ids_.push_back(match.id);
      done = match.end;
    }
    add_plain(normalized.substr(done));
  }

 private:
  void add_plain(std::string_view text) {
    if (text.empty()) return;
    std::string prefixed;
    if (pre_tokenizer_.add_prefix_space() && text.front() != ' ') {
      prefixed = " ";
      prefixed += text;
      text = prefixed;
    }
    pieces_.clear();
    pre_tokenizer_.split(text, pieces_);
    for (const Piece& piece : pieces_) {
      bpe_.encode(text.substr(piece.begin, piece.end - piece.begin), scratch_, ids_);
    }
  }

  const Normalizer& normalizer_;
  const AddedTokenFinder& normalized_finder_;
  const PreTokenizer& pre_tokenizer_;
  const Bpe& bpe_;
  std::vector<TokenId>& ids_;
  std::vector<AddedTokenFinder::Match> matches_;
  std::vector<Piece> pieces_;
  Bpe::Scratch scratch_;
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
  std::vector<AddedTokenFinder::Match> matches;
  parts_->raw_finder.find_all(text, matches);
  Encoding encoding(
      parts_->normalizer, parts_->normalized_finder, parts_->pre_tokenizer, parts_->bpe, ids);
  size_t done = 0;
  for (const AddedTokenFinder::Match& match : matches) {
    encoding.add_raw(text.substr(done, match.begin - done));
    ids.push_back(match.id);
    done = match.end;
  }
  encoding.add_raw(text.substr(done));
  if (add_special_tokens) {
    ids.insert(ids.end(), parts_->suffix.begin(), parts_->suffix.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (skip_special_tokens && is_special(id)) continue;
    bytes += token_bytes(id);
  }
  return utf8::lossy(bytes);
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
  return parts_->bpe.find(content);
}

TokenId Tokenizer::vocab_end() const {
  return static_cast<TokenId>(parts_->tokens.size());
}

const Digest& Tokenizer::digest() const {
  return parts_->digest;
}

}  // namespace cairn
