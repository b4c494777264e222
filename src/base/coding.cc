#include "base/coding.h"

#include <fmt/format.h>

namespace cairn {

Result<std::span<const std::byte>> ByteReader::bytes(uint64_t n, std::string_view what) {
  if (n > remaining()) {
    Status failure = Status::corruption(
        fmt::format("{}: needs {} bytes at offset {}, {} are left", what, n, offset_, remaining()));
    // Nothing after a failure can be trusted: leave no bytes, so that every later read fails too.
    bytes_ = bytes_.first(offset_);
    return failure;
  }
  const auto taken = bytes_.subspan(offset_, static_cast<size_t>(n));
  offset_ += static_cast<size_t>(n);
  return taken;
}

Result<std::string> ByteReader::text(uint32_t max, std::string_view what) {
  CAIRN_ASSIGN_OR_RETURN(const uint32_t n, u32(what));
  if (n > max) {
    Status failure = Status::corruption(fmt::format(
        "{}: length {} at offset {}, at most {} are allowed", what, n, offset_ - sizeof(n), max));
    bytes_ = bytes_.first(offset_);
    return failure;
  }
  CAIRN_ASSIGN_OR_RETURN(const auto raw, bytes(n, what));
  return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
}

Status ByteReader::skip(uint64_t n, std::string_view what) {
  return bytes(n, what).status();
}

}  // namespace cairn
