#include "store/object_write.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "store/aligned_bytes.h"
#include "store/page_packing.h"

namespace cairn {
namespace {

// Buffered writes go out in pieces that still lie in the second-level cache after hashing; a direct
// write bypasses the cache and is fastest whole.
constexpr size_t kBufferedBatchBytes = size_t{256} << 10;
constexpr size_t kStagingBytes = size_t{1} << 20;
constexpr size_t kSealedStagingBytes = size_t{4} << 20;

Result<ObjectHeader> plan_source(const ObjectSource& source,
                                 int64_t created_unix,
                                 const StoreKey* key) {
  ObjectHeader header;
  header.is_sealed = key != nullptr;
  if (header.is_sealed) random_bytes(header.salt);
  header.kind = source.kind;
  header.root = source.root;
  header.parent = source.parent;
  header.pages = source.pages;
  header.layouts = source.layouts;
  header.created_unix = created_unix;
  CAIRN_RETURN_IF_ERROR(plan_object(&header));
  const bool fits =
      source.bytes.size() == (source.kind == ObjectKind::kAnchor ? 0 : source.pages.size()) &&
      std::ranges::all_of(source.bytes, [&](const auto& groups) {
        return groups.size() == source.layouts.size() &&
               std::ranges::none_of(groups, [](const std::byte* p) { return p == nullptr; });
      });
  if (!fits) return Status::invalid_argument("an object's pages and their bytes differ in number");
  return header;
}

bool may_write_direct(const ObjectSource& source) {
  if (source.kind != ObjectKind::kRun) return false;
  for (const PageLayout& layout : source.layouts) {
    if (!is_direct_aligned(layout.payload_bytes())) return false;
  }
  return std::ranges::all_of(source.bytes, [](const auto& groups) {
    return std::ranges::all_of(groups, [](const std::byte* p) { return is_direct_aligned(p); });
  });
}

// Sealed bytes lie in staging, layer after layer: each must end where a direct write may.
bool may_seal_direct(const ObjectSource& source) {
  return source.kind == ObjectKind::kRun &&
         std::ranges::all_of(source.layouts, [](const PageLayout& layout) {
           return is_direct_aligned(layout.layer_bytes());
         });
}

// Collects parts and writes them in batches.
class BatchWriter {
 public:
  BatchWriter(File& file, uint64_t offset, size_t batch_bytes)
      : file_(file), offset_(offset), batch_bytes_(batch_bytes) {}

  // `bytes` must stay until the next flush().
  Status add(std::span<const std::byte> bytes) {
    const bool is_contiguous =
        !parts_.empty() && parts_.back().data() + parts_.back().size() == bytes.data();
    if (is_contiguous) {
      parts_.back() = {parts_.back().data(), parts_.back().size() + bytes.size()};
    } else {
      parts_.push_back(bytes);
    }
    n_bytes_ += bytes.size();
    return n_bytes_ >= batch_bytes_ ? flush() : Status::ok();
  }

  Status flush() {
    if (parts_.empty()) return Status::ok();
    CAIRN_RETURN_IF_ERROR(file_.write_at(offset_, parts_));
    offset_ += n_bytes_;
    n_bytes_ = 0;
    parts_.clear();
    return Status::ok();
  }

 private:
  File& file_;
  uint64_t offset_;
  size_t batch_bytes_;
  size_t n_bytes_ = 0;
  std::vector<std::span<const std::byte>> parts_;
};

void copy_aligned(const ObjectHeader& header, const StoreKey* key, AlignedBytes* out) {
  const std::vector<std::byte> encoded = encode_header(header, key);
  std::memcpy(out->data(), encoded.data(), encoded.size());
}

// Hashes everything first, then one write of header and pages.
Status write_direct(File& file, const ObjectSource& source, ObjectHeader* header) {
  std::vector<std::span<const std::byte>> parts(1);
  size_t extent_idx = 0;
  for (const auto& groups : source.bytes) {
    for (size_t g = 0; g < groups.size(); ++g) {
      const PageLayout& layout = source.layouts[g];
      for (uint32_t layer = 0; layer < layout.n_layers; ++layer) {
        const std::byte* at = groups[g] + layer * layout.layer_bytes();
        header->extents[extent_idx++].hash = xxh3_64({at, layout.layer_bytes()});
      }
      parts.emplace_back(groups[g], layout.payload_bytes());
    }
  }
  AlignedBytes head(header->header_bytes);
  copy_aligned(*header, nullptr, &head);
  parts.front() = head.span();
  return file.write_at(0, parts);
}

Status write_buffered(File& file, const ObjectSource& source, ObjectHeader* header) {
  BatchWriter writer(file, header->header_bytes, kBufferedBatchBytes);
  size_t extent_idx = 0;
  for (const auto& groups : source.bytes) {
    for (size_t g = 0; g < groups.size(); ++g) {
      const PageLayout& layout = source.layouts[g];
      for (uint32_t layer = 0; layer < layout.n_layers; ++layer) {
        const std::span<const std::byte> bytes(groups[g] + layer * layout.layer_bytes(),
                                               layout.layer_bytes());
        header->extents[extent_idx++].hash = xxh3_64(bytes);
        CAIRN_RETURN_IF_ERROR(writer.add(bytes));
      }
    }
  }
  CAIRN_RETURN_IF_ERROR(writer.flush());
  return file.write_at(0, encode_header(*header));
}

size_t largest_extent(const ObjectHeader& header) {
  uint64_t n_bytes = 0;
  for (const Extent& extent : header.extents) n_bytes = std::max(n_bytes, extent.length);
  return static_cast<size_t>(n_bytes);
}

// Of staging that holds the whole payload, or `n_bytes_wanted` of it, but never less than one
// layer.
size_t staging_size(const ObjectHeader& header, size_t n_bytes_wanted) {
  const uint64_t payload_bytes = header.file_bytes - header.header_bytes;
  return std::max(largest_extent(header),
                  static_cast<size_t>(std::min<uint64_t>(payload_bytes, n_bytes_wanted)));
}

Status write_leaf(File& file, const ObjectSource& source, ObjectHeader* header) {
  const auto n_tokens = static_cast<uint32_t>(source.pages.front().tokens.size());
  const AlignedBytes staging(staging_size(*header, kStagingBytes));
  BatchWriter writer(file, header->header_bytes, SIZE_MAX);
  size_t used = 0;
  size_t extent_idx = 0;
  for (size_t g = 0; g < source.layouts.size(); ++g) {
    for (uint32_t layer = 0; layer < source.layouts[g].n_layers; ++layer) {
      Extent& extent = header->extents[extent_idx++];
      if (used + extent.length > staging.size()) {
        CAIRN_RETURN_IF_ERROR(writer.flush());
        used = 0;
      }
      const std::span<std::byte> packed = staging.span().subspan(used, extent.length);
      pack_layer(source.layouts[g], layer, n_tokens, source.bytes.front()[g], packed.data());
      extent.hash = xxh3_64(packed);
      CAIRN_RETURN_IF_ERROR(writer.add(packed));
      used += extent.length;
    }
  }
  CAIRN_RETURN_IF_ERROR(writer.flush());
  return file.write_at(0, encode_header(*header));
}

// Pages are shared while they are written, so they are sealed into staging. The file's key is its
// own (a random salt) and each extent has its own nonce, so no pair is ever used twice.
class SealedWriter {
 public:
  SealedWriter(File& file, const StoreKey& key, AlignedBytes* staging, ObjectHeader* header)
      : header_(*header),
        cipher_(key.object_cipher(header->salt)),
        staging_(staging->span()),
        writer_(file, header->header_bytes, SIZE_MAX) {}

  // The next extent, in the order of the table.
  Status add(const PageLayout& layout, uint32_t layer, uint32_t n_tokens, const std::byte* page) {
    Extent& extent = header_.extents[extent_idx_];
    if (used_ + extent.length > staging_.size()) CAIRN_RETURN_IF_ERROR(flush());
    const std::span<std::byte> out = staging_.subspan(used_, extent.length);
    const bool is_packed = n_tokens < layout.page_tokens;
    if (is_packed) pack_layer(layout, layer, n_tokens, page, out.data());
    const std::byte* from = is_packed ? out.data() : page + layer * layout.layer_bytes();
    extent.tag = cipher_.seal(extent_nonce(extent_idx_++), {}, {from, out.size()}, out.data());
    used_ += out.size();
    return writer_.add(out);
  }

  Status flush() {
    used_ = 0;
    return writer_.flush();
  }

 private:
  ObjectHeader& header_;
  Aes256Gcm cipher_;
  std::span<std::byte> staging_;
  BatchWriter writer_;
  size_t used_ = 0;
  size_t extent_idx_ = 0;
};

Status write_sealed(File& file,
                    const ObjectSource& source,
                    const StoreKey& key,
                    AlignedBytes* staging,
                    ObjectHeader* header) {
  const size_t n_staging = staging_size(*header, kSealedStagingBytes);
  if (staging->size() < n_staging) *staging = AlignedBytes(n_staging);
  SealedWriter writer(file, key, staging, header);
  for (size_t p = 0; p < source.pages.size(); ++p) {
    const auto n_tokens = static_cast<uint32_t>(source.pages[p].tokens.size());
    for (size_t g = 0; g < source.layouts.size(); ++g) {
      for (uint32_t layer = 0; layer < source.layouts[g].n_layers; ++layer) {
        CAIRN_RETURN_IF_ERROR(writer.add(source.layouts[g], layer, n_tokens, source.bytes[p][g]));
      }
    }
  }
  CAIRN_RETURN_IF_ERROR(writer.flush());
  AlignedBytes head(header->header_bytes);
  copy_aligned(*header, &key, &head);
  return file.write_at(0, std::span<const std::byte>(head.span()));
}

Result<ObjectHeader> read_header(File& file, const StoreKey* key) {
  CAIRN_ASSIGN_OR_RETURN(const FileStat stat, file.stat());
  std::vector<std::byte> bytes(std::min<uint64_t>(kHeaderBlockBytes, stat.size_bytes));
  CAIRN_RETURN_IF_ERROR(file.read_at(0, bytes));
  size_t wanted = 0;
  auto header = decode_header(bytes, stat.size_bytes, &wanted, key);
  if (wanted == 0) return header;
  bytes.resize(wanted);
  CAIRN_RETURN_IF_ERROR(file.read_at(0, bytes));
  return decode_header(bytes, stat.size_bytes, nullptr, key);
}

}  // namespace

Result<WrittenObject> write_object_file(FileSystem& fs,
                                        const std::string& path,
                                        const ObjectSource& source,
                                        int64_t created_unix,
                                        bool direct_io,
                                        const WriteSeal& seal) {
  const StoreKey* key = seal.key;
  CAIRN_ASSIGN_OR_RETURN(ObjectHeader header, plan_source(source, created_unix, key));
  const bool direct =
      direct_io && (key != nullptr ? may_seal_direct(source) : may_write_direct(source));
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                         fs.open(path, {.mode = FileMode::kWrite, .direct = direct}));
  Status status;
  if (key != nullptr) {
    status = write_sealed(*file, source, *key, seal.staging, &header);
  } else if (source.kind == ObjectKind::kLeaf) {
    status = write_leaf(*file, source, &header);
  } else if (file->is_direct()) {
    status = write_direct(*file, source, &header);
  } else {
    status = write_buffered(*file, source, &header);
  }
  CAIRN_RETURN_IF_ERROR(status);
  return WrittenObject{std::move(header), std::move(file)};
}

Result<ObjectHeader> read_object_header(FileSystem& fs,
                                        const std::string& path,
                                        const StoreKey* key) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.open(path, {}));
  auto header = read_header(*file, key);
  if (!header.is_ok()) return header.status().with_prefix(path);
  return header;
}

Result<ObjectHeader> verify_object_file(FileSystem& fs,
                                        const std::string& path,
                                        const StoreKey* key) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.open(path, {}));
  auto header = read_header(*file, key);
  if (!header.is_ok()) return header.status().with_prefix(path);
  std::optional<Aes256Gcm> cipher;
  if (header->is_sealed) cipher.emplace(key->object_cipher(header->salt));
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < header->extents.size(); ++i) {
    const Extent& extent = header->extents[i];
    bytes.resize(extent.length);
    CAIRN_RETURN_IF_ERROR(file->read_at(extent.offset, bytes));
    const Status status = check_extent(extent, i, cipher ? &*cipher : nullptr, bytes);
    if (!status.is_ok()) return status.with_prefix(path);
  }
  return header;
}

}  // namespace cairn
