// The bytes of one UTF-8 character, for readers and writers of JSON. Thread: any; no state.
// Source: Unicode 15, table 3-7.
#pragma once

#include <cstddef>
#include <string_view>

namespace cairn {

struct Utf8Sequence {
  size_t n_bytes = 0;     // at least 1; of a broken sequence, up to the byte that breaks it
  bool is_whole = false;  // a character, neither overlong nor a surrogate nor past U+10FFFF
};

// At the front of `text`, which begins with a byte above 0x7F.
Utf8Sequence utf8_sequence(std::string_view text);

}  // namespace cairn
