// A file that is written front to back, with the number formats of model files.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace cairn::testing {

class HostileWriter {
 public:
  explicit HostileWriter(const std::string& path)
      : path_(path), file_(path, std::ios::binary | std::ios::trunc) {}

  HostileWriter(const HostileWriter&) = delete;
  HostileWriter& operator=(const HostileWriter&) = delete;
  HostileWriter(HostileWriter&&) = delete;
  HostileWriter& operator=(HostileWriter&&) = delete;

  ~HostileWriter() {
    flush();
    EXPECT_TRUE(file_.good()) << path_;
  }

  uint64_t size() const { return n_flushed_ + buffer_.size(); }

  HostileWriter& text(std::string_view bytes) {
    buffer_ += bytes;
    if (buffer_.size() >= kBufferBytes) flush();
    return *this;
  }

  HostileWriter& fill(char c, uint64_t n) {
    const std::string piece(64 << 10, c);
    for (; n > 0; n -= std::min<uint64_t>(n, piece.size())) {
      text(std::string_view(piece).substr(0, n));
    }
    return *this;
  }

  // Little-endian.
  template <typename T>
  HostileWriter& number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    return text({raw, sizeof(T)});
  }

  // Of protocol buffers.
  HostileWriter& varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7U) buffer_ += static_cast<char>(0x80U | (value & 0x7FU));
    buffer_ += static_cast<char>(value);
    return *this;
  }

  // Overwrites a u64 that was written before; only what is still buffered or on disk already.
  void patch(uint64_t offset, uint64_t value) {
    flush();
    file_.seekp(static_cast<std::streamoff>(offset));
    file_.write(reinterpret_cast<const char*>(&value), sizeof(value));
    file_.seekp(0, std::ios::end);
  }

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 20;

  void flush() {
    file_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    n_flushed_ += buffer_.size();
    buffer_.clear();
  }

  std::string path_;
  std::ofstream file_;
  std::string buffer_;
  uint64_t n_flushed_ = 0;
};

// A short word for a number, a different one for each.
inline std::string letters(uint64_t n) {
  std::string word;
  do {
    word += static_cast<char>('a' + n % 26);
    n /= 26;
  } while (n > 0);
  return word;
}

}  // namespace cairn::testing
