#include "store/object_write.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
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

Result<ObjectHeader> plan_source(const ObjectSource& source, int64_t created_unix) {
  ObjectHeader header;
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

void copy_aligned(const ObjectHeader& header, AlignedBytes* out) {
  const std::vector<std::byte> encoded = encode_header(header);
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
  copy_aligned(*header, &head);
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

Status write_leaf(File& file, const ObjectSource& source, ObjectHeader* header) {
  const auto n_tokens = static_cast<uint32_t>(source.pages.front().tokens.size());
  size_t layer_bytes_max = 0;
  for (const Extent& extent : header->extents)
    layer_bytes_max = std::max<size_t>(layer_bytes_max, extent.length);
  const uint64_t payload_bytes = header->file_bytes - header->header_bytes;
  const size_t staging_bytes = std::max(
      layer_bytes_max, static_cast<size_t>(std::min<uint64_t>(payload_bytes, kStagingBytes)));
  AlignedBytes staging(staging_bytes);
  BatchWriter writer(file, header->header_bytes, SIZE_MAX);
  size_t used = 0;
  size_t extent_idx = 0;
  for (size_t g = 0; g < source.layouts.size(); ++g) {
    for (uint32_t layer = 0; layer < source.layouts[g].n_layers; ++layer) {
      Extent& extent = header->extents[extent_idx++];
      if (used + extent.length > staging_bytes) {
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

Result<ObjectHeader> read_header(File& file) {
  CAIRN_ASSIGN_OR_RETURN(const FileStat stat, file.stat());
  std::vector<std::byte> bytes(std::min<uint64_t>(kHeaderBlockBytes, stat.size_bytes));
  CAIRN_RETURN_IF_ERROR(file.read_at(0, bytes));
  size_t wanted = 0;
  auto header = decode_header(bytes, stat.size_bytes, &wanted);
  if (wanted == 0) return header;
  bytes.resize(wanted);
  CAIRN_RETURN_IF_ERROR(file.read_at(0, bytes));
  return decode_header(bytes, stat.size_bytes, nullptr);
}

}  // namespace

Result<WrittenObject> write_object_file(FileSystem& fs,
                                        const std::string& path,
                                        const ObjectSource& source,
                                        int64_t created_unix,
                                        bool direct_io) {
  CAIRN_ASSIGN_OR_RETURN(ObjectHeader header, plan_source(source, created_unix));
  const bool direct = direct_io && may_write_direct(source);
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                         fs.open(path, {.mode = FileMode::kWrite, .direct = direct}));
  Status status;
  if (source.kind == ObjectKind::kLeaf) {
    status = write_leaf(*file, source, &header);
  } else if (file->is_direct()) {
    status = write_direct(*file, source, &header);
  } else {
    status = write_buffered(*file, source, &header);
  }
  CAIRN_RETURN_IF_ERROR(status);
  return WrittenObject{std::move(header), std::move(file)};
}

Result<ObjectHeader> read_object_header(FileSystem& fs, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.open(path, {}));
  auto header = read_header(*file);
  if (!header.is_ok()) return header.status().with_prefix(path);
  return header;
}

Result<ObjectHeader> verify_object_file(FileSystem& fs, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.open(path, {}));
  auto header = read_header(*file);
  if (!header.is_ok()) return header.status().with_prefix(path);
  std::vector<std::byte> bytes;
  for (const Extent& extent : header->extents) {
    bytes.resize(extent.length);
    CAIRN_RETURN_IF_ERROR(file->read_at(extent.offset, bytes));
    const uint64_t hash = xxh3_64(bytes);
    if (hash != extent.hash) {
      return Status::corruption(fmt::format(
          "{} at {}: XXH3 {:016x}, want {:016x}", path, extent.offset, hash, extent.hash));
    }
  }
  return header;
}

}  // namespace cairn
