// What a Tokenizer is made of; shared by tokenizer.cc and the loader.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace cairn {

struct Tokenizer::Parts {
  struct Token {
    std::string_view bytes;  // in *arena
    bool is_known = false;
    bool is_added = false;
    bool is_special = false;
  };

  std::unique_ptr<const std::string> arena;  // bytes of all tokens
  std::vector<Token> tokens;                 // by id
  std::vector<AddedToken> added;
  AddedTokenFinder raw_finder;         // on the text as it comes
  AddedTokenFinder normalized_finder;  // on normalised text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  std::vector<TokenId> prefix;  // what the post-processor puts in front and behind
  std::vector<TokenId> suffix;
  Digest digest;
};

}  // namespace cairn
