// Token bytes to ids.
// Thread: any, once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cache/token.h"

namespace cairn {

// Bytes to id, open addressing. The bytes live in the vocabulary's arena.
class TokenTable {
 public:
  // Room for n_tokens.
  explicit TokenTable(size_t n_tokens);

  // False when the bytes are there already. `bytes` must outlive the table, and be fewer than 2^32.
  bool insert(std::string_view bytes, TokenId id);
  std::optional<TokenId> find(std::string_view bytes) const;

 private:
  // 16 bytes, where a string_view and an id would take 24.
  struct Slot {
    const char* data = nullptr;  // null: empty
    uint32_t n_bytes = 0;
    TokenId id = 0;

    std::string_view bytes() const { return {data, n_bytes}; }
  };

  size_t slot_of(std::string_view bytes) const;

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace cairn
