// What a Tokenizer is made of; shared by tokenizer.cc and the builder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/byte_arena.h"
#include "text/char_bpe.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/unigram.h"

namespace cairn {

// Cuts a piece into tokens.
using SubwordModel = std::variant<Bpe, CharBpe, Unigram>;

// How decoding takes back the space that encoding put in front.
enum class FrontSpace : uint8_t {
  kKept,               // nothing was put there
  kFirstDropped,       // one space at the very front
  kFirstTokenDropped,  // every space of the first token (Metaspace)
  kLeadingDropped,     // the first space of each token until one leaves some text (SentencePiece
                       // that removes extra spaces)
};

struct Tokenizer::Parts {
  struct Token {
    std::string_view bytes;  // in the arena
    bool is_known = false;
    bool is_added = false;
    bool is_special = false;
    bool keeps_space = false;  // a space at its front is its own: no FrontSpace takes it
  };

  ByteArena arena;            // bytes and spellings of all tokens
  std::vector<Token> tokens;  // by id
  std::vector<AddedToken> added;
  AddedTokenFinder raw_finder{{}};         // on the text as it comes
  AddedTokenFinder normalized_finder{{}};  // on normalised text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  SubwordModel model = Bpe(TokenTable(0), MergeTable(0), {});
  FrontSpace front = FrontSpace::kKept;
  std::vector<TokenId> prefix;  // what the post-processor puts in front and behind
  std::vector<TokenId> suffix;
  Digest digest;
};

}  // namespace cairn
