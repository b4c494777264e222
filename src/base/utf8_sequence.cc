#include "base/utf8_sequence.h"

namespace cairn {
namespace {

bool in_range(char c, unsigned low, unsigned high) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= low && byte <= high;
}

// The second byte of a sequence that begins with `lead` lies in a narrower range than the others
// when the rest would be overlong, a surrogate or past U+10FFFF.
bool is_second_byte(char lead, char c) {
  switch (static_cast<unsigned char>(lead)) {
    case 0xE0:
      return in_range(c, 0xA0, 0xBF);
    case 0xED:
      return in_range(c, 0x80, 0x9F);
    case 0xF0:
      return in_range(c, 0x90, 0xBF);
    case 0xF4:
      return in_range(c, 0x80, 0x8F);
    default:
      return in_range(c, 0x80, 0xBF);
  }
}

}  // namespace

Utf8Sequence utf8_sequence(std::string_view text) {
  size_t wanted = 0;
  if (in_range(text[0], 0xC2, 0xDF)) wanted = 2;
  if (in_range(text[0], 0xE0, 0xEF)) wanted = 3;
  if (in_range(text[0], 0xF0, 0xF4)) wanted = 4;
  if (wanted == 0) return {1, false};
  for (size_t i = 1; i < wanted; ++i) {
    const bool fits = i < text.size() &&
                      (i == 1 ? is_second_byte(text[0], text[1]) : in_range(text[i], 0x80, 0xBF));
    if (!fits) return {i, false};
  }
  return {wanted, true};
}

}  // namespace cairn
