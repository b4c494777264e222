// Aligned, reference-counted memory, and typed views of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace cairn {

// Bytes that nobody changes any more, kept alive by their owner: memory, or a mapped file.
struct SharedBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// Memory aligned to 64 bytes, or to a huge page when it is 4 MiB or more (advised, not required).
// Copies share; contents are zero at first. Thread: the count is atomic, the bytes are not guarded.
class Buffer {
 public:
  Buffer() = default;
  static Buffer allocate(size_t n_bytes);  // aborts when the system has no memory left
  // Nullopt-like empty buffer (data() == nullptr) when the system refuses.
  static Buffer try_allocate(size_t n_bytes);

  std::byte* data() const { return data_.get(); }

  size_t size() const { return size_; }

  explicit operator bool() const { return data_ != nullptr; }

  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_.get()), size_ / sizeof(T)};
  }

  // For those who only read, once nobody writes any more.
  SharedBytes share() const { return {{data_.get(), size_}, data_}; }

 private:
  std::shared_ptr<std::byte> data_;
  size_t size_ = 0;
};

// A dense row-major tensor that somebody else owns.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // [outer, ..., inner]
  std::span<const std::byte> bytes;

  int64_t n_elements() const;
  std::string shape_text() const;  // "[64, 128]"
};

}  // namespace cairn
