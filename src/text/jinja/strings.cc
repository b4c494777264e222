#include "text/jinja/strings.h"

#include <utf8proc.h>

#include <algorithm>
#include <limits>

#include "text/utf8.h"

namespace cairn::jinja {

namespace {

utf8proc_int32_t signed_code(char32_t code) {
  return static_cast<utf8proc_int32_t>(code);
}

utf8proc_category_t category(char32_t code) {
  return static_cast<utf8proc_category_t>(utf8proc_category(signed_code(code)));
}

bool is_letter(char32_t code) {
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool is_in_class(char32_t code, CharClass char_class) {
  const auto c = category(code);
  switch (char_class) {
    case CharClass::kAlpha:
      return is_letter(code);
    case CharClass::kDecimal:
      return c == UTF8PROC_CATEGORY_ND;
    case CharClass::kDigit:
      // Superscript digits are digits, but not decimals.
      return c == UTF8PROC_CATEGORY_ND || code == 0xB2 || code == 0xB3 || code == 0xB9 ||
             code == 0x2070 || (code >= 0x2074 && code <= 0x2079) ||
             (code >= 0x2080 && code <= 0x2089);
    case CharClass::kNumeric:
      return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
    case CharClass::kAlnum:
      return is_letter(code) || is_in_class(code, CharClass::kNumeric);
    case CharClass::kSpace:
      return is_space(code);
  }
  return false;
}

// The character that ends the text. Requires a non-empty text.
utf8::Decoded last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  const size_t floor = text.size() > 4 ? text.size() - 4 : 0;
  while (begin > floor && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
  const utf8::Decoded c = utf8::decode(text.substr(begin));
  if (c.n_bytes == text.size() - begin) return c;
  return {0xFFFD, 1, utf8::Validity::kInvalid};
}

bool contains(std::string_view set, char32_t code) {
  for (size_t pos = 0; pos < set.size();) {
    const utf8::Decoded c = utf8::decode(set.substr(pos));
    if (c.code == code) return true;
    pos += c.n_bytes;
  }
  return false;
}

// Calls visit(character, bytes) for each character.
template <typename Visit>
void for_each(std::string_view text, const Visit& visit) {
  for (size_t pos = 0; pos < text.size();) {
    const utf8::Decoded c = utf8::decode(text.substr(pos));
    visit(c, text.substr(pos, c.n_bytes));
    pos += c.n_bytes;
  }
}

// One letter has an upper case of two letters that people meet.
constexpr char32_t kSharpS = 0xDF;

void append_upper(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code >= 'a' && code <= 'z' ? code - 0x20 : code);
  } else if (code == kSharpS) {
    out += "SS";
  } else {
    utf8::append(out, static_cast<char32_t>(utf8proc_toupper(signed_code(code))));
  }
}

void append_lower(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code >= 'A' && code <= 'Z' ? code + 0x20 : code);
  } else {
    utf8::append(out, static_cast<char32_t>(utf8proc_tolower(signed_code(code))));
  }
}

void append_title(std::string& out, char32_t code) {
  if (code == kSharpS) {
    out += "Ss";
  } else {
    utf8::append(out, static_cast<char32_t>(utf8proc_totitle(signed_code(code))));
  }
}

bool is_line_end(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

size_t limit_of(int64_t n_max) {
  return n_max < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(n_max);
}

}  // namespace

bool is_space(char32_t code) {
  return utf8::is_white_space(code) || (code >= 0x1C && code <= 0x1F);
}

std::string_view strip(std::string_view text,
                       Side side,
                       std::optional<std::string_view> characters) {
  const auto is_taken = [&characters](char32_t code) {
    return characters ? contains(*characters, code) : is_space(code);
  };
  if (side != Side::kRight) {
    while (!text.empty()) {
      const utf8::Decoded c = utf8::decode(text);
      if (!is_taken(c.code)) break;
      text.remove_prefix(c.n_bytes);
    }
  }
  if (side != Side::kLeft) {
    while (!text.empty()) {
      const utf8::Decoded c = last_character(text);
      if (!is_taken(c.code)) break;
      text.remove_suffix(c.n_bytes);
    }
  }
  return text;
}

std::vector<std::string_view> split_space(std::string_view text, int64_t n_max) {
  std::vector<std::string_view> parts;
  text = strip(text, Side::kLeft);
  while (!text.empty()) {
    if (parts.size() == limit_of(n_max)) {
      parts.push_back(text);  // with the white space at its end
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const utf8::Decoded c = utf8::decode(text.substr(end));
      if (is_space(c.code)) break;
      end += c.n_bytes;
    }
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::kLeft);
  }
  return parts;
}

std::vector<std::string_view> split(std::string_view text,
                                    std::string_view separator,
                                    int64_t n_max) {
  std::vector<std::string_view> parts;
  while (parts.size() < limit_of(n_max)) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> rsplit(std::string_view text,
                                     std::string_view separator,
                                     int64_t n_max) {
  std::vector<std::string_view> parts;
  while (parts.size() < limit_of(n_max)) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const utf8::Decoded c = utf8::decode(text.substr(pos));
    const size_t end = pos;
    pos += c.n_bytes;
    if (!is_line_end(c.code)) continue;
    if (c.code == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    lines.push_back(text.substr(begin, (keeps_ends ? pos : end) - begin));
    begin = pos;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replace(std::string_view text,
                    std::string_view from,
                    std::string_view to,
                    int64_t n_max) {
  std::string out;
  size_t n_left = limit_of(n_max);
  if (from.empty()) {
    // Between all characters, and at both ends.
    for_each(text, [&](const utf8::Decoded&, std::string_view raw) {
      if (n_left > 0) {
        out += to;
        --n_left;
      }
      out += raw;
    });
    if (n_left > 0) out += to;
    return out;
  }
  while (n_left > 0) {
    const size_t at = text.find(from);
    if (at == std::string_view::npos) break;
    out += text.substr(0, at);
    out += to;
    text.remove_prefix(at + from.size());
    --n_left;
  }
  out += text;
  return out;
}

size_t count(std::string_view text, std::string_view part) {
  if (part.empty()) return utf8::length(text) + 1;
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; ++n) {
    at = text.find(part, at + part.size());
  }
  return n;
}

std::string upper(std::string_view text) {
  std::string out;
  for_each(text, [&](const utf8::Decoded& c, std::string_view) { append_upper(out, c.code); });
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for_each(text, [&](const utf8::Decoded& c, std::string_view) { append_lower(out, c.code); });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for_each(text, [&](const utf8::Decoded& c, std::string_view) {
    if (out.empty()) {
      append_title(out, c.code);
    } else {
      append_lower(out, c.code);
    }
  });
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  bool is_inside = false;
  for_each(text, [&](const utf8::Decoded& c, std::string_view) {
    if (is_inside) {
      append_lower(out, c.code);
    } else {
      append_title(out, c.code);
    }
    is_inside = is_letter(c.code);
  });
  return out;
}

std::string title_words(std::string_view text) {
  std::string out;
  bool is_inside = false;
  for_each(text, [&](const utf8::Decoded& c, std::string_view) {
    if (is_inside) {
      append_lower(out, c.code);
    } else {
      append_upper(out, c.code);
    }
    is_inside = !is_space(c.code) && !contains("-({[<", c.code);
  });
  return out;
}

bool all_are(std::string_view text, CharClass char_class) {
  bool all = !text.empty();
  for_each(text, [&](const utf8::Decoded& c, std::string_view) {
    all = all && is_in_class(c.code, char_class);
  });
  return all;
}

bool is_upper(std::string_view text) {
  bool has_upper = false;
  bool has_other = false;
  for_each(text, [&](const utf8::Decoded& c, std::string_view) {
    has_upper = has_upper || category(c.code) == UTF8PROC_CATEGORY_LU;
    has_other = has_other || category(c.code) == UTF8PROC_CATEGORY_LL ||
                category(c.code) == UTF8PROC_CATEGORY_LT;
  });
  return has_upper && !has_other;
}

bool is_lower(std::string_view text) {
  bool has_lower = false;
  bool has_other = false;
  for_each(text, [&](const utf8::Decoded& c, std::string_view) {
    has_lower = has_lower || category(c.code) == UTF8PROC_CATEGORY_LL;
    has_other = has_other || category(c.code) == UTF8PROC_CATEGORY_LU ||
                category(c.code) == UTF8PROC_CATEGORY_LT;
  });
  return has_lower && !has_other;
}

size_t byte_offset(std::string_view text, size_t idx) {
  size_t pos = 0;
  for (; idx > 0 && pos < text.size(); --idx) pos += utf8::decode(text.substr(pos)).n_bytes;
  return pos;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  for_each(text, [&](const utf8::Decoded&, std::string_view raw) { out.push_back(raw); });
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace cairn::jinja
