#include "text/tokenizer_builder.h"

#include <fmt/core.h>

#include <utility>

namespace cairn {

namespace {

// Ids may leave gaps, but not many more than there are entries.
constexpr uint64_t kIdSlack = 65'536;

// The largest known vocabulary has 262,144 tokens of 2 MB together; speech models add 65,536.
constexpr uint64_t kTokensMax = uint64_t{1} << 20U;
constexpr uint64_t kKeptBytesMax = uint64_t{32} << 20U;
constexpr uint64_t kAddedTokensMax = uint64_t{1} << 17U;
constexpr uint64_t kAddedBytesMax = uint64_t{2} << 20U;

constexpr size_t kShownBytes = 400;  // of a message

std::string shortened(std::string_view what) {
  if (what.size() <= kShownBytes) return std::string(what);
  constexpr size_t kHalf = kShownBytes / 2;
  return fmt::format("{} ... {}", what.substr(0, kHalf), what.substr(what.size() - kHalf));
}

}  // namespace

TokenizerBuilder::TokenizerBuilder(std::string source)
    : source_(std::move(source)), parts_(new Parts) {
  fingerprint_.text("cairn tokenizer 2");
}

Status TokenizerBuilder::damaged(std::string_view what) const {
  return Status::corruption(fmt::format("{}: {}", source_, shortened(what)));
}

Status TokenizerBuilder::unsupported(std::string_view what) const {
  return Status::unsupported(fmt::format("{}: {}", source_, shortened(what)));
}

Status TokenizerBuilder::check_count(uint64_t n_tokens) const {
  if (n_tokens <= kTokensMax) return Status::ok();
  return unsupported(fmt::format("{} tokens, at most {} are supported", n_tokens, kTokensMax));
}

Status TokenizerBuilder::check_bytes(uint64_t n_bytes, std::string_view what) const {
  if (n_bytes <= kKeptBytesMax) return Status::ok();
  return unsupported(fmt::format("its {} have more than {} bytes together", what, kKeptBytesMax));
}

Status TokenizerBuilder::check_added(uint64_t n_tokens, uint64_t n_bytes) const {
  if (n_tokens <= kAddedTokensMax && n_bytes <= kAddedBytesMax) return Status::ok();
  return unsupported(fmt::format("{} added tokens of {} bytes, at most {} of {} are supported",
                                 n_tokens,
                                 n_bytes,
                                 kAddedTokensMax,
                                 kAddedBytesMax));
}

Status TokenizerBuilder::reserve(uint64_t id_max, size_t n_entries) {
  if (n_entries == 0) return damaged("the vocabulary is empty");
  if (id_max >= 2 * uint64_t{n_entries} + kIdSlack) {
    return damaged(
        fmt::format("the largest id is {}, far beyond the {} entries", id_max, n_entries));
  }
  if (id_max >= kTokensMax) CAIRN_RETURN_IF_ERROR(check_count(id_max + 1));
  parts_->tokens.resize(static_cast<size_t>(id_max) + 1);
  return Status::ok();
}

Status TokenizerBuilder::place_token(TokenId id, std::string_view bytes) {
  Parts::Token& token = parts_->tokens[id];
  if (token.is_known) return damaged(fmt::format("id {} is given to two vocabulary entries", id));
  CAIRN_ASSIGN_OR_RETURN(token.bytes, keep(bytes));
  token.is_known = true;
  return Status::ok();
}

Result<std::string_view> TokenizerBuilder::keep(std::string_view bytes) {
  n_kept_bytes_ += bytes.size();
  CAIRN_RETURN_IF_ERROR(check_bytes(n_kept_bytes_, "tokens"));
  return parts_->arena.keep(bytes);
}

Result<std::string_view> TokenizerBuilder::keep_key(TokenId id, std::string_view key) {
  const std::string_view bytes = parts_->tokens[id].bytes;
  if (key == bytes && bytes.data() != nullptr) return bytes;
  return keep(key);
}

Status TokenizerBuilder::place_added_token(AddedToken added, std::string_view bytes) {
  Parts::Token& token = parts_->tokens[added.id];
  if (token.is_added) {
    return damaged(fmt::format("id {} is given to two added tokens", added.id));
  }
  n_added_bytes_ += added.content.size();
  CAIRN_RETURN_IF_ERROR(check_added(parts_->added.size() + 1, n_added_bytes_));
  CAIRN_ASSIGN_OR_RETURN(token.bytes, keep(bytes));
  token.is_known = true;
  token.is_added = true;
  token.is_special = added.is_special;
  fingerprint_.text(added.content);
  fingerprint_.number(added.id);
  const unsigned flags = (added.is_special ? 1U : 0U) | (added.is_normalized ? 2U : 0U) |
                         (added.is_single_word ? 4U : 0U) | (added.strips_left ? 8U : 0U) |
                         (added.strips_right ? 16U : 0U);
  fingerprint_.number(flags);
  parts_->added.push_back(std::move(added));
  return Status::ok();
}

AddedTokenFinder TokenizerBuilder::make_finder(bool for_normalized, bool normalizes) const {
  std::vector<AddedToken> wanted;
  // Special tokens come first, so that they win over others of the same content.
  for (const bool special : {true, false}) {
    for (const AddedToken& token : parts_->added) {
      if (token.is_normalized != for_normalized || token.is_special != special) continue;
      wanted.push_back(token);
      if (!normalizes) continue;
      std::string scratch;
      wanted.back().content = std::string(parts_->normalizer.normalize(token.content, scratch));
    }
  }
  return AddedTokenFinder(std::move(wanted));
}

std::shared_ptr<const Tokenizer> TokenizerBuilder::finish(bool normalizes_added) {
  parts_->raw_finder = make_finder(false, false);
  parts_->normalized_finder = make_finder(true, normalizes_added);
  fingerprint_.number(parts_->tokens.size());
  for (const Parts::Token& token : parts_->tokens) fingerprint_.text(token.bytes);
  fingerprint_.number(static_cast<uint64_t>(parts_->front));
  fingerprint_.numbers(parts_->prefix);
  fingerprint_.numbers(parts_->suffix);
  parts_->digest = fingerprint_.finish();
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts_)));
}

}  // namespace cairn
