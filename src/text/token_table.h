// Token bytes to ids.
// Thread: any, once built.
#pragma once

#include <cstddef>
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

  struct Entry {
    std::string_view bytes;
    TokenId id = 0;
  };

  // False when the bytes are there already. `bytes` must outlive the table.
  bool insert(std::string_view bytes, TokenId id);
  std::optional<TokenId> find(std::string_view bytes) const;

 private:
  size_t slot_of(std::string_view bytes) const;

  std::vector<Entry> slots_;  // empty slots have bytes.data() == nullptr
  size_t mask_ = 0;
};

}  // namespace cairn
