// Little-endian numbers in byte buffers, range-checked on the way in.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"

namespace cairn {

static_assert(std::endian::native == std::endian::little, "the on-disk formats are little-endian");

template <typename T>
void store_le(std::byte* out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(out, &value, sizeof(T));
}

template <typename T>
T load_le(const std::byte* in) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, in, sizeof(T));
  return value;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// Appends fields to a growing buffer.
class ByteWriter {
 public:
  void u8(uint8_t v) { number(v); }

  void u16(uint16_t v) { number(v); }

  void u32(uint32_t v) { number(v); }

  void u64(uint64_t v) { number(v); }

  void i64(int64_t v) { number(v); }

  void bytes(std::span<const std::byte> v) { out_.insert(out_.end(), v.begin(), v.end()); }

  // u32 length, then the bytes.
  void text(std::string_view v) {
    u32(static_cast<uint32_t>(v.size()));
    bytes(as_bytes(v));
  }

  void zeros(size_t n) { out_.resize(out_.size() + n); }

  size_t size() const { return out_.size(); }

  const std::vector<std::byte>& view() const { return out_; }

  std::vector<std::byte>& mutable_view() { return out_; }

  std::vector<std::byte> take() { return std::move(out_); }

 private:
  template <typename T>
  void number(T v) {
    std::byte raw[sizeof(T)];
    store_le(raw, v);
    out_.insert(out_.end(), raw, raw + sizeof(T));
  }

  std::vector<std::byte> out_;
};

// Takes fields off the front of untrusted bytes. After the first failure every read fails.
// Errors: kCorruption, "<what>: needs <n> bytes at offset <o>, <left> are left".
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<uint8_t> u8(std::string_view what) { return number<uint8_t>(what); }

  Result<uint16_t> u16(std::string_view what) { return number<uint16_t>(what); }

  Result<uint32_t> u32(std::string_view what) { return number<uint32_t>(what); }

  Result<uint64_t> u64(std::string_view what) { return number<uint64_t>(what); }

  Result<int64_t> i64(std::string_view what) { return number<int64_t>(what); }

  // A view into the underlying bytes.
  Result<std::span<const std::byte>> bytes(uint64_t n, std::string_view what);
  // u32 length, then the bytes; `max` bounds the length.
  Result<std::string> text(uint32_t max, std::string_view what);
  Status skip(uint64_t n, std::string_view what);

  size_t offset() const { return offset_; }

  size_t remaining() const { return bytes_.size() - offset_; }

 private:
  template <typename T>
  Result<T> number(std::string_view what) {
    auto raw = bytes(sizeof(T), what);
    if (!raw.is_ok()) return raw.status();
    return load_le<T>(raw->data());
  }

  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

// a + b and a * b, or false on overflow.
inline bool checked_add(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_add_overflow(a, b, out);
}

inline bool checked_mul(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}

}  // namespace cairn
