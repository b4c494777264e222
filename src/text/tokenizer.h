// Text to token ids and back, as a model's own files say.
//
// Files: tokenizer.json (byte-level BPE, SentencePiece-like BPE over characters, unigram),
// SentencePiece's .model, and the vocabulary inside a GGUF file. What Cairn does not know is
// refused at load, by name; docs/formats/tokenizers.md lists what it knows. Thread: immutable after
// load; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "cache/token.h"

namespace cairn {

struct GgufVocabulary;

struct SentencePieceOptions {
  // Control pieces (<s>) that are spelt out in a text are recognised, which chat templates need and
  // SentencePiece itself does not do.
  bool finds_control_pieces = true;
  bool adds_bos = true;  // what encode() adds when it is asked for special tokens
  bool adds_eos = false;
};

class Tokenizer {
 public:
  // Reads <model_dir>/tokenizer.json, which is complete. Without it <model_dir>/tokenizer.model
  // (SentencePiece), with add_bos_token and add_eos_token of tokenizer_config.json if that is
  // there. Errors: kNotFound, kIo; kCorruption for a file that is no tokenizer; kUnsupported for a
  // kind that Cairn does not know, by name.
  static Result<std::shared_ptr<const Tokenizer>> load(const std::string& model_dir);
  static Result<std::shared_ptr<const Tokenizer>> from_json(std::string_view tokenizer_json);

  // From the bytes of a SentencePiece .model file (BPE or unigram). Errors as load().
  static Result<std::shared_ptr<const Tokenizer>> from_sentencepiece(
      std::string_view model, const SentencePieceOptions& options = {});

  // From what a GGUF file holds. Errors: kCorruption for counts and ids that do not fit together,
  // kUnsupported for a model or pre-tokenizer that Cairn does not know, by name.
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufVocabulary& vocabulary);

  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  Tokenizer(Tokenizer&&) = delete;
  Tokenizer& operator=(Tokenizer&&) = delete;
  ~Tokenizer();

  // A whole text to ids. Special and other added tokens that are spelt out in it are recognised.
  // Bytes that are not UTF-8 count as U+FFFD.
  //   add_special_tokens  adds what the post-processor adds (Llama's BOS); a rendered chat template
  //                       has its own, so it is encoded without
  // Cost: about 0.4 us a token.
  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens) const;

  // Where texts may be cut so that the ids of the parts are the ids of the whole: behind each added
  // token that is spelt out in `text`, ascending. None where bytes are not UTF-8.
  std::vector<size_t> cuts(std::string_view text) const;
  // The ids that encode(text, false) gives for what lies behind `cut`, which is one of cuts(text).
  std::vector<TokenId> encode_behind(std::string_view text, size_t cut) const;

  // The text of a whole sequence. Unknown ids are skipped; bytes that form no character become
  // U+FFFD. Text that comes token by token goes through a Detokenizer.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const;

  // Appends what the id contributes as the next token of a text. `is_at_front` is true for the
  // first token; it is set to false once there is some text, for the tokens after.
  void append_bytes(TokenId id, bool& is_at_front, std::string& out) const;

  // The raw bytes that the id contributes in the middle of a text, perhaps part of a character.
  // Empty for unknown ids. Valid as long as the tokenizer.
  std::string_view token_bytes(TokenId id) const;

  bool is_added(TokenId id) const;
  bool is_special(TokenId id) const;

  // The id of an added token with this content, else of the vocabulary entry with these raw bytes
  // (" the", not the file's spelling of it).
  std::optional<TokenId> find_token(std::string_view content) const;

  // Largest id + 1. Not every id below it exists, and a model may have more output rows.
  TokenId vocab_end() const;

  // SHA-256 of everything that changes encoding or decoding, independent of the file's layout.
  const Digest& digest() const;

 private:
  friend class TokenizerBuilder;
  struct Parts;
  void append_ids(std::string_view text, size_t begin, std::vector<TokenId>& ids) const;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);

  std::unique_ptr<const Parts> parts_;
};

}  // namespace cairn
