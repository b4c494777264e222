#include "base/json_scanner.h"

#include <array>
#include <charconv>

#include "base/utf8_sequence.h"

namespace cairn {
namespace {

// No number that means anything is longer; it bounds what conversions cost.
constexpr size_t kNumberBytesMax = 1024;

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

constexpr bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// Bytes that a string may hold without a second look.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (size_t c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto tail = [&](unsigned shift) { put(0x80U | ((code >> shift) & 0x3FU)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0U | (code >> 6U));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U));
    tail(6);
  } else {
    put(0xF0U | (code >> 18U));
    tail(12);
    tail(6);
  }
  tail(0);
}

std::optional<uint32_t> parse_hex4(std::string_view text) {
  uint32_t code = 0;
  if (text.size() < 4) return std::nullopt;
  const auto end = std::from_chars(text.data(), text.data() + 4, code, 16);
  if (end.ptr != text.data() + 4 || text[0] == '-') return std::nullopt;
  return code;
}

constexpr bool is_high_surrogate(uint32_t code) {
  return code >= 0xD800 && code < 0xDC00;
}

constexpr bool is_low_surrogate(uint32_t code) {
  return code >= 0xDC00 && code < 0xE000;
}

constexpr std::string_view kEscapes = "\"\\/bfnrt";
constexpr std::string_view kEscaped = "\"\\/\b\f\n\r\t";

}  // namespace

JsonScanner::JsonScanner(std::string_view text, size_t depth_max, JsonWords words)
    : text_(text), depth_max_(depth_max), words_(words) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text_.starts_with(kByteOrderMark)) pos_ = kByteOrderMark.size();
}

JsonScanner::Event JsonScanner::bad(std::string_view problem) {
  problem_ = problem;
  begin_ = pos_;
  state_ = State::kBad;
  return Event::kBad;
}

void JsonScanner::skip_space() {
  while (pos_ < text_.size() && is_space(text_[pos_])) ++pos_;
}

JsonScanner::Event JsonScanner::next() {
  if (state_ == State::kBad) return Event::kBad;
  skip_space();
  begin_ = pos_;
  switch (state_) {
    case State::kValue:
      return value();
    case State::kFirstItem:
      return at(']') ? close() : value();
    case State::kFirstKey:
      return at('}') ? close() : key();
    case State::kKey:
      return key();
    case State::kAfterValue:
      return after_value();
    case State::kBad:
      break;
  }
  return Event::kBad;
}

JsonScanner::Event JsonScanner::after_value() {
  if (open_.empty()) return pos_ == text_.size() ? Event::kEnd : bad("more than one value");
  const bool is_object = open_.back() == '{';
  if (at(is_object ? '}' : ']')) return close();
  if (!at(',')) return bad(is_object ? "wanted , or }" : "wanted , or ]");
  ++pos_;
  skip_space();
  begin_ = pos_;
  return is_object ? key() : value();
}

JsonScanner::Event JsonScanner::value() {
  if (pos_ == text_.size()) return bad("the text ends where a value is wanted");
  switch (text_[pos_]) {
    case '{':
      return open(true);
    case '[':
      return open(false);
    case '"':
      if (!string()) return Event::kBad;
      state_ = State::kAfterValue;
      return Event::kString;
    case 't':
      return word("true", Event::kTrue);
    case 'f':
      return word("false", Event::kFalse);
    case 'n':
      return word("null", Event::kNull);
    default:
      return number();
  }
}

JsonScanner::Event JsonScanner::open(bool is_object) {
  if (open_.size() == depth_max_) return bad("nested deeper than is read");
  open_.push_back(text_[pos_++]);
  state_ = is_object ? State::kFirstKey : State::kFirstItem;
  return is_object ? Event::kBeginObject : Event::kBeginArray;
}

JsonScanner::Event JsonScanner::close() {
  const bool is_object = open_.back() == '{';
  open_.pop_back();
  ++pos_;
  state_ = State::kAfterValue;
  return is_object ? Event::kEndObject : Event::kEndArray;
}

JsonScanner::Event JsonScanner::key() {
  if (!at('"')) return bad("wanted a key");
  if (!string()) return Event::kBad;
  skip_space();
  if (!at(':')) return bad("wanted : after a key");
  ++pos_;
  state_ = State::kValue;
  return Event::kKey;
}

JsonScanner::Event JsonScanner::word(std::string_view word, Event event) {
  if (!text_.substr(pos_).starts_with(word)) return bad("wanted a value");
  pos_ += word.size();
  state_ = State::kAfterValue;
  return event;
}

size_t JsonScanner::digits() {
  const size_t begin = pos_;
  while (pos_ < text_.size() && is_digit(text_[pos_])) ++pos_;
  return pos_ - begin;
}

bool JsonScanner::infinity() {
  for (const std::string_view word : {"Infinity", "-Infinity", "NaN"}) {
    if (!text_.substr(pos_).starts_with(word)) continue;
    raw_ = text_.substr(pos_, word.size());
    pos_ += word.size();
    state_ = State::kAfterValue;
    return true;
  }
  return false;
}

JsonScanner::Event JsonScanner::number() {
  if (words_ == JsonWords::kWithInfinity && infinity()) return Event::kNumber;
  const size_t begin = pos_;
  if (at('-')) ++pos_;
  const bool has_zero = at('0');
  const size_t n_whole = digits();
  if (n_whole == 0) return bad(pos_ == begin ? "wanted a value" : "a number without digits");
  if (has_zero && n_whole > 1) return bad("a number that begins with 0");
  if (at('.')) {
    ++pos_;
    if (digits() == 0) return bad("a number without digits after its point");
  }
  if (at('e') || at('E')) {
    ++pos_;
    if (at('+') || at('-')) ++pos_;
    if (digits() == 0) return bad("a number without digits in its exponent");
  }
  if (pos_ - begin > kNumberBytesMax) return bad("a number of more than 1024 bytes");
  raw_ = text_.substr(begin, pos_ - begin);
  state_ = State::kAfterValue;
  return Event::kNumber;
}

bool JsonScanner::string() {
  const size_t begin = ++pos_;
  while (true) {
    while (pos_ < text_.size() && kPlain[static_cast<uint8_t>(text_[pos_])]) ++pos_;
    if (pos_ == text_.size()) return bad("a string is never closed") != Event::kBad;
    const char c = text_[pos_];
    if (c == '"') break;
    if (c == '\\') {
      if (!escape()) return false;
      continue;
    }
    if (static_cast<uint8_t>(c) < 0x20)
      return bad("a control character in a string") != Event::kBad;
    const Utf8Sequence sequence = utf8_sequence(text_.substr(pos_));
    if (!sequence.is_whole) return bad("a string that is not UTF-8") != Event::kBad;
    pos_ += sequence.n_bytes;
  }
  raw_ = text_.substr(begin, pos_ - begin);
  ++pos_;
  return true;
}

std::optional<uint32_t> JsonScanner::hex4() {
  const auto code = parse_hex4(text_.substr(pos_));
  if (code) pos_ += 4;
  return code;
}

bool JsonScanner::escape() {
  const char c = pos_ + 1 < text_.size() ? text_[pos_ + 1] : '\0';
  if (c != 'u') {
    if (c == '\0' || kEscapes.find(c) == std::string_view::npos) {
      return bad("an unknown escape") != Event::kBad;
    }
    pos_ += 2;
    return true;
  }
  pos_ += 2;
  const auto code = hex4();
  if (!code) return bad("an escape without four hexadecimal digits") != Event::kBad;
  if (is_low_surrogate(*code)) return bad("half a pair of surrogates") != Event::kBad;
  if (!is_high_surrogate(*code)) return true;
  if (!text_.substr(pos_).starts_with("\\u"))
    return bad("half a pair of surrogates") != Event::kBad;
  pos_ += 2;
  const auto low = hex4();
  if (!low || !is_low_surrogate(*low)) return bad("half a pair of surrogates") != Event::kBad;
  return true;
}

std::string_view unescape_json(std::string_view raw, std::string& scratch) {
  size_t next = raw.find('\\');
  if (next == std::string_view::npos) return raw;
  scratch.clear();
  size_t done = 0;
  while (next != std::string_view::npos && next + 1 < raw.size()) {
    scratch += raw.substr(done, next - done);
    const char c = raw[next + 1];
    done = next + 2;
    if (c != 'u') {
      const size_t at = kEscapes.find(c);
      scratch += at == std::string_view::npos ? c : kEscaped[at];
    } else {
      uint32_t code = parse_hex4(raw.substr(done)).value_or(0xFFFD);
      done = std::min(done + 4, raw.size());
      if (is_high_surrogate(code) && done + 6 <= raw.size()) {
        const uint32_t low = parse_hex4(raw.substr(done + 2)).value_or(0xDC00);
        code = 0x10000 + ((code - 0xD800) << 10U) + ((low - 0xDC00) & 0x3FFU);
        done += 6;
      }
      append_utf8(scratch, code);
    }
    next = raw.find('\\', done);
  }
  scratch += raw.substr(done);
  return scratch;
}

std::optional<uint64_t> json_unsigned(std::string_view number) {
  uint64_t value = 0;
  const char* const end = number.data() + number.size();
  const auto parsed = std::from_chars(number.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> json_double(std::string_view number) {
  double value = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
  if (parsed.ec == std::errc()) return value;
  // Too large, or too near to zero; the two are told apart by the exponent's sign.
  const size_t e = number.find_first_of("eE");
  const bool is_tiny = e == std::string_view::npos ? number.find('.') != std::string_view::npos
                                                   : number.substr(e + 1).starts_with('-');
  return is_tiny ? std::optional<double>(0.0) : std::nullopt;
}

}  // namespace cairn
