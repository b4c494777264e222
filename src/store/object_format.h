// The bytes of one object on disk. docs/formats/object.md describes them field by field.
//
// An object is one file: a header of k x 4 KiB and a payload. It holds a run of 1..32 consecutive
// pages of one chain, or one leaf with only its used strips, or a text anchor: the token ids of a
// text (cache/anchor_table.h), without a payload. Little-endian; every length is checked
// against the file; an unknown version is left alone and reported. Design: DESIGN.md 3.7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/geometry.h"
#include "cache/key.h"
#include "cache/token.h"
#include "store/store_key.h"

namespace cairn {

class ByteReader;

// The next 32 bytes. Errors: kCorruption, naming `what`.
Result<Digest> read_digest(ByteReader& reader, std::string_view what);

enum class ObjectKind : uint8_t { kRun = 1, kLeaf = 2, kAnchor = 3 };

std::string_view to_string(ObjectKind kind);  // "run", "leaf", "anchor": the file's suffix
std::optional<ObjectKind> object_kind(uint8_t number);

inline constexpr uint32_t kObjectFormatVersion = 1;
inline constexpr uint32_t kMaxRunPages = 32;
inline constexpr size_t kTargetObjectBytes = size_t{4} << 20;
inline constexpr size_t kHeaderBlockBytes = 4096;

// What any object may claim; larger numbers are refused before they are multiplied, so that no
// product of them can overflow 64 bits.
inline constexpr uint32_t kMaxObjectGroups = 16;
inline constexpr uint32_t kMaxObjectLayers = 4096;
inline constexpr uint32_t kMaxObjectKvHeads = 1024;
inline constexpr uint32_t kMaxObjectHeadDim = 65536;
inline constexpr uint32_t kMaxObjectPageTokens = 4096;
inline constexpr uint32_t kMaxHeaderBlocks = 4096;
inline constexpr uint64_t kMaxLayerBytes = uint64_t{1} << 30;  // of one layer of one page

// A page or leaf as the index knows it. An anchor's ids come in records of up to
// kMaxObjectPageTokens; the last one's key is the anchor's, those before it chain as pages do.
struct PageRecord {
  PageKey key;
  std::vector<TokenId> tokens;
};

// One layer of one group of one page.
struct Extent {
  uint64_t offset = 0;  // from the start of the file
  uint64_t length = 0;
  uint64_t hash = 0;  // XXH3-64; 0 when sealed
  SealTag tag{};      // AES-256-GCM; zeros when not sealed
};

struct ObjectHeader {
  ObjectKind kind = ObjectKind::kRun;
  RootKey root;
  PageKey parent;  // key before the first page (the root key at the front); of an anchor: the
                   // anchor that it continues, or the root key
  std::vector<PageRecord> pages;    // kLeaf: exactly one
  std::vector<PageLayout> layouts;  // one a group; none of an anchor
  std::vector<Extent> extents;      // [page][group][layer]
  int64_t created_unix = 0;
  uint64_t file_bytes = 0;    // header and payload
  uint32_t header_bytes = 0;  // k x 4096
  bool is_sealed = false;
  SealSalt salt{};  // of a sealed object: random, another for every file

  const PageKey& key() const { return pages.back().key; }  // names the object
};

// Bytes that a page of `n_tokens` tokens takes in an object: all of it for a full page, the used
// strips of each kv head for a leaf.
size_t packed_layer_bytes(const PageLayout& layout, uint32_t n_tokens);

inline constexpr uint64_t kMaxSealedLayerBytes = uint64_t{32} << 20;  // sealed whole, in staging

// Checks an extent's bytes as they are in the file; sealed ones (`cipher` not null, of
// StoreKey::object_cipher) are opened in place. Errors: kCorruption; then the bytes are rubbish.
Status check_extent(const Extent& extent,
                    size_t extent_idx,
                    Aes256Gcm* cipher,
                    std::span<std::byte> bytes);

// The nonce of a sealed object's i-th extent. Its header has counted_nonce(0).
SealNonce extent_nonce(size_t extent_idx);

// Fills header_bytes, file_bytes and the extent table (hashes 0) from kind, pages, layouts and
// is_sealed: the extents tile the payload without gaps, in the order [page][group][layer].
// Errors: kInvalidArgument naming the number that is out of range.
Status plan_object(ObjectHeader* header);

// Encodes with hashes or tags filled in by the caller; the other numbers must be those of
// plan_object(). Inverse of decode_header, byte for byte. `key`: not null if and only if the header
// is sealed.
std::vector<std::byte> encode_header(const ObjectHeader& header, const StoreKey* key = nullptr);

// `bytes`: the file's first bytes, at least 4096; when k > 1 and fewer are given, kInvalidArgument
// with the wanted size in `wanted` (when not null). `file_bytes`: the file's true size. `key`: null
// for a store without one. Errors: kCorruption (what and where); kUnsupported for an unknown
// version or seal, and for an object that is sealed with another key or not sealed where there is a
// key.
Result<ObjectHeader> decode_header(std::span<const std::byte> bytes,
                                   uint64_t file_bytes,
                                   size_t* wanted,
                                   const StoreKey* key = nullptr);

// Checks what a header claims against itself: keys chain from the parent, extents lie in order
// inside the file and fit the layouts. decode_header calls it.
Status check_header(const ObjectHeader& header);

}  // namespace cairn
