// Puts a Tokenizer together; every reader of a vocabulary file goes through it.
//
// Order: reserve(), then the tokens, then finish(). Whatever changes encoding or decoding enters
// the digest: tokens and added tokens here, all else by the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/coding.h"
#include "base/hash.h"
#include "base/result.h"
#include "text/tokenizer_parts.h"

namespace cairn {

// Everything that enters the digest, one length-prefixed field after another.
class Fingerprint {
 public:
  void text(std::string_view value) {
    bytes_.text(value);
    hash_when_full();
  }

  void number(uint64_t value) {
    bytes_.u64(value);
    hash_when_full();
  }

  void numbers(const std::vector<TokenId>& values) {
    number(values.size());
    for (const TokenId value : values) bytes_.u32(value);
  }

  Digest finish() { return hash_.update(bytes_.view()).finish(); }

 private:
  // Hashing a field at a time would cost more than the fields.
  void hash_when_full() {
    if (bytes_.size() < kBufferBytes) return;
    hash_.update(bytes_.view());
    bytes_.mutable_view().clear();
  }

  static constexpr size_t kBufferBytes = size_t{64} << 10U;

  ByteWriter bytes_;
  Sha256 hash_;
};

class TokenizerBuilder {
 public:
  using Parts = Tokenizer::Parts;

  // `source` begins every error message ("tokenizer.json").
  explicit TokenizerBuilder(std::string source);

  // Long texts of the file are cut.
  Status damaged(std::string_view what) const;
  Status unsupported(std::string_view what) const;

  // Limits on what a file can ask for, each several times what real ones need. Errors:
  // kUnsupported.
  Status check_count(uint64_t n_tokens) const;  // 2^20 tokens
  // 32 MiB of all `what` together.
  Status check_bytes(uint64_t n_bytes, std::string_view what) const;
  Status check_added(uint64_t n_tokens, uint64_t n_bytes) const;  // 2^17 added ones, of 2 MiB

  // Makes room for ids up to id_max. Errors: kCorruption when that is far beyond n_entries: a file
  // cannot ask for more memory than it has entries; kUnsupported past 2^20.
  Status reserve(uint64_t id_max, size_t n_entries);

  // A vocabulary entry. Errors: kCorruption when the id has one already; kUnsupported when all
  // bytes that were kept are more than 32 MiB.
  Status place_token(TokenId id, std::string_view bytes);

  // An added token wins over the vocabulary's entry of the same id. Errors: kCorruption when the id
  // has an added token already; kUnsupported as check_added() and place_token().
  Status place_added_token(AddedToken token, std::string_view bytes);

  // What the model's table knows the placed token `id` by, at a fixed place: the token's own bytes
  // where they are the same. Errors: kUnsupported as place_token().
  Result<std::string_view> keep_key(TokenId id, std::string_view key);

  bool is_known(uint64_t id) const {
    return id < parts_->tokens.size() && parts_->tokens[static_cast<size_t>(id)].is_known;
  }

  const Parts::Token& token(TokenId id) const { return parts_->tokens[id]; }

  TokenId vocab_end() const { return static_cast<TokenId>(parts_->tokens.size()); }

  // normalizer, pre_tokenizer, model, front, prefix and suffix are the reader's to fill.
  Parts& parts() { return *parts_; }

  Fingerprint& fingerprint() { return fingerprint_; }

  //   normalizes_added  the contents of added tokens that are looked for in normalised text are
  //                     normalised themselves
  std::shared_ptr<const Tokenizer> finish(bool normalizes_added);

 private:
  AddedTokenFinder make_finder(bool for_normalized, bool normalizes) const;
  Result<std::string_view> keep(std::string_view bytes);

  std::string source_;
  std::unique_ptr<Parts> parts_;
  Fingerprint fingerprint_;
  uint64_t n_kept_bytes_ = 0;
  uint64_t n_added_bytes_ = 0;
};

}  // namespace cairn
