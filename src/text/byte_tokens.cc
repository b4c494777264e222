#include "text/byte_tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace cairn {

std::optional<uint8_t> parse_byte_token(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>') return {};
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(spelling.data() + 3, spelling.data() + 5, byte, 16);
  if (error != std::errc() || end != spelling.data() + 5) return std::nullopt;
  return byte;
}

ByteTokens::ByteTokens(const TokenTable& pieces) {
  for (size_t byte = 0; byte < ids_.size(); ++byte) {
    ids_[byte] = pieces.find(fmt::format("<0x{:02X}>", byte));
  }
}

bool ByteTokens::append(std::string_view bytes, std::vector<TokenId>& out) const {
  const size_t before = out.size();
  for (const char c : bytes) {
    const auto id = ids_[static_cast<uint8_t>(c)];
    if (!id) {
      out.resize(before);
      return false;
    }
    out.push_back(*id);
  }
  return true;
}

bool ByteTokens::is_complete() const {
  return std::all_of(ids_.begin(), ids_.end(), [](const auto& id) { return id.has_value(); });
}

bool ByteTokens::contains(TokenId id) const {
  return std::find(ids_.begin(), ids_.end(), std::optional(id)) != ids_.end();
}

}  // namespace cairn
