#include "text/token_table.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/coding.h"
#include "base/hash.h"

namespace cairn {

TokenTable::TokenTable(size_t n_tokens)
    : slots_(std::bit_ceil(std::max<size_t>(n_tokens * 2, 16))), mask_(slots_.size() - 1) {}

size_t TokenTable::slot_of(std::string_view bytes) const {
  size_t slot = xxh3_64(as_bytes(bytes)) & mask_;
  while (slots_[slot].data != nullptr && slots_[slot].bytes() != bytes) {
    slot = (slot + 1) & mask_;
  }
  return slot;
}

bool TokenTable::insert(std::string_view bytes, TokenId id) {
  CAIRN_CHECK(bytes.data() != nullptr && bytes.size() <= UINT32_MAX);
  Slot& slot = slots_[slot_of(bytes)];
  if (slot.data != nullptr) return false;
  slot = {bytes.data(), static_cast<uint32_t>(bytes.size()), id};
  return true;
}

std::optional<TokenId> TokenTable::find(std::string_view bytes) const {
  const Slot& slot = slots_[slot_of(bytes)];
  if (slot.data == nullptr) return std::nullopt;
  return slot.id;
}

}  // namespace cairn
