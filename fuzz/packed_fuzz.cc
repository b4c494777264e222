// Files of packed weights from any bytes. The sizes and the header's hash are put right first, as
// an attacker would, so that the checks behind them are reached.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/coding.h"
#include "base/hash.h"
#include "formats/packed_file.h"

namespace {

using namespace cairn;

constexpr size_t kFileBytesOffset = 16;
constexpr size_t kKeyOffset = 24;
constexpr size_t kSizesOffset = 56;

void check(std::span<const std::byte> file, const Digest& key) {
  const auto blobs = parse_packed_file(file, key, 1);
  if (!blobs.is_ok()) {
    CAIRN_CHECK(!blobs.status().message().empty(), "errors say something");
    return;
  }
  const std::byte* end = file.data();
  for (const std::span<const std::byte> blob : *blobs) {
    CAIRN_CHECK(blob.data() >= end, "in order, without overlap");
    end = blob.data() + blob.size();
  }
  CAIRN_CHECK(end <= file.data() + file.size(), "inside");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file(begin, begin + size);
  Digest key;
  check(file, key);
  if (file.size() < kSizesOffset + 8) return 0;
  std::memcpy(key.bytes.data(), file.data() + kKeyOffset, key.bytes.size());
  store_le<uint64_t>(file.data() + kFileBytesOffset, file.size());
  check(file, key);
  const uint64_t n_blobs = load_le<uint32_t>(file.data() + 12) % 8;
  store_le<uint32_t>(file.data() + 12, static_cast<uint32_t>(n_blobs));
  uint64_t n_pieces = 0;
  for (size_t i = 0; i < n_blobs && kSizesOffset + 8 * i + 8 <= file.size(); ++i) {
    const uint64_t n = load_le<uint64_t>(file.data() + kSizesOffset + 8 * i);
    n_pieces += n / (uint64_t{4} << 20) + (n % (uint64_t{4} << 20) != 0 ? 1 : 0);
  }
  const uint64_t at = kSizesOffset + 8 * n_blobs + 8 * n_pieces;
  if (at > file.size() || file.size() - at < 8) return 0;
  store_le<uint64_t>(file.data() + at, xxh3_64(std::span(file).first(at)));
  check(file, key);
  return 0;
}
