#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace cairn {

namespace {

constexpr bool prints_as_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

// Character -> byte, -1 outside the alphabet. The highest character is U+0143.
constexpr std::array<int16_t, 0x144> make_bytes() {
  std::array<int16_t, 0x144> bytes{};
  bytes.fill(-1);
  size_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const size_t code = prints_as_itself(byte) ? static_cast<size_t>(byte) : next++;
    bytes[code] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<int16_t, 0x144> kBytes = make_bytes();

}  // namespace

bool append_byte_level(std::string& out, std::string_view token) {
  const size_t before = out.size();
  for (size_t pos = 0; pos < token.size();) {
    if (token[pos] > ' ' && token[pos] <= '~') {  // stands for itself: most characters do
      out.push_back(token[pos++]);
      continue;
    }
    const utf8::Decoded c = utf8::decode(token.substr(pos));
    if (c.validity != utf8::Validity::kOk || c.code >= kBytes.size() || kBytes[c.code] < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(kBytes[c.code]));
    pos += c.n_bytes;
  }
  return true;
}

}  // namespace cairn
