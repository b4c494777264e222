// Token ids to text while they arrive.
//
// A token may end inside a character; its bytes wait for the next one. Invariant, for every
// sequence: the append()s and finish() together are Tokenizer::decode() of all ids. Thread: one
// stream, one thread.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace cairn {

class Detokenizer {
 public:
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens);

  // The text that is now certain, perhaps empty. Always whole characters; bytes that can no longer
  // become one are U+FFFD, as in decode().
  std::string append(TokenId id);

  // What is left: nothing, or U+FFFD for an unfinished character. The object is then as new.
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  bool is_at_front_ = true;  // no text so far: a leading space may have to go
  std::string pending_;      // the bytes of an unfinished character, at most 3
};

}  // namespace cairn
