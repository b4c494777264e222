// Cuts a template into text and the tokens between {% %} and {{ }}.
//
// White space follows the settings that chat templates are written for: trim_blocks and
// lstrip_blocks on, a newline at the very end dropped, all line ends read as \n, and - and + at
// tags. Source: the Jinja 3.1 documentation, "Whitespace Control". Errors: TemplateError with the
// line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::jinja {

enum class TokenKind : uint8_t {
  kText,
  kBlockBegin,
  kBlockEnd,
  kPrintBegin,
  kPrintEnd,
  kName,
  kString,  // unescaped
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  uint32_t line = 1;
  std::string text;
};

// The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

}  // namespace cairn::jinja
