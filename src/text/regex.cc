#include "text/regex.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

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

// The longest known pattern has 0.5 KB.
constexpr size_t kPatternBytesMax = size_t{16} << 10U;
constexpr size_t kShownBytes = 800;  // of a pattern in a message

struct Addition {
  std::string_view category;
  std::string_view ranges;  // for use inside a character class
};

// The characters that Unicode 15 has and 14, PCRE2's version, lacks, by general category. Nothing
// else changed between the two.
constexpr Addition kAdditions[] = {
    {"Mc", R"(\x{CF3}\x{11F03}\x{11F34}-\x{11F35}\x{11F3E}-\x{11F3F}\x{11F41})"},
    {"Mn",
     R"(\x{ECE}\x{10EFD}-\x{10EFF}\x{11241}\x{11F00}-\x{11F01}\x{11F36}-\x{11F3A})"
     R"(\x{11F40}\x{11F42}\x{13440}\x{13447}-\x{13455}\x{1E08F}\x{1E4EC}-\x{1E4EF})"},
    {"Lo",
     R"(\x{1123F}-\x{11240}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F})"
     R"(\x{13441}-\x{13446}\x{1B132}\x{1B155}\x{1E4D0}-\x{1E4EA}\x{2B739})"
     R"(\x{31350}-\x{323AF})"},
    {"Ll", R"(\x{1DF25}-\x{1DF2A})"},
    {"Lm", R"(\x{1E030}-\x{1E06D}\x{1E4EB})"},
    {"Nd", R"(\x{11F50}-\x{11F59}\x{1E4F0}-\x{1E4F9})"},
    {"No", R"(\x{1D2C0}-\x{1D2D3})"},
    {"Po", R"(\x{11B00}-\x{11B09}\x{11F43}-\x{11F4F})"},
    {"So",
     R"(\x{1F6DC}\x{1F774}-\x{1F776}\x{1F77B}-\x{1F77F}\x{1F7D9}\x{1FA75}-\x{1FA77})"
     R"(\x{1FA87}-\x{1FA88}\x{1FAAD}-\x{1FAAF}\x{1FABB}-\x{1FABD}\x{1FABF})"
     R"(\x{1FACE}-\x{1FACF}\x{1FADA}-\x{1FADB}\x{1FAE8}\x{1FAF7}-\x{1FAF8})"},
    {"Cf", R"(\x{13439}-\x{1343F})"},
};

// What belongs to `\p{category}` besides what PCRE2 knows. Scripts have no additions here.
std::string additions_to(std::string_view category) {
  std::string out;
  if (category.empty() || category.size() > 2) return out;
  for (const Addition& addition : kAdditions) {
    if (addition.category.starts_with(category)) out += addition.ranges;
  }
  return out;
}

// Rewrites a pattern for PCRE2: white space is spelt out, general categories get what they lack.
// \S and \P inside a class have no such spelling and stay PCRE2's own.
class PatternSpeller {
 public:
  explicit PatternSpeller(std::string_view pattern) : pattern_(pattern) {}

  std::string spell() {
    while (pos_ < pattern_.size()) {
      const char c = pattern_[pos_];
      if (c == '\\' && pos_ + 1 < pattern_.size()) {
        add_escape(pattern_[pos_ + 1]);
      } else if (c == '[' && !in_class_) {
        open_class();
      } else {
        if (c == ']') in_class_ = false;
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  void copy(size_t n) {
    out_ += pattern_.substr(pos_, n);
    pos_ = std::min(pos_ + n, pattern_.size());
  }

  // A bracket right after the opening stands for itself.
  void open_class() {
    in_class_ = true;
    copy(1);
    if (pattern_.substr(pos_).starts_with('^')) copy(1);
    if (pattern_.substr(pos_).starts_with(']')) copy(1);
  }

  // The backslash is at pos_.
  void add_escape(char kind) {
    if (kind == 's' || (kind == 'S' && !in_class_)) {
      pos_ += 2;
      add_set(kWhiteSpace, kind == 'S');
    } else if (kind == 'p' || (kind == 'P' && !in_class_)) {
      add_property(kind == 'P');
    } else if (kind == 'Q') {
      const size_t end = pattern_.find("\\E", pos_);
      copy(end == std::string_view::npos ? pattern_.size() : end + 2 - pos_);
    } else {
      copy(2);
    }
  }

  // \pL or \p{Lu}; other forms are PCRE2's business.
  void add_property(bool is_negated) {
    const std::string_view rest = pattern_.substr(pos_ + 2);
    const size_t close = rest.starts_with('{') ? rest.find('}') : 0;
    if (rest.empty() || close == std::string_view::npos) return copy(2);
    const std::string_view name = close == 0 ? rest.substr(0, 1) : rest.substr(1, close - 1);
    const std::string additions = additions_to(name);
    if (additions.empty()) return copy(2);
    pos_ += 2 + (close == 0 ? 1 : close + 1);
    add_set(fmt::format("\\p{{{}}}{}", name, additions), is_negated);
  }

  void add_set(std::string_view members, bool is_negated) {
    if (in_class_) {
      out_ += members;
    } else {
      out_ += fmt::format("[{}{}]", is_negated ? "^" : "", members);
    }
  }

  std::string_view pattern_;
  std::string out_;
  size_t pos_ = 0;
  bool in_class_ = false;
};

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
  if (pattern.size() > kPatternBytesMax) {
    return Status::unsupported(
        fmt::format("regular expression of {} bytes that begins {}; at most {} are supported",
                    pattern.size(),
                    pattern.substr(0, kShownBytes),
                    kPatternBytesMax));
  }
  const std::string spelt = PatternSpeller(pattern).spell();
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
                                                std::string_view(spelt).substr(0, kShownBytes),
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
