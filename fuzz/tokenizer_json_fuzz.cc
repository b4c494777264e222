// tokenizer.json, and what the tokenizer then does with text. The input is a text, a NUL byte, and
// the file; without a NUL all of it is the file.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exercise_tokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = input.find('\0');
  const bool has_text = nul != std::string_view::npos;
  const auto tokenizer = cairn::Tokenizer::from_json(has_text ? input.substr(nul + 1) : input);
  if (!tokenizer.is_ok()) return 0;
  cairn::exercise_tokenizer(*tokenizer,
                            has_text ? input.substr(0, nul) : "Hello  world's 42\n\u00e9\u4e2d");
  return 0;
}
