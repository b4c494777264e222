// The alphabet of byte-level vocabularies: one printable character for each byte.
//
// Bytes that print as themselves in Latin-1 stand for themselves, the other 68 take U+0100 onwards
// in order, so that a vocabulary file holds no blanks or control characters.
// Source: Radford et al. 2019, the GPT-2 encoder. Thread: any.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

// Appends the bytes that `token` spells. False, and `out` unchanged, when a character is not in the
// alphabet: such a token (a special one, usually) stands for its own UTF-8 bytes.
bool append_byte_level(std::string& out, std::string_view token);

}  // namespace cairn
