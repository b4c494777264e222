#include "text/jinja/lexer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "text/jinja/error.h"
#include "text/jinja/strings.h"
#include "text/utf8.h"

namespace cairn::jinja {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_name_part(char c) {
  return is_name_start(c) || is_digit(c);
}

// All line ends as \n, and without the one that ends the file.
std::string normalize_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) read_text();
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_here(std::string message) const {
    throw TemplateError(std::move(message), false, line_);
  }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  void step(size_t n) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(pos_);
    line_ += static_cast<uint32_t>(std::count(begin, begin + static_cast<std::ptrdiff_t>(n), '\n'));
    pos_ += n;
  }

  std::string_view rest() const { return source_.substr(pos_); }

  // The next {{, {% or {#, or the end.
  size_t find_tag() const {
    for (size_t at = source_.find('{', pos_); at != std::string_view::npos;
         at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() &&
          (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#')) {
        return at;
      }
    }
    return source_.size();
  }

  // What is left of the text before a tag: "-" takes all white space, lstrip_blocks the blanks of
  // an otherwise empty line unless the tag prints or says "+".
  std::string_view trim_before(std::string_view text, char sign, bool prints) const {
    if (sign == '-') return strip(text, Side::kRight);
    if (sign == '+' || prints) return text;
    const size_t newline = text.rfind('\n');
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (begin == 0 && !starts_line_) return text;
    if (!strip(text.substr(begin), Side::kLeft).empty()) return text;
    return text.substr(0, begin);
  }

  void push_text(std::string_view text) {
    if (!text.empty()) push(TokenKind::kText, std::string(text));
  }

  // Text up to the next tag, then the tag.
  void read_text() {
    const size_t tag = find_tag();
    const std::string_view text = source_.substr(pos_, tag - pos_);
    if (tag == source_.size()) {
      push_text(text);
      step(text.size());
      return;
    }
    const char type = source_[tag + 1];
    char sign = 0;
    if (tag + 2 < source_.size() && (source_[tag + 2] == '-' || source_[tag + 2] == '+')) {
      sign = source_[tag + 2];
    }
    push_text(trim_before(text, sign, type == '{'));
    step(text.size() + 2 + (sign != 0 ? 1 : 0));
    if (type == '#') {
      read_comment();
    } else if (type == '%' && !read_raw()) {
      push(TokenKind::kBlockBegin, "");
      read_tokens('%', TokenKind::kBlockEnd);
    } else if (type == '{') {
      push(TokenKind::kPrintBegin, "");
      read_tokens('}', TokenKind::kPrintEnd);
    }
  }

  void skip_space() {
    const std::string_view text = rest();
    step(text.size() - strip(text, Side::kLeft).size());
  }

  // After a closing tag. trim_blocks: the newline right behind a block or comment goes with it.
  void end_tag(char sign, bool prints) {
    const size_t begin = pos_;
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && !prints && !rest().empty() && rest().front() == '\n') {
      step(1);
    }
    starts_line_ = pos_ > begin && source_[pos_ - 1] == '\n';
  }

  void read_comment() {
    const size_t end = source_.find("#}", pos_);
    if (end == std::string_view::npos) fail_here("a comment {# is never closed");
    const char before = end > pos_ ? source_[end - 1] : '\0';
    step(end + 2 - pos_);
    end_tag(before == '-' || before == '+' ? before : '\0', false);
  }

  // "raw %}" after "{%". True when it was one, and then its text has been read.
  bool read_raw() {
    const std::string_view inner = strip(rest(), Side::kLeft);
    if (inner.substr(0, 3) != "raw") return false;
    const std::string_view after = strip(inner.substr(3), Side::kLeft);
    const bool strips = after.substr(0, 3) == "-%}";
    if (!strips && after.substr(0, 2) != "%}") return false;
    step(rest().size() - after.size() + (strips ? 3 : 2));
    starts_line_ = false;
    if (strips) skip_space();
    for (size_t at = source_.find("{%", pos_); at != std::string_view::npos;
         at = source_.find("{%", at + 1)) {
      size_t name = at + 2;
      const char sign = name < source_.size() ? source_[name] : '\0';
      if (sign == '-' || sign == '+') ++name;
      const std::string_view tag = strip(source_.substr(name), Side::kLeft);
      if (tag.substr(0, 6) != "endraw") continue;
      const std::string_view closing = strip(tag.substr(6), Side::kLeft);
      const bool has_sign = !closing.empty() && (closing[0] == '-' || closing[0] == '+');
      if (closing.substr(has_sign ? 1 : 0, 2) != "%}") continue;
      push_text(trim_before(source_.substr(pos_, at - pos_), sign, false));
      step(source_.size() - closing.size() + (has_sign ? 3 : 2) - pos_);
      end_tag(has_sign ? closing[0] : '\0', false);
      return true;
    }
    fail_here("a {% raw %} is never closed");
  }

  void read_tokens(char closer, TokenKind end_kind) {
    std::string open;  // brackets that wait for their partners; inside them }} does not close
    while (true) {
      skip_space();
      if (rest().empty()) fail_here("a tag is never closed");
      if (open.empty() && read_tag_end(closer, end_kind)) return;
      read_token(open);
    }
  }

  bool read_tag_end(char closer, TokenKind end_kind) {
    const std::string_view text = rest();
    const bool prints = closer == '}';
    const bool has_sign = text[0] == '-' || (text[0] == '+' && !prints);
    const size_t at = has_sign ? 1 : 0;
    if (text.size() < at + 2 || text[at] != closer || text[at + 1] != '}') return false;
    push(end_kind, "");
    step(at + 2);
    end_tag(has_sign ? text[0] : '\0', prints);
    return true;
  }

  void read_token(std::string& open) {
    const char c = rest().front();
    if (c == '"' || c == '\'') return read_string(c);
    if (is_digit(c)) return read_number();
    if (is_name_start(c)) {
      size_t n = 1;
      while (n < rest().size() && is_name_part(rest()[n])) ++n;
      push(TokenKind::kName, std::string(rest().substr(0, n)));
      return step(n);
    }
    read_operator(open);
  }

  void read_operator(std::string& open) {
    constexpr std::array<std::string_view, 26> kOperators = {
        "==", "!=", ">=", "<=", "//", "**", "+", "-", "*", "/", "%", "~", "|",
        ".",  ",",  ":",  ";",  "(",  ")",  "[", "]", "{", "}", "<", ">", "="};
    for (const std::string_view op : kOperators) {
      if (rest().substr(0, op.size()) != op) continue;
      const char c = op[0];
      if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
      if (c == ')' || c == ']' || c == '}') {
        if (open.empty() || open.back() != c) fail_here(fmt::format("unexpected '{}'", c));
        open.pop_back();
      }
      push(TokenKind::kOperator, std::string(op));
      return step(op.size());
    }
    fail_here(fmt::format("unexpected character '{}'", rest().substr(0, 1)));
  }

  // Digits with single underscores between them. Returns their number of bytes.
  static size_t n_digits(std::string_view text) {
    size_t n = 0;
    while (n < text.size() &&
           (is_digit(text[n]) || (text[n] == '_' && n > 0 && text[n - 1] != '_' &&
                                  n + 1 < text.size() && is_digit(text[n + 1])))) {
      ++n;
    }
    return n;
  }

  void read_number() {
    const std::string_view text = rest();
    size_t n = n_digits(text);
    // "a.0.1" is two subscripts, not a float.
    const bool is_subscript = !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator &&
                              tokens_.back().text == ".";
    bool is_float = false;
    if (!is_subscript) {
      if (n + 1 < text.size() && text[n] == '.' && is_digit(text[n + 1])) {
        n += 1 + n_digits(text.substr(n + 1));
        is_float = true;
      }
      size_t e = n;
      if (e < text.size() && (text[e] == 'e' || text[e] == 'E')) {
        ++e;
        if (e < text.size() && (text[e] == '+' || text[e] == '-')) ++e;
        if (e < text.size() && is_digit(text[e])) {
          n = e + n_digits(text.substr(e));
          is_float = true;
        }
      }
    }
    if (n < text.size() && is_name_start(text[n])) {
      fail_here(fmt::format("bad number {}", text.substr(0, n + 1)));
    }
    std::string digits(text.substr(0, n));
    std::erase(digits, '_');
    push(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(digits));
    step(n);
  }

  void read_string(char quote) {
    const std::string_view text = rest();
    std::string out;
    size_t i = 1;
    while (i < text.size() && text[i] != quote) {
      if (text[i] == '\\' && i + 1 < text.size()) {
        i += read_escape(text.substr(i), out);
      } else {
        out += text[i++];
      }
    }
    if (i >= text.size()) fail_here("a string is never closed");
    push(TokenKind::kString, std::move(out));
    step(i + 1);
  }

  // An escape as in Python's string literals. Returns the bytes it takes.
  size_t read_escape(std::string_view text, std::string& out) const {
    constexpr std::string_view kNames = "abfnrtv\\'\"";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
    const char c = text[1];
    if (const size_t at = kNames.find(c); at != std::string_view::npos) {
      out += kValues[at];
      return 2;
    }
    if (c == '\n') return 2;
    if (c >= '0' && c <= '7') {
      size_t n = 1;
      char32_t code = 0;
      for (; n < 4 && n < text.size() && text[n] >= '0' && text[n] <= '7'; ++n) {
        code = code * 8 + static_cast<char32_t>(text[n] - '0');
      }
      utf8::append(out, code);
      return n;
    }
    const size_t n_hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n_hex == 0) {
      out += '\\';
      return 1;
    }
    uint32_t code = 0;
    const std::string_view hex = text.substr(2, n_hex);
    const auto end = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (hex.size() != n_hex || end.ptr != hex.data() + n_hex) {
      fail_here(fmt::format("escape \\{} needs {} hexadecimal digits", c, n_hex));
    }
    utf8::append(out, code);
    return 2 + n_hex;
  }

  std::string_view source_;
  size_t pos_ = 0;
  uint32_t line_ = 1;
  bool starts_line_ = true;  // the text that comes next begins a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  const std::string lines = normalize_lines(source);
  return Lexer(lines).run();
}

}  // namespace cairn::jinja
