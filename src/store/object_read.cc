#include "store/object_read.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "store/page_packing.h"

namespace cairn {
namespace {

// One read is at most so long, but never less than a layer. Reads from memory are hashed while the
// copy is still in the second-level cache.
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kInlineChunkBytes = size_t{256} << 10;

std::string describe(const RootKey& root, ObjectKind kind, size_t n_pages, const PageKey& key) {
  return fmt::format(
      "a {} of {} pages, key {}, root {}", to_string(kind), n_pages, to_hex(key), to_hex(root));
}

bool same_pages(std::span<const PageRecord> a, std::span<const PageRecord> b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const PageRecord& x, const PageRecord& y) {
        return x.key == y.key && x.tokens == y.tokens;
      });
}

}  // namespace

Result<std::unique_ptr<ObjectRead>> ObjectRead::start(FileSystem& fs,
                                                      std::string path,
                                                      const ObjectEntry& entry,
                                                      std::span<const PageLayout> layouts,
                                                      std::span<const PageTarget> targets,
                                                      bool direct_io,
                                                      const StoreKey* key) {
  std::unique_ptr<ObjectRead> read(new ObjectRead(std::move(path), entry, layouts, targets, key));
  CAIRN_RETURN_IF_ERROR(read->plan());
  const bool direct = direct_io && read->may_read_direct();
  CAIRN_ASSIGN_OR_RETURN(read->file_,
                         fs.open(read->path_, {.mode = FileMode::kRead, .direct = direct}));
  CAIRN_ASSIGN_OR_RETURN(const FileStat stat, read->file_->stat());
  if (stat.size_bytes != read->planned_.file_bytes) {
    return Status::corruption(fmt::format("{}: {} bytes long, its pages take {}",
                                          read->path_,
                                          stat.size_bytes,
                                          read->planned_.file_bytes));
  }
  for (const PageTarget& target : targets) read->plan_chunks(target);
  read->advise();
  return read;
}

// Buffered reads: lets the system read ahead of us. No error of it matters.
void ObjectRead::advise() const {
  if (file_->is_direct() || file_->native_fd() < 0) return;
  for (const Chunk& chunk : chunks_) {
    const auto offset = static_cast<off_t>(planned_.extents[chunk.first_extent].offset);
    static_cast<void>(::posix_fadvise(
        file_->native_fd(), offset, static_cast<off_t>(chunk.n_bytes), POSIX_FADV_WILLNEED));
  }
}

Status ObjectRead::plan() {
  planned_.kind = entry_.kind;
  planned_.is_sealed = key_ != nullptr;
  planned_.pages = entry_.pages;
  planned_.layouts.assign(layouts_.begin(), layouts_.end());
  if (entry_.pages.empty()) return Status::invalid_argument(path_ + ": an entry without pages");
  CAIRN_RETURN_IF_ERROR(plan_object(&planned_).with_prefix(path_));
  if (planned_.file_bytes != entry_.file_bytes) {
    return Status::corruption(fmt::format("{}: the index says {} bytes, its pages take {}",
                                          path_,
                                          entry_.file_bytes,
                                          planned_.file_bytes));
  }
  for (const PageTarget& target : targets_) {
    if (target.page_index >= entry_.pages.size() || target.bytes.size() != layouts_.size()) {
      return Status::invalid_argument(fmt::format("{}: page {} of {} into {} of {} groups",
                                                  path_,
                                                  target.page_index,
                                                  entry_.pages.size(),
                                                  target.bytes.size(),
                                                  layouts_.size()));
    }
  }
  header_bytes_ = AlignedBytes(planned_.header_bytes);
  return Status::ok();
}

bool ObjectRead::may_read_direct() const {
  if (entry_.kind != ObjectKind::kRun) return false;
  for (const PageLayout& layout : layouts_) {
    if (!is_direct_aligned(layout.payload_bytes())) return false;
  }
  for (const PageTarget& target : targets_) {
    if (!std::ranges::all_of(target.bytes,
                             [](const std::byte* p) { return is_direct_aligned(p); })) {
      return false;
    }
  }
  return true;
}

void ObjectRead::plan_chunks(const PageTarget& target) {
  const size_t chunk_bytes = has_native_file() ? kChunkBytes : kInlineChunkBytes;
  const auto n_tokens = static_cast<uint32_t>(entry_.pages[target.page_index].tokens.size());
  const size_t n_layers_all = planned_.extents.size() / entry_.pages.size();
  size_t first_extent = target.page_index * n_layers_all;
  for (size_t g = 0; g < layouts_.size(); ++g) {
    const PageLayout& layout = layouts_[g];
    const size_t layer_bytes = packed_layer_bytes(layout, n_tokens);
    // A direct read must begin and end at a multiple of 4 KiB; where layers do not, the page is one
    // read.
    size_t n_layers = std::max<size_t>(1, chunk_bytes / layer_bytes);
    if (file_->is_direct() && !is_direct_aligned(layer_bytes)) n_layers = layout.n_layers;
    std::byte* out = target.bytes[g] + packed_offset(layout, n_tokens);
    for (size_t layer = 0; layer < layout.n_layers; layer += n_layers) {
      const size_t n = std::min<size_t>(n_layers, layout.n_layers - layer);
      chunks_.push_back({first_extent + layer, n, out + layer * layer_bytes, n * layer_bytes});
      n_bytes_ += n * layer_bytes;
    }
    first_extent += layout.n_layers;
  }
}

std::optional<ReadRequest> ObjectRead::next_request() {
  if (!status_.is_ok() || n_submitted_ > chunks_.size()) return std::nullopt;
  ReadRequest request;
  request.file = file_.get();
  request.tag = n_submitted_;
  if (n_submitted_ == 0) {
    request.out = header_bytes_.span();
  } else {
    const Chunk& chunk = chunks_[n_submitted_ - 1];
    request.offset = planned_.extents[chunk.first_extent].offset;
    request.out = {chunk.out, chunk.n_bytes};
  }
  ++n_submitted_;
  return request;
}

void ObjectRead::complete(uint64_t tag, Status status) {
  ++n_completed_;
  if (!status.is_ok()) return fail(std::move(status));
  if (!status_.is_ok()) return;
  if (tag == 0) {
    status = check_opened_header();
    for (size_t i = 0; status.is_ok() && i < early_.size(); ++i)
      status = verify(chunks_[early_[i]]);
  } else if (!header_) {
    early_.push_back(tag - 1);
  } else {
    status = verify(chunks_[tag - 1]);
  }
  if (!status.is_ok()) fail(status.with_prefix(path_));
}

void ObjectRead::fail(Status status) {
  if (status_.is_ok()) status_ = std::move(status);
}

Status ObjectRead::check_opened_header() {
  size_t wanted = 0;
  auto decoded = decode_header(header_bytes_.span(), planned_.file_bytes, &wanted, key_);
  if (decoded.status().code() == StatusCode::kInvalidArgument) {
    return Status::corruption(
        fmt::format("a header of {} bytes, its pages need {}", wanted, planned_.header_bytes));
  }
  CAIRN_RETURN_IF_ERROR(decoded.status());
  const ObjectHeader& found = *decoded;
  const bool is_same = found.root == entry_.root && found.kind == entry_.kind &&
                       found.parent == entry_.parent && found.layouts == planned_.layouts &&
                       same_pages(found.pages, entry_.pages);
  if (!is_same) {
    return Status::corruption(
        fmt::format("holds {}; wanted {}: another object under this name",
                    describe(found.root, found.kind, found.pages.size(), found.key()),
                    describe(entry_.root, entry_.kind, entry_.pages.size(), entry_.key())));
  }
  header_ = std::move(decoded).value();
  if (header_->is_sealed) cipher_.emplace(key_->object_cipher(header_->salt));
  return Status::ok();
}

Status ObjectRead::verify(const Chunk& chunk) {
  std::byte* at = chunk.out;
  for (size_t i = chunk.first_extent; i < chunk.first_extent + chunk.n_extents; ++i) {
    const Extent& extent = header_->extents[i];
    CAIRN_RETURN_IF_ERROR(
        check_extent(extent, i, cipher_ ? &*cipher_ : nullptr, {at, extent.length}));
    at += extent.length;
  }
  return Status::ok();
}

bool ObjectRead::is_finished() const {
  return n_completed_ == n_submitted_ && (!status_.is_ok() || n_submitted_ == chunks_.size() + 1);
}

Status ObjectRead::finish() {
  CAIRN_RETURN_IF_ERROR(status_);
  for (const PageTarget& target : targets_) {
    const auto n_tokens = static_cast<uint32_t>(entry_.pages[target.page_index].tokens.size());
    for (size_t g = 0; g < layouts_.size(); ++g) {
      const PageLayout& layout = layouts_[g];
      std::byte* page = target.bytes[g];
      if (n_tokens < layout.page_tokens) {
        unpack_in_place(layout, n_tokens, page);
      } else {
        std::memset(page + layout.payload_bytes(), 0, layout.page_bytes() - layout.payload_bytes());
      }
    }
  }
  return Status::ok();
}

}  // namespace cairn
