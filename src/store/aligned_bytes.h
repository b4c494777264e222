// Memory that O_DIRECT accepts: aligned to 4096 bytes, not zeroed.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace cairn {

inline constexpr size_t kDirectAlignment = 4096;

// True when O_DIRECT may move this memory or range.
inline bool is_direct_aligned(size_t n) {
  return n % kDirectAlignment == 0;
}

inline bool is_direct_aligned(const void* memory) {
  return is_direct_aligned(reinterpret_cast<size_t>(memory));
}

class AlignedBytes {
 public:
  AlignedBytes() = default;

  // The capacity is n_bytes rounded up to the alignment; span() has n_bytes.
  explicit AlignedBytes(size_t n_bytes) : size_(n_bytes) {
    const size_t rounded = (n_bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
    data_.reset(static_cast<std::byte*>(
        std::aligned_alloc(kDirectAlignment, rounded == 0 ? kDirectAlignment : rounded)));
    if (data_ == nullptr) throw std::bad_alloc();
  }

  std::byte* data() const { return data_.get(); }

  size_t size() const { return size_; }

  std::span<std::byte> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };

  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

}  // namespace cairn
