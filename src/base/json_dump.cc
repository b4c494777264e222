// Writes JSON. Ours because the library's number printer (Grisu2) misses the shortest spelling for
// about one number in a thousand, and a float32 that was sent as double then shows 17 digits.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/json.h"
#include "base/utf8_sequence.h"

namespace cairn {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// As Python's repr(): `scientific` is d[.ddd]e+XX, the shortest digits in std::to_chars' form.
std::string repr_layout(std::string_view scientific) {
  const std::string_view sign = scientific.substr(0, scientific.starts_with('-') ? 1 : 0);
  const size_t e = scientific.find('e');
  std::string digits;
  for (const char c : scientific.substr(sign.size(), e - sign.size())) {
    if (c != '.') digits.push_back(c);
  }
  int exponent = 0;
  std::string_view exponent_text = scientific.substr(e + 1);
  if (exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  if (exponent < 0) {
    return fmt::format(
        "{}0.{}{}", sign, std::string(static_cast<size_t>(-exponent - 1), '0'), digits);
  }
  const auto n_whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= n_whole) digits.resize(n_whole + 1, '0');
  digits.insert(n_whole, 1, '.');
  return fmt::format("{}{}", sign, digits);
}

template <typename Float>
std::string shortest(Float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific)
          .ptr;
  return repr_layout({text.data(), static_cast<size_t>(end - text.data())});
}

bool in_range(char c, unsigned low, unsigned high) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= low && byte <= high;
}

void write_escape(char c, std::string* out) {
  switch (c) {
    case '"':
      *out += "\\\"";
      break;
    case '\\':
      *out += "\\\\";
      break;
    case '\b':
      *out += "\\b";
      break;
    case '\f':
      *out += "\\f";
      break;
    case '\n':
      *out += "\\n";
      break;
    case '\r':
      *out += "\\r";
      break;
    case '\t':
      *out += "\\t";
      break;
    default:
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", static_cast<unsigned>(c));
  }
}

void write_string(std::string_view text, std::string* out) {
  out->push_back('"');
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    while (i < text.size() && in_range(text[i], 0x20, 0x7F) && text[i] != '"' && text[i] != '\\')
      ++i;
    out->append(text.substr(begin, i - begin));
    if (i == text.size()) break;
    if (in_range(text[i], 0, 0x7F)) {
      write_escape(text[i], out);
      ++i;
      continue;
    }
    // Each broken sequence gets one replacement.
    const Utf8Sequence sequence = utf8_sequence(text.substr(i));
    out->append(sequence.is_whole ? text.substr(i, sequence.n_bytes) : kReplacement);
    i += sequence.n_bytes;
  }
  out->push_back('"');
}

// Recursive: values that were parsed are at most 256 deep, and ours are shallow.
void write_value(const Json& value, std::string* out) {
  switch (value.type()) {
    case Json::value_t::object: {
      char separator = '{';
      for (const auto& [name, member] : value.get_ref<const Json::object_t&>()) {
        out->push_back(separator);
        write_string(name, out);
        out->push_back(':');
        write_value(member, out);
        separator = ',';
      }
      *out += separator == '{' ? "{}" : "}";
      break;
    }
    case Json::value_t::array: {
      char separator = '[';
      for (const Json& item : value.get_ref<const Json::array_t&>()) {
        out->push_back(separator);
        write_value(item, out);
        separator = ',';
      }
      *out += separator == '[' ? "[]" : "]";
      break;
    }
    case Json::value_t::string:
      write_string(value.get_ref<const std::string&>(), out);
      break;
    case Json::value_t::boolean:
      *out += value.get<bool>() ? "true" : "false";
      break;
    case Json::value_t::number_integer:
      fmt::format_to(std::back_inserter(*out), "{}", value.get<int64_t>());
      break;
    case Json::value_t::number_unsigned:
      fmt::format_to(std::back_inserter(*out), "{}", value.get<uint64_t>());
      break;
    case Json::value_t::number_float: {
      const auto number = value.get<double>();
      *out += std::isfinite(number) ? shortest(number) : "null";
      break;
    }
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      *out += "null";
  }
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Sequence sequence = utf8_sequence(text.substr(i));
    if (!sequence.is_whole) return false;
    i += sequence.n_bytes;
  }
  return true;
}

std::string dump_json(const Json& value) {
  std::string out;
  write_value(value, &out);
  return out;
}

std::string shortest_float(float value) {
  return shortest(value);
}

Json json_float(float value) {
  if (!std::isfinite(value)) return nullptr;
  // The double nearest to the short decimal, not to the float: its shortest spelling is that
  // decimal.
  const std::string text = shortest_float(value);
  double as_double = 0;
  std::from_chars(text.data(), text.data() + text.size(), as_double);
  return as_double;
}

}  // namespace cairn
