#include "store/object_format.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "base/coding.h"

namespace cairn {
namespace {

constexpr std::string_view kObjectMagic = "CAIRNOBJ";
constexpr uint32_t kEncodingF32 = 1;
constexpr uint32_t kEncodingBf16 = 2;
constexpr size_t kFixedBytes = 104;  // up to and including the created time
constexpr size_t kGroupBytes = 20;
constexpr size_t kExtentBytes = 24;
constexpr size_t kTrailerBytes = 8;
// A sealed header: prefix, salt, key id and the hash of these; ciphertext; tag.
constexpr uint8_t kSealNone = 0;
constexpr uint8_t kSealAesGcm = 1;
constexpr size_t kPrefixBytes = 64;
constexpr size_t kSaltOffset = kPrefixBytes;
constexpr size_t kKeyIdOffset = kSaltOffset + sizeof(SealSalt);
constexpr size_t kClearHashOffset = kKeyIdOffset + 8;
constexpr size_t kClearBytes = kClearHashOffset + 8;
constexpr size_t kSealedExtentBytes = 32;

uint32_t encoding_code(RowEncoding encoding) {
  return encoding == RowEncoding::kF32 ? kEncodingF32 : kEncodingBf16;
}

Status check_layout(const PageLayout& layout, size_t group, uint32_t page_tokens) {
  const auto refuse = [&](std::string_view field, uint32_t found, std::string_view wanted) {
    return Status::invalid_argument(
        fmt::format("group {}: {} is {}, supported: {}", group, field, found, wanted));
  };
  if (layout.n_layers < 1 || layout.n_layers > kMaxObjectLayers) {
    return refuse("n_layers", layout.n_layers, "1 to 4096");
  }
  if (layout.n_kv_heads < 1 || layout.n_kv_heads > kMaxObjectKvHeads) {
    return refuse("n_kv_heads", layout.n_kv_heads, "1 to 1024");
  }
  if (layout.head_dim < 2 || layout.head_dim > kMaxObjectHeadDim || layout.head_dim % 2 != 0) {
    return refuse("head_dim", layout.head_dim, "even, 2 to 65536");
  }
  if (layout.page_tokens < kStripTokens || layout.page_tokens > kMaxObjectPageTokens ||
      layout.page_tokens % kStripTokens != 0) {
    return refuse("page_tokens", layout.page_tokens, "multiples of 16, 16 to 4096");
  }
  if (layout.page_tokens != page_tokens) {
    return refuse("page_tokens", layout.page_tokens, "the same for every group");
  }
  if (layout.layer_bytes() > kMaxLayerBytes) {
    return Status::invalid_argument(
        fmt::format("group {}: a layer of a page takes {} bytes, supported: up to {}",
                    group,
                    layout.layer_bytes(),
                    kMaxLayerBytes));
  }
  return Status::ok();
}

// Every record of an anchor but the last one is full.
Status check_anchor(const ObjectHeader& header) {
  const size_t n_records = header.pages.size();
  if (n_records < 1 || n_records > kMaxRunPages || !header.layouts.empty()) {
    return Status::invalid_argument(
        fmt::format("an anchor of {} records and {} cache groups, supported: 1 to {} and none",
                    n_records,
                    header.layouts.size(),
                    kMaxRunPages));
  }
  for (size_t i = 0; i < n_records; ++i) {
    const size_t n = header.pages[i].tokens.size();
    const bool is_last = i + 1 == n_records;
    if (n < 1 || n > kMaxObjectPageTokens || (!is_last && n != kMaxObjectPageTokens)) {
      return Status::invalid_argument(
          fmt::format("record {} of an anchor has {} token ids, a full one has {}",
                      i,
                      n,
                      kMaxObjectPageTokens));
    }
  }
  return Status::ok();
}

Status check_pages(const ObjectHeader& header) {
  const size_t n_pages = header.pages.size();
  const size_t n_pages_max = header.kind == ObjectKind::kLeaf ? 1 : kMaxRunPages;
  if (n_pages < 1 || n_pages > n_pages_max) {
    return Status::invalid_argument(fmt::format(
        "a {} of {} pages, supported: 1 to {}", to_string(header.kind), n_pages, n_pages_max));
  }
  const uint32_t page_tokens = header.layouts.front().page_tokens;
  for (size_t i = 0; i < n_pages; ++i) {
    const size_t n = header.pages[i].tokens.size();
    const bool fits =
        header.kind == ObjectKind::kLeaf ? n >= 1 && n < page_tokens : n == page_tokens;
    if (!fits) {
      return Status::invalid_argument(
          fmt::format("page {} of a {} has {} tokens, a full page has {}",
                      i,
                      to_string(header.kind),
                      n,
                      page_tokens));
    }
  }
  return Status::ok();
}

// The numbers of layouts and pages; `n_layers` over all groups.
Status check_shape(const ObjectHeader& header, size_t* n_layers) {
  if (header.kind == ObjectKind::kAnchor) return check_anchor(header);
  if (header.layouts.empty() || header.layouts.size() > kMaxObjectGroups) {
    return Status::invalid_argument(fmt::format(
        "{} cache groups, supported: 1 to {}", header.layouts.size(), kMaxObjectGroups));
  }
  for (size_t g = 0; g < header.layouts.size(); ++g) {
    CAIRN_RETURN_IF_ERROR(check_layout(header.layouts[g], g, header.layouts.front().page_tokens));
    *n_layers += header.layouts[g].n_layers;
  }
  return check_pages(header);
}

uint64_t header_size(const ObjectHeader& header, size_t n_extents) {
  uint64_t n = kFixedBytes + header.layouts.size() * kGroupBytes;
  n += n_extents * (header.is_sealed ? kSealedExtentBytes : kExtentBytes);
  for (const PageRecord& page : header.pages) n += 32 + 4 + page.tokens.size() * 4;
  // A sealed body begins with the true root key, which the prefix does not tell.
  n += header.is_sealed ? kClearBytes - kPrefixBytes + sizeof(RootKey) + sizeof(SealTag)
                        : kTrailerBytes;
  return (n + kHeaderBlockBytes - 1) / kHeaderBlockBytes * kHeaderBlockBytes;
}

Result<PageLayout> read_layout(ByteReader& reader) {
  PageLayout layout;
  CAIRN_ASSIGN_OR_RETURN(const uint32_t encoding, reader.u32("row encoding"));
  CAIRN_ASSIGN_OR_RETURN(layout.n_layers, reader.u32("n_layers"));
  CAIRN_ASSIGN_OR_RETURN(layout.n_kv_heads, reader.u32("n_kv_heads"));
  CAIRN_ASSIGN_OR_RETURN(layout.head_dim, reader.u32("head_dim"));
  CAIRN_ASSIGN_OR_RETURN(layout.page_tokens, reader.u32("page_tokens"));
  if (encoding != kEncodingF32 && encoding != kEncodingBf16) {
    return Status::unsupported(
        fmt::format("row encoding {}, this version reads {} (f32) and {} (bf16)",
                    encoding,
                    kEncodingF32,
                    kEncodingBf16));
  }
  layout.encoding = encoding == kEncodingF32 ? RowEncoding::kF32 : RowEncoding::kBf16;
  return layout;
}

Result<PageRecord> read_page(ByteReader& reader) {
  PageRecord page;
  CAIRN_ASSIGN_OR_RETURN(page.key, read_digest(reader, "page key"));
  CAIRN_ASSIGN_OR_RETURN(const uint32_t n_tokens, reader.u32("token count"));
  if (n_tokens > kMaxObjectPageTokens) {
    return Status::corruption(fmt::format(
        "a page of {} tokens, at most {} are possible", n_tokens, kMaxObjectPageTokens));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::span<const std::byte> raw,
                         reader.bytes(uint64_t{n_tokens} * 4, "token ids"));
  page.tokens.reserve(n_tokens);
  for (uint32_t i = 0; i < n_tokens; ++i)
    page.tokens.push_back(load_le<uint32_t>(&raw[i * size_t{4}]));
  return page;
}

// The numbers in the first 64 bytes that say how to go on.
struct Prefix {
  uint32_t header_bytes = 0;
  uint8_t kind = 0;
  uint8_t seal = 0;
  RootKey root;  // its name on disk when sealed
  uint64_t file_bytes = 0;
  uint32_t n_pages = 0;
  uint32_t n_groups = 0;
};

Result<Prefix> read_prefix(std::span<const std::byte> bytes, uint64_t file_bytes) {
  if (file_bytes < kHeaderBlockBytes || bytes.size() < kHeaderBlockBytes) {
    return Status::corruption(fmt::format("{} bytes long, an object has at least {}",
                                          std::min<uint64_t>(file_bytes, bytes.size()),
                                          kHeaderBlockBytes));
  }
  if (!std::equal(kObjectMagic.begin(), kObjectMagic.end(), bytes.begin(), [](char c, std::byte b) {
        return static_cast<std::byte>(c) == b;
      })) {
    return Status::corruption("does not begin with CAIRNOBJ: not an object of this store");
  }
  const auto version = load_le<uint32_t>(&bytes[8]);
  if (version != kObjectFormatVersion) {
    return Status::unsupported(fmt::format(
        "object format version {}, this program reads version {}", version, kObjectFormatVersion));
  }
  const auto n_blocks = load_le<uint16_t>(&bytes[12]);
  Prefix prefix;
  prefix.header_bytes = n_blocks * static_cast<uint32_t>(kHeaderBlockBytes);
  if (n_blocks < 1 || n_blocks > kMaxHeaderBlocks || prefix.header_bytes > file_bytes) {
    return Status::corruption(
        fmt::format("header of {} blocks of 4 KiB in a file of {} bytes, 1 to {} are possible",
                    n_blocks,
                    file_bytes,
                    kMaxHeaderBlocks));
  }
  prefix.kind = static_cast<uint8_t>(bytes[14]);
  prefix.seal = static_cast<uint8_t>(bytes[15]);
  std::copy_n(bytes.begin() + 16, sizeof(RootKey), prefix.root.bytes.begin());
  prefix.file_bytes = load_le<uint64_t>(&bytes[48]);
  prefix.n_pages = load_le<uint32_t>(&bytes[56]);
  prefix.n_groups = load_le<uint32_t>(&bytes[60]);
  return prefix;
}

// Everything behind the prefix; counts are bounded before anything is reserved for them.
Status read_body(ByteReader& reader, const Prefix& prefix, ObjectHeader* header) {
  const uint32_t n_pages = prefix.n_pages;
  const uint32_t n_groups = prefix.n_groups;
  CAIRN_ASSIGN_OR_RETURN(header->parent, read_digest(reader, "parent key"));
  CAIRN_ASSIGN_OR_RETURN(header->created_unix, reader.i64("created time"));
  const uint32_t n_groups_min = header->kind == ObjectKind::kAnchor ? 0 : 1;
  if (n_pages < 1 || n_pages > kMaxRunPages || n_groups < n_groups_min ||
      n_groups > kMaxObjectGroups) {
    return Status::corruption(fmt::format("{} pages of {} groups, possible are 1 to {} and 1 to {}",
                                          n_pages,
                                          n_groups,
                                          kMaxRunPages,
                                          kMaxObjectGroups));
  }
  uint64_t n_layers = 0;
  for (uint32_t g = 0; g < n_groups; ++g) {
    CAIRN_ASSIGN_OR_RETURN(const PageLayout layout, read_layout(reader));
    n_layers += layout.n_layers;
    header->layouts.push_back(layout);
  }
  for (uint32_t p = 0; p < n_pages; ++p) {
    CAIRN_ASSIGN_OR_RETURN(PageRecord page, read_page(reader));
    header->pages.push_back(std::move(page));
  }
  const uint64_t n_extents = n_layers * n_pages;  // below 2^32 * 16 * 32
  const size_t extent_bytes = header->is_sealed ? kSealedExtentBytes : kExtentBytes;
  CAIRN_ASSIGN_OR_RETURN(const std::span<const std::byte> raw,
                         reader.bytes(n_extents * extent_bytes, "extent table"));
  header->extents.resize(n_extents);
  for (size_t i = 0; i < n_extents; ++i) {
    const std::byte* at = raw.data() + i * extent_bytes;
    Extent& extent = header->extents[i];
    extent.offset = load_le<uint64_t>(at);
    extent.length = load_le<uint64_t>(at + 8);
    if (header->is_sealed) {
      std::copy_n(at + 16, sizeof(SealTag), extent.tag.begin());
    } else {
      extent.hash = load_le<uint64_t>(at + 16);
    }
  }
  const auto rest = reader.bytes(reader.remaining(), "padding");
  if (std::any_of(rest->begin(), rest->end(), [](std::byte b) { return b != std::byte{0}; })) {
    return Status::corruption("the header's padding is not zero");
  }
  return Status::ok();
}

// Fields behind the prefix, then zeros, so that `n_behind` bytes are left of the header.
void write_body(const ObjectHeader& header, size_t n_behind, ByteWriter* out) {
  out->bytes(header.parent.bytes);
  out->i64(header.created_unix);
  for (const PageLayout& layout : header.layouts) {
    out->u32(encoding_code(layout.encoding));
    out->u32(layout.n_layers);
    out->u32(layout.n_kv_heads);
    out->u32(layout.head_dim);
    out->u32(layout.page_tokens);
  }
  for (const PageRecord& page : header.pages) {
    out->bytes(page.key.bytes);
    out->u32(static_cast<uint32_t>(page.tokens.size()));
    for (const TokenId id : page.tokens) out->u32(id);
  }
  for (const Extent& extent : header.extents) {
    out->u64(extent.offset);
    out->u64(extent.length);
    if (header.is_sealed) {
      out->bytes(extent.tag);
    } else {
      out->u64(extent.hash);
    }
  }
  CAIRN_CHECK(out->size() + n_behind <= header.header_bytes, "header_bytes is not plan_object()'s");
  out->zeros(header.header_bytes - n_behind - out->size());
}

Result<ObjectKind> read_kind(const Prefix& prefix) {
  const std::optional<ObjectKind> kind = object_kind(prefix.kind);
  if (kind) return *kind;
  return Status::unsupported(fmt::format(
      "object kind {}, this program reads 1 (run), 2 (leaf) and 3 (anchor)", prefix.kind));
}

Status read_plain_header(std::span<const std::byte> bytes,
                         const Prefix& prefix,
                         const StoreKey* key,
                         ObjectHeader* header) {
  const std::span<const std::byte> hashed = bytes.first(bytes.size() - kTrailerBytes);
  const auto stored = load_le<uint64_t>(bytes.data() + hashed.size());
  const uint64_t computed = xxh3_64(hashed);
  if (stored != computed) {
    return Status::corruption(
        fmt::format("header hash is {:016x}, its bytes give {:016x}", stored, computed));
  }
  if (prefix.seal != kSealNone) {
    return Status::unsupported(
        fmt::format("seal {}, this program reads 0 (none) and 1 (AES-256-GCM)", prefix.seal));
  }
  if (key != nullptr) {
    return Status::unsupported("not sealed, and the store was opened with a key");
  }
  CAIRN_ASSIGN_OR_RETURN(header->kind, read_kind(prefix));
  header->root = prefix.root;
  ByteReader reader(hashed.subspan(kPrefixBytes));
  return read_body(reader, prefix, header);
}

// What is in the clear has a hash of its own, so that damage to it is not taken for another key.
Status open_header(std::span<const std::byte> bytes,
                   const Prefix& prefix,
                   const StoreKey* key,
                   ObjectHeader* header) {
  const auto stored = load_le<uint64_t>(&bytes[kClearHashOffset]);
  const uint64_t computed = xxh3_64(bytes.first(kClearHashOffset));
  if (stored != computed) {
    return Status::corruption(fmt::format(
        "hash of the header's front is {:016x}, its bytes give {:016x}", stored, computed));
  }
  const auto key_id = load_le<uint64_t>(&bytes[kKeyIdOffset]);
  if (key == nullptr) {
    return Status::unsupported(fmt::format(
        "sealed with key {:016x}, and the store was opened without; give --store-key-file",
        key_id));
  }
  if (key_id != key->id()) {
    return Status::unsupported(fmt::format(
        "sealed with key {:016x}, and the store was opened with {:016x}", key_id, key->id()));
  }
  CAIRN_ASSIGN_OR_RETURN(header->kind, read_kind(prefix));
  std::copy_n(bytes.begin() + kSaltOffset, sizeof(SealSalt), header->salt.begin());
  SealTag tag;
  std::copy_n(bytes.end() - sizeof(SealTag), sizeof(SealTag), tag.begin());
  const auto sealed = bytes.subspan(kClearBytes, bytes.size() - kClearBytes - sizeof(SealTag));
  std::vector<std::byte> body(sealed.size());
  if (!key->object_cipher(header->salt)
           .open(counted_nonce(0), bytes.first(kClearBytes), sealed, tag, body.data())) {
    return Status::corruption("the header's tag is not that of its bytes");
  }
  ByteReader reader(body);
  CAIRN_ASSIGN_OR_RETURN(header->root, read_digest(reader, "root key"));
  if (key->disk_name(header->root) != prefix.root)
    return Status::corruption("the root key is not that of its name");
  return read_body(reader, prefix, header);
}

Status check_extents(const ObjectHeader& header) {
  ObjectHeader planned;
  planned.kind = header.kind;
  planned.is_sealed = header.is_sealed;
  planned.layouts = header.layouts;
  planned.pages = header.pages;
  CAIRN_RETURN_IF_ERROR(plan_object(&planned));
  if (planned.header_bytes != header.header_bytes || planned.file_bytes != header.file_bytes) {
    return Status::corruption(
        fmt::format("claims a header of {} bytes in a file of {}, its pages need {} and {}",
                    header.header_bytes,
                    header.file_bytes,
                    planned.header_bytes,
                    planned.file_bytes));
  }
  if (planned.extents.size() != header.extents.size()) {
    return Status::corruption(fmt::format(
        "{} extents, its pages have {} layers", header.extents.size(), planned.extents.size()));
  }
  for (size_t i = 0; i < planned.extents.size(); ++i) {
    const Extent& want = planned.extents[i];
    const Extent& found = header.extents[i];
    if (want.offset != found.offset || want.length != found.length) {
      return Status::corruption(
          fmt::format("extent {} is {} bytes at {}, its layout wants {} at {}",
                      i,
                      found.length,
                      found.offset,
                      want.length,
                      want.offset));
    }
  }
  return Status::ok();
}

}  // namespace

Result<Digest> read_digest(ByteReader& reader, std::string_view what) {
  CAIRN_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, reader.bytes(32, what));
  Digest digest;
  std::copy(bytes.begin(), bytes.end(), digest.bytes.begin());
  return digest;
}

std::string_view to_string(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kRun:
      return "run";
    case ObjectKind::kLeaf:
      return "leaf";
    case ObjectKind::kAnchor:
      return "anchor";
  }
  check_failed("kind", __FILE__, __LINE__, "unknown object kind");
}

std::optional<ObjectKind> object_kind(uint8_t number) {
  for (const ObjectKind kind : {ObjectKind::kRun, ObjectKind::kLeaf, ObjectKind::kAnchor}) {
    if (static_cast<uint8_t>(kind) == number) return kind;
  }
  return std::nullopt;
}

size_t packed_layer_bytes(const PageLayout& layout, uint32_t n_tokens) {
  if (n_tokens >= layout.page_tokens) return layout.layer_bytes();
  const size_t n_strips = (size_t{n_tokens} + kStripTokens - 1) / kStripTokens;
  return size_t{2} * layout.n_kv_heads * n_strips * layout.strip_bytes();
}

Status plan_object(ObjectHeader* header) {
  size_t n_layers = 0;
  CAIRN_RETURN_IF_ERROR(check_shape(*header, &n_layers));
  const size_t n_extents = n_layers * header->pages.size();
  const uint64_t header_bytes = header_size(*header, n_extents);
  if (header_bytes > uint64_t{kMaxHeaderBlocks} * kHeaderBlockBytes) {
    return Status::invalid_argument(fmt::format(
        "a header of {} bytes, at most {} blocks of 4 KiB are supported: use shorter runs",
        header_bytes,
        kMaxHeaderBlocks));
  }
  header->header_bytes = static_cast<uint32_t>(header_bytes);
  header->extents.clear();
  header->extents.reserve(n_extents);
  uint64_t offset = header_bytes;
  for (const PageRecord& page : header->pages) {
    for (const PageLayout& layout : header->layouts) {
      const size_t length = packed_layer_bytes(layout, static_cast<uint32_t>(page.tokens.size()));
      if (header->is_sealed && length > kMaxSealedLayerBytes) {
        return Status::invalid_argument(
            fmt::format("a layer of a page takes {} bytes, at most {} can be sealed",
                        length,
                        kMaxSealedLayerBytes));
      }
      for (uint32_t layer = 0; layer < layout.n_layers; ++layer) {
        header->extents.push_back({offset, length, 0});
        offset += length;
      }
    }
  }
  header->file_bytes = offset;
  return Status::ok();
}

SealNonce extent_nonce(size_t extent_idx) {
  return counted_nonce(extent_idx + 1);
}

Status check_extent(const Extent& extent,
                    size_t extent_idx,
                    Aes256Gcm* cipher,
                    std::span<std::byte> bytes) {
  if (cipher != nullptr) {
    if (cipher->open(extent_nonce(extent_idx), {}, bytes, extent.tag, bytes.data()))
      return Status::ok();
    return Status::corruption(fmt::format(
        "extent {} at {}: the tag is not that of its bytes", extent_idx, extent.offset));
  }
  const uint64_t hash = xxh3_64(bytes);
  if (hash == extent.hash) return Status::ok();
  return Status::corruption(fmt::format(
      "extent {} at {}: XXH3 {:016x}, want {:016x}", extent_idx, extent.offset, hash, extent.hash));
}

std::vector<std::byte> encode_header(const ObjectHeader& header, const StoreKey* key) {
  CAIRN_CHECK(header.is_sealed == (key != nullptr), "a seal without a key, or a key without one");
  ByteWriter out;
  out.mutable_view().reserve(header.header_bytes);
  out.bytes(as_bytes(kObjectMagic));
  out.u32(kObjectFormatVersion);
  out.u16(static_cast<uint16_t>(header.header_bytes / kHeaderBlockBytes));
  out.u8(static_cast<uint8_t>(header.kind));
  out.u8(key == nullptr ? kSealNone : kSealAesGcm);
  out.bytes(key == nullptr ? header.root.bytes : key->disk_name(header.root).bytes);
  out.u64(header.file_bytes);
  out.u32(static_cast<uint32_t>(header.pages.size()));
  out.u32(static_cast<uint32_t>(header.layouts.size()));
  if (key == nullptr) {
    write_body(header, kTrailerBytes, &out);
    out.u64(xxh3_64(out.view()));
    return out.take();
  }
  out.bytes(header.salt);
  out.u64(key->id());
  out.u64(xxh3_64(out.view()));
  out.bytes(header.root.bytes);
  write_body(header, sizeof(SealTag), &out);
  const std::span<std::byte> bytes(out.mutable_view());
  const std::span<std::byte> body = bytes.subspan(kClearBytes);
  const SealTag tag = key->object_cipher(header.salt)
                          .seal(counted_nonce(0), bytes.first(kClearBytes), body, body.data());
  out.bytes(tag);
  return out.take();
}

Result<ObjectHeader> decode_header(std::span<const std::byte> bytes,
                                   uint64_t file_bytes,
                                   size_t* wanted,
                                   const StoreKey* key) {
  CAIRN_ASSIGN_OR_RETURN(const Prefix prefix, read_prefix(bytes, file_bytes));
  if (bytes.size() < prefix.header_bytes) {
    if (wanted != nullptr) *wanted = prefix.header_bytes;
    return Status::invalid_argument(
        fmt::format("the header takes {} bytes, {} were given", prefix.header_bytes, bytes.size()));
  }
  bytes = bytes.first(prefix.header_bytes);
  ObjectHeader header;
  header.header_bytes = prefix.header_bytes;
  header.file_bytes = prefix.file_bytes;
  header.is_sealed = prefix.seal == kSealAesGcm;
  if (header.is_sealed) {
    CAIRN_RETURN_IF_ERROR(open_header(bytes, prefix, key, &header));
  } else {
    CAIRN_RETURN_IF_ERROR(read_plain_header(bytes, prefix, key, &header));
  }
  if (header.file_bytes != file_bytes) {
    return Status::corruption(
        fmt::format("the file has {} bytes, its header says {}", file_bytes, header.file_bytes));
  }
  CAIRN_RETURN_IF_ERROR(check_header(header));
  return header;
}

Status check_header(const ObjectHeader& header) {
  const Status extents = check_extents(header);
  if (extents.code() == StatusCode::kInvalidArgument) return Status::corruption(extents.message());
  CAIRN_RETURN_IF_ERROR(extents);
  const PageKey* parent = &header.parent;
  for (size_t i = 0; i < header.pages.size(); ++i) {
    const PageRecord& page = header.pages[i];
    // An anchor's own key comes from its text, which is not in here.
    if (header.kind == ObjectKind::kAnchor && i + 1 == header.pages.size()) break;
    if (chain_key(*parent, page.tokens) != page.key) {
      return Status::corruption(fmt::format(
          "key {} of page {} is not that of its parent and token ids", to_hex(page.key), i));
    }
    parent = &page.key;
  }
  return Status::ok();
}

}  // namespace cairn
