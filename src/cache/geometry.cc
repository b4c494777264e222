#include "cache/geometry.h"

#include <fmt/core.h>

namespace cairn {

size_t CacheGeometry::page_bytes() const {
  size_t n_bytes = 0;
  for (const CacheGroup& group : groups) n_bytes += group.layout.page_bytes();
  return n_bytes;
}

size_t CacheGeometry::payload_bytes() const {
  size_t n_bytes = 0;
  for (const CacheGroup& group : groups) n_bytes += group.layout.payload_bytes();
  return n_bytes;
}

Result<RowEncoding> parse_row_encoding(std::string_view text) {
  for (const RowEncoding encoding : {RowEncoding::kF32, RowEncoding::kBf16}) {
    if (text == to_string(encoding)) return encoding;
  }
  return Status::invalid_argument(
      fmt::format("KV encoding \"{}\" is not known; use \"f32\" or \"bf16\"", text));
}

}  // namespace cairn
