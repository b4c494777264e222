// UTF-8 read the way browsers and the reference tokenizers read it.
//
// Bytes that are no character become U+FFFD, one for each maximal subpart (Unicode 15, section 3.9,
// "U+FFFD Substitution of Maximal Subparts"), so a stream cut anywhere gives the same text.
// Thread: any. No state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

// U+2581, which SentencePiece writes for a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

}  // namespace cairn

namespace cairn::utf8 {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Validity : uint8_t {
  kOk,
  kInvalid,    // these bytes can never become a character
  kTruncated,  // the text ended inside what may still become one
};

struct Decoded {
  char32_t code = 0xFFFD;  // U+FFFD unless kOk
  uint32_t n_bytes = 0;    // bytes to step over, at least 1
  Validity validity = Validity::kInvalid;
};

// Reads the first character. Requires a non-empty text.
Decoded decode(std::string_view text);

// The character that ends at `pos`. Requires pos > 0 and valid UTF-8.
Decoded previous(std::string_view text, size_t pos);

// Appends the character; surrogates and values past U+10FFFF are written as U+FFFD.
void append(std::string& out, char32_t code);

bool is_valid(std::string_view text);

// Appends `text` with invalid bytes replaced, up to a truncated character at its end.
// Returns the number of bytes consumed: text.size() or up to 3 less.
size_t append_lossy(std::string& out, std::string_view text);

// The whole text; a truncated end becomes U+FFFD too.
std::string lossy(std::string_view text);

// Characters, where every maximal invalid subpart counts as one.
size_t length(std::string_view text);

// Unicode's White_Space property.
bool is_white_space(char32_t code);

// Bytes of the first extended grapheme cluster: what a reader sees as one character (Unicode 15
// Standard Annex 29). Requires a non-empty text of valid UTF-8.
size_t first_grapheme(std::string_view text);

// What \w means in the regular expressions of tokenizers: letters, marks, digits, connectors.
bool is_word(char32_t code);

}  // namespace cairn::utf8
