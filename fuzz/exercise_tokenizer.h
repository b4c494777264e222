// What must hold of any tokenizer that loaded, whatever its file was.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace cairn {

inline void exercise_tokenizer(const std::shared_ptr<const Tokenizer>& tokenizer,
                               std::string_view text) {
  const auto ids = tokenizer->encode(text, true);
  for (const TokenId id : ids) CAIRN_CHECK(id < tokenizer->vocab_end());
  for (const bool skip : {false, true}) {
    Detokenizer detokenizer(tokenizer, skip);
    std::string streamed;
    for (const TokenId id : ids) streamed += detokenizer.append(id);
    streamed += detokenizer.finish();
    CAIRN_CHECK(streamed == tokenizer->decode(ids, skip), "streaming and decoding differ");
  }
}

}  // namespace cairn
