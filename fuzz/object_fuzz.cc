// Headers of objects from any bytes. The hash is put right first, as an attacker would; keys, too,
// when the input asks for it, so that the checks behind them are reached. Sealed headers are
// damaged behind their seal as well, as somebody who has the key would.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/coding.h"
#include "base/hash.h"
#include "store/object_format.h"
#include "store/store_key.h"

namespace {

using namespace cairn;

constexpr size_t kTrailerBytes = 8;

void rehash(std::vector<std::byte>* bytes) {
  const size_t at = bytes->size() - kTrailerBytes;
  store_le<uint64_t>(bytes->data() + at, xxh3_64(std::span(*bytes).first(at)));
}

// The records of an anchor, all but the last one full.
void add_anchor_records(uint32_t n_records, uint32_t n_last, ObjectHeader* header) {
  PageKey parent;
  for (uint32_t r = 0; r < n_records; ++r) {
    PageRecord record{{}, std::vector<TokenId>(r + 1 < n_records ? kMaxObjectPageTokens : n_last)};
    record.key = chain_key(parent, record.tokens);
    parent = record.key;
    header->pages.push_back(std::move(record));
  }
}

const StoreKey& fuzz_key() {
  static const StoreKey kKey{Digest{}};
  return kKey;
}

// A valid object of the shapes that the input names, then damaged where it says.
ObjectHeader header_of(std::span<const std::byte> recipe, bool is_sealed) {
  const auto at = [&](size_t i) {
    return i < recipe.size() ? static_cast<uint32_t>(recipe[i]) : 0U;
  };
  ObjectHeader header;
  header.is_sealed = is_sealed;
  header.kind = *object_kind(static_cast<uint8_t>(1 + at(0) % 3));
  const uint32_t page_tokens = 16 * (1 + at(1) % 4);
  const bool is_anchor = header.kind == ObjectKind::kAnchor;
  if (is_anchor) add_anchor_records(1 + at(7) % 4, 1 + at(8), &header);
  for (uint32_t g = 0; !is_anchor && g <= at(2) % 3; ++g) {
    const RowEncoding encoding = (at(3) + g) % 2 == 0 ? RowEncoding::kF32 : RowEncoding::kBf16;
    header.layouts.push_back(
        {encoding, 1 + at(4) % 5, 1 + at(5) % 4, 2 * (1 + at(6) % 20), page_tokens});
  }
  const uint32_t n_pages = header.kind == ObjectKind::kLeaf ? 1 : 1 + at(7) % 32;
  PageKey parent;
  for (uint32_t p = 0; !is_anchor && p < n_pages; ++p) {
    const uint32_t n_tokens =
        header.kind == ObjectKind::kLeaf ? 1 + at(8) % (page_tokens - 1) : page_tokens;
    PageRecord page{{}, std::vector<TokenId>(n_tokens, at(9) + p)};
    page.key = chain_key(parent, page.tokens);
    parent = page.key;
    header.pages.push_back(std::move(page));
  }
  CAIRN_CHECK(plan_object(&header).is_ok());
  return header;
}

// Flips what the recipe says, in the bytes and in the file's size.
void damage(std::span<const std::byte> recipe,
            std::vector<std::byte>* bytes,
            uint64_t* file_bytes) {
  for (size_t i = 10; i + 3 < recipe.size(); i += 4) {
    const size_t where = load_le<uint16_t>(&recipe[i]) % bytes->size();
    (*bytes)[where] ^= recipe[i + 2];
    if (recipe[i + 3] == std::byte{1}) {
      *file_bytes ^= static_cast<uint64_t>(recipe[i + 2])
                     << (static_cast<unsigned>(recipe[i]) % 60);
    }
  }
}

// Opens a sealed header, damages what is inside, and seals it again.
void damage_inside(std::span<const std::byte> recipe, std::vector<std::byte>* bytes) {
  constexpr size_t kClearBytes = 96;
  SealSalt salt;
  std::copy_n(bytes->begin() + 64, salt.size(), salt.begin());
  Aes256Gcm cipher = fuzz_key().object_cipher(salt);
  const std::span<std::byte> all(*bytes);
  const std::span<std::byte> body =
      all.subspan(kClearBytes, all.size() - kClearBytes - sizeof(SealTag));
  SealTag tag;
  std::copy_n(all.end() - sizeof(tag), tag.size(), tag.begin());
  const auto clear = all.first(kClearBytes);
  CAIRN_CHECK(cipher.open(counted_nonce(0), clear, body, tag, body.data()));
  std::vector<std::byte> plain(body.begin(), body.end());
  uint64_t unused = 0;
  damage(recipe, &plain, &unused);
  tag = cipher.seal(counted_nonce(0), clear, plain, body.data());
  std::copy(tag.begin(), tag.end(), all.end() - sizeof(tag));
}

void check(std::span<const std::byte> bytes, uint64_t file_bytes, const StoreKey* key) {
  size_t wanted = 0;
  const auto header = decode_header(bytes, file_bytes, &wanted, key);
  if (!header.is_ok()) {
    CAIRN_CHECK(wanted == 0 || (wanted > bytes.size() && wanted <= file_bytes));
    return;
  }
  // What is accepted is exactly what would be written.
  const std::vector<std::byte> again = encode_header(*header, key);
  CAIRN_CHECK(again.size() <= bytes.size() &&
              std::memcmp(again.data(), bytes.data(), again.size()) == 0);
  uint64_t end = header->header_bytes;
  for (const Extent& extent : header->extents) {
    CAIRN_CHECK(extent.offset == end && extent.length <= file_bytes - end);
    end += extent.length;
  }
  CAIRN_CHECK(end == file_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  if (size < 1) return 0;
  const std::span<const std::byte> recipe = input.subspan(1);
  const bool is_sealed = input[0] >= std::byte{128};
  const StoreKey* key = is_sealed ? &fuzz_key() : nullptr;
  std::vector<std::byte> bytes;
  uint64_t file_bytes = 0;
  if (input[0] == std::byte{0}) {
    bytes.assign(recipe.begin(), recipe.end());
    file_bytes = bytes.size() >= 56 ? load_le<uint64_t>(&bytes[48]) : bytes.size();
    bytes.resize((bytes.size() + kHeaderBlockBytes) / kHeaderBlockBytes * kHeaderBlockBytes);
    check(bytes, file_bytes, &fuzz_key());
  } else {
    const ObjectHeader header = header_of(recipe, is_sealed);
    file_bytes = header.file_bytes;
    bytes = encode_header(header, key);
    if (input[0] >= std::byte{192}) {
      damage_inside(recipe, &bytes);
    } else {
      damage(recipe, &bytes, &file_bytes);
    }
  }
  check(bytes, file_bytes, key);
  check(bytes, file_bytes, key == nullptr ? &fuzz_key() : nullptr);
  if (is_sealed) return 0;
  rehash(&bytes);
  check(bytes, file_bytes, nullptr);
  return 0;
}
