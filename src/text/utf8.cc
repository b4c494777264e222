#include "text/utf8.h"

#include <utf8proc.h>

namespace cairn::utf8 {

namespace {

struct Lead {
  uint8_t n_bytes;       // 0: cannot begin a character
  uint8_t second_first;  // range of the second byte
  uint8_t second_last;
};

constexpr Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Decoded decode(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.n_bytes == 1) return {byte(0), 1, Validity::kOk};
  if (lead.n_bytes == 0) return {0xFFFD, 1, Validity::kInvalid};
  char32_t code = byte(0) & (0xFFU >> (lead.n_bytes + 1U));
  for (uint32_t i = 1; i < lead.n_bytes; ++i) {
    if (i == text.size()) return {0xFFFD, i, Validity::kTruncated};
    const uint8_t first = i == 1 ? lead.second_first : 0x80;
    const uint8_t last = i == 1 ? lead.second_last : 0xBF;
    if (byte(i) < first || byte(i) > last) return {0xFFFD, i, Validity::kInvalid};
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  return {code, lead.n_bytes, Validity::kOk};
}

Decoded previous(std::string_view text, size_t pos) {
  size_t begin = pos - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0U) == 0x80U) --begin;
  return decode(text.substr(begin, pos - begin));
}

void append(std::string& out, char32_t code) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6U));
    put(0x80 | (code & 0x3FU));
  } else if ((code >= 0xD800 && code < 0xE000) || code > 0x10FFFF) {
    out += kReplacement;
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12U));
    put(0x80 | ((code >> 6U) & 0x3FU));
    put(0x80 | (code & 0x3FU));
  } else {
    put(0xF0 | (code >> 18U));
    put(0x80 | ((code >> 12U) & 0x3FU));
    put(0x80 | ((code >> 6U) & 0x3FU));
    put(0x80 | (code & 0x3FU));
  }
}

bool is_valid(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    if (static_cast<uint8_t>(text[pos]) < 0x80) {
      ++pos;
      continue;
    }
    const Decoded c = decode(text.substr(pos));
    if (c.validity != Validity::kOk) return false;
    pos += c.n_bytes;
  }
  return true;
}

size_t append_lossy(std::string& out, std::string_view text) {
  size_t pos = 0;
  size_t copied = 0;  // [copied, pos) is valid and not yet appended
  while (pos < text.size()) {
    if (static_cast<uint8_t>(text[pos]) < 0x80) {
      ++pos;
      continue;
    }
    const Decoded c = decode(text.substr(pos));
    if (c.validity != Validity::kOk) {
      out.append(text.substr(copied, pos - copied));
      copied = pos;
      if (c.validity == Validity::kTruncated) return pos;
      out += kReplacement;
      copied += c.n_bytes;
    }
    pos += c.n_bytes;
  }
  out.append(text.substr(copied));
  return text.size();
}

std::string lossy(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (append_lossy(out, text) < text.size()) out += kReplacement;
  return out;
}

size_t length(std::string_view text) {
  size_t n = 0;
  for (size_t pos = 0; pos < text.size(); ++n) {
    pos += static_cast<uint8_t>(text[pos]) < 0x80 ? 1 : decode(text.substr(pos)).n_bytes;
  }
  return n;
}

bool is_white_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

size_t first_grapheme(std::string_view text) {
  Decoded c = decode(text);
  size_t pos = c.n_bytes;
  utf8proc_int32_t state = 0;
  while (pos < text.size()) {
    const Decoded next = decode(text.substr(pos));
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c.code),
                                         static_cast<utf8proc_int32_t>(next.code),
                                         &state)) {
      break;
    }
    pos += next.n_bytes;
    c = next;
  }
  return pos;
}

bool is_word(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return code == 0x200C || code == 0x200D;
  }
}

}  // namespace cairn::utf8
