#include "text/regex.h"

#include <fmt/core.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace cairn {

namespace {

// Unicode's White_Space property (Unicode 15), for use inside a character class.
constexpr std::string_view kWhiteSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";

// Bounds the work of one search; ordinary patterns need a few steps a character.
constexpr uint32_t kMatchLimit = 50'000'000;

// \s and \S spelt out. \S inside a class has no such spelling and stays PCRE2's own.
std::string spell_white_space(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        out += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
      } else if (next == 'S' && !in_class) {
        out += fmt::format("[^{}]", kWhiteSpace);
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (c == '[' && !in_class) {
      in_class = true;
      out += c;
      // A bracket right after the opening stands for itself.
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];
      continue;
    }
    if (c == ']' && in_class) in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* compiled)
      : code(compiled), limits(pcre2_match_context_create(nullptr)) {
    pcre2_set_match_limit(limits, kMatchLimit);
  }

  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  Code(Code&&) = delete;
  Code& operator=(Code&&) = delete;

  ~Code() {
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }

  pcre2_code* code;
  pcre2_match_context* limits;
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}

Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  const std::string spelt = spell_white_space(pattern);
  int error = 0;
  size_t offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelt.data()),
                                   spelt.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                                   &error,
                                   &offset,
                                   nullptr);
  if (code == nullptr) {
    unsigned char message[256] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return Status::invalid_argument(fmt::format("regular expression {}: {} at offset {}",
                                                spelt,
                                                reinterpret_cast<const char*>(message),
                                                offset));
  }
  // Refused where memory may not be both written and executed: then PCRE2 interprets.
  (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return Regex(std::make_unique<Code>(code));
}

struct Regex::Matcher::State {
  explicit State(const Code& compiled)
      : code(compiled), data(pcre2_match_data_create_from_pattern(compiled.code, nullptr)) {}

  State(const State&) = delete;
  State& operator=(const State&) = delete;
  State(State&&) = delete;
  State& operator=(State&&) = delete;

  ~State() { pcre2_match_data_free(data); }

  const Code& code;
  pcre2_match_data* data;
};

Regex::Matcher::Matcher(const Regex& regex) : state_(std::make_unique<State>(*regex.code_)) {}

Regex::Matcher::Matcher(Matcher&&) noexcept = default;
Regex::Matcher& Regex::Matcher::operator=(Matcher&&) noexcept = default;
Regex::Matcher::~Matcher() = default;

std::optional<Regex::Match> Regex::Matcher::find(std::string_view text, size_t pos) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto search = [&](uint32_t options) {
    return pcre2_match(state_->code.code,
                       subject,
                       text.size(),
                       pos,
                       PCRE2_NO_UTF_CHECK | options,
                       state_->data,
                       state_->code.limits);
  };
  int rc = search(0);
  // The compiled code has a stack of 32 KiB; the interpreter keeps its frames on the heap.
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = search(PCRE2_NO_JIT);
  if (rc < 0) return std::nullopt;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(state_->data);
  // \K inside a lookahead can put the start after the end.
  if (ends[0] > ends[1]) return std::nullopt;
  return Match{ends[0], ends[1]};
}

}  // namespace cairn
