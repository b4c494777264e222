// Keeps many short byte strings at fixed places.
// Thread: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace cairn {

class ByteArena {
 public:
  // The copy lives as long as the arena, also when the arena moves. Never null, even if empty.
  std::string_view keep(std::string_view bytes) {
    if (chunks_.empty() || bytes.size() > n_free_) {
      const size_t n = std::max(kChunkBytes, bytes.size());
      chunks_.push_back(std::make_unique_for_overwrite<char[]>(n));
      next_ = chunks_.back().get();
      n_free_ = n;
    }
    char* const begin = next_;
    std::copy(bytes.begin(), bytes.end(), begin);
    next_ += bytes.size();
    n_free_ -= bytes.size();
    return {begin, bytes.size()};
  }

 private:
  static constexpr size_t kChunkBytes = size_t{256} << 10U;

  std::vector<std::unique_ptr<char[]>> chunks_;
  char* next_ = nullptr;
  size_t n_free_ = 0;
};

}  // namespace cairn
