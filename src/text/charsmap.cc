#include "text/charsmap.h"

#include <fmt/core.h>

#include <cstring>

#include "base/coding.h"
#include "text/utf8.h"

namespace cairn {

namespace {

// The longest form that NFKC gives one character has 33 bytes (U+FDFA).
constexpr size_t kStringBytesMax = 256;

// The largest known map, of NFKC with case folding, has 0.3 MB.
constexpr size_t kMapBytesMax = size_t{4} << 20U;

constexpr bool has_value(uint32_t unit) {
  return ((unit >> 8U) & 1U) != 0;
}

constexpr uint32_t value_of(uint32_t unit) {
  return unit & 0x7FFFFFFFU;
}

// A value's unit has bit 31 and so equals no byte.
constexpr uint32_t label_of(uint32_t unit) {
  return unit & 0x800000FFU;
}

constexpr uint32_t offset_of(uint32_t unit) {
  return (unit >> 10U) << ((unit & 0x200U) >> 6U);
}

bool is_continuation(char c) {
  return (static_cast<uint8_t>(c) & 0xC0U) == 0x80U;
}

Status damaged_map(std::string_view what) {
  return Status::corruption(fmt::format("precompiled character map: {}", what));
}

}  // namespace

Result<CharsMap> CharsMap::parse(std::string_view blob) {
  if (blob.size() > kMapBytesMax) {
    return Status::unsupported(
        fmt::format("precompiled character map: {} bytes, at most {} are supported",
                    blob.size(),
                    kMapBytesMax));
  }
  if (blob.size() < 4) return damaged_map(fmt::format("{} bytes are no map", blob.size()));
  const auto trie_bytes = load_le<uint32_t>(as_bytes(blob).data());
  if (trie_bytes > blob.size() - 4 || trie_bytes % 4 != 0 || trie_bytes == 0) {
    return damaged_map(
        fmt::format("a trie of {} bytes in a map of {} bytes", trie_bytes, blob.size()));
  }
  std::vector<uint32_t> units(trie_bytes / 4);
  std::memcpy(units.data(), blob.data() + 4, trie_bytes);
  std::string strings(blob.substr(4 + size_t{trie_bytes}));
  if (!strings.empty() && strings.back() != '\0') return damaged_map("its last string has no end");
  if (!utf8::is_valid(strings)) return damaged_map("its strings are not UTF-8");
  for (size_t pos = 0; pos < strings.size();) {
    const size_t n = strings.find('\0', pos) - pos;
    if (n > kStringBytesMax) return damaged_map(fmt::format("a string of {} bytes", n));
    pos += n + 1;
  }
  return CharsMap(std::move(units), std::move(strings));
}

std::optional<std::string_view> CharsMap::string_at(uint32_t offset) const {
  if (offset >= strings_.size() || is_continuation(strings_[offset])) return std::nullopt;
  return std::string_view(strings_.c_str() + offset);
}

std::optional<CharsMap::Rule> CharsMap::find(std::string_view text, bool is_longest) const {
  std::optional<Rule> found;
  uint32_t pos = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte == 0) break;
    pos ^= byte;
    if (pos >= units_.size() || label_of(units_[pos]) != byte) break;
    const uint32_t unit = units_[pos];
    pos ^= offset_of(unit);
    if (pos >= units_.size()) break;
    const bool is_whole = i + 1 == text.size() || !is_continuation(text[i + 1]);
    if (!has_value(unit) || !is_whole) continue;
    if (const auto replacement = string_at(value_of(units_[pos]))) {
      found = Rule{i + 1, *replacement};
      if (!is_longest) break;
    }
  }
  return found;
}

}  // namespace cairn
