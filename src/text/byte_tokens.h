// Byte fallback: a character without a token of its own is spelt as tokens <0x00> to <0xFF>.
// Thread: any, once built. Source: SentencePiece, option byte_fallback.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/token_table.h"

namespace cairn {

// "<0x0A>" to "<0xff>": no more spellings than digits of either case allow.
inline constexpr size_t kByteSpellings = size_t{22} * 22;

// The byte that a token of this spelling stands for; nothing for other spellings.
std::optional<uint8_t> parse_byte_token(std::string_view spelling);

class ByteTokens {
 public:
  // Knows the ids of those of the 256 tokens that `pieces` has.
  explicit ByteTokens(const TokenTable& pieces);

  // Appends one id a byte. False, and nothing appended, when a byte has no token.
  bool append(std::string_view bytes, std::vector<TokenId>& out) const;

  bool is_complete() const;
  bool contains(TokenId id) const;

 private:
  std::array<std::optional<TokenId>, 256> ids_;
};

}  // namespace cairn
