// Why a template could not be parsed or rendered. Thrown inside text/jinja only and turned into a
// Status at its edge (text/chat_template.cc).
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace cairn::jinja {

class TemplateError : public std::exception {
 public:
  // raised: the template itself called raise_exception. line 0: not known yet.
  explicit TemplateError(std::string text, bool raised = false, uint32_t line = 0)
      : message(std::move(text)), is_raised(raised), line_number(line) {}

  const char* what() const noexcept override { return message.c_str(); }

  std::string message;
  bool is_raised;
  uint32_t line_number;
};

[[noreturn]] inline void fail(std::string message) {
  throw TemplateError(std::move(message));
}

}  // namespace cairn::jinja
