// SentencePiece's .model file, and what the tokenizer then does with text. The input is a text, a
// NUL byte, and the file; without a NUL all of it is the file.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

void exercise(const std::shared_ptr<const cairn::Tokenizer>& tokenizer, std::string_view text) {
  const auto ids = tokenizer->encode(text, true);
  for (const cairn::TokenId id : ids) CAIRN_CHECK(id < tokenizer->vocab_end());
  for (const bool skip : {false, true}) {
    cairn::Detokenizer detokenizer(tokenizer, skip);
    std::string streamed;
    for (const cairn::TokenId id : ids) streamed += detokenizer.append(id);
    streamed += detokenizer.finish();
    CAIRN_CHECK(streamed == tokenizer->decode(ids, skip), "streaming and decoding differ");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = input.find('\0');
  const bool has_text = nul != std::string_view::npos;
  const auto tokenizer =
      cairn::Tokenizer::from_sentencepiece(has_text ? input.substr(nul + 1) : input);
  if (!tokenizer.is_ok()) return 0;
  exercise(*tokenizer, has_text ? input.substr(0, nul) : "Hello  world's 42\n\u00e9\u4e2d ");
  return 0;
}
