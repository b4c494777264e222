#include "store/store_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/coding.h"
#include "base/log.h"
#include "store/folder_contents.h"
#include "store/object_write.h"
#include "store/root_description.h"
#include "store/store_files_impl.h"

namespace cairn {
namespace {

constexpr size_t kCompactBytesMin = size_t{64} << 10;  // a smaller log is not worth an fsync

}  // namespace

std::string slug(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.size() == 48) break;
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_plain) {
      out.push_back(c);
    } else if (!out.empty() && out.back() != '-') {
      out.push_back('-');
    }
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.empty() ? "unnamed" : out;
}

// --- Impl ---------------------------------------------------------------------------------------

std::string StoreFiles::Impl::root_folder(const RootKey& root) const {
  return folder(to_hex(disk_name(root)));
}

std::string StoreFiles::Impl::log_name() const {
  return options.key == nullptr ? std::string(kIndexFileName)
                                : sealed_index_name(options.key->id());
}

std::string StoreFiles::Impl::object_folder(const RootKey& root, const PageKey& key) const {
  return root_folder(root) + "/" + to_hex(disk_name(key)).substr(0, 2);
}

std::string StoreFiles::Impl::object_path(const RootKey& root,
                                          ObjectKind kind,
                                          const PageKey& key) const {
  const std::string name = to_hex(disk_name(key));
  return fmt::format("{}/{}/{}.{}", root_folder(root), name.substr(0, 2), name, to_string(kind));
}

std::string StoreFiles::Impl::temp_path(std::string_view name) {
  return fmt::format("{}/{}.{}", folder("tmp"), ++n_temp_files, name);
}

Status StoreFiles::Impl::require_writable(std::string_view what) const {
  if (!options.read_only) return Status::ok();
  return Status::invalid_argument(
      fmt::format("{} in the store {}: it was opened for reading only", what, options.directory));
}

Status StoreFiles::Impl::ensure_folder(const std::string& path) {
  if (known_folders.contains(path)) return Status::ok();
  CAIRN_RETURN_IF_ERROR(fs.make_directories(path, 0700));
  known_folders.insert(path);
  return Status::ok();
}

void StoreFiles::Impl::forget_folder(const std::string& path) {
  if (changed_folders.erase(path) > 0) changed_folders.insert(parent_of(path));
  known_folders.erase(path);
  durable_folders.erase(path);
}

// The record goes before the rename: a record whose file is missing is a miss, a file without a
// record would only be found at the next start.
Status StoreFiles::Impl::publish(const PageKey& key,
                                 const std::string& temp,
                                 const std::string& path) {
  Status status = fs.rename(temp, path);
  if (status.code() == StatusCode::kNotFound) {
    // Somebody has removed the folder beside us.
    const std::string parent = path.substr(0, path.rfind('/'));
    forget_folder(parent);
    CAIRN_RETURN_IF_ERROR(ensure_folder(parent));
    status = fs.rename(temp, path);
  }
  if (!status.is_ok() && !log->append(encode_remove_record(key)).is_ok()) {
    log_warning("{}: its record stays in the index without a file; the next start drops it", path);
  }
  return status;
}

void StoreFiles::Impl::forget(const PageKey& key) {
  live_record_bytes.erase(key);
  if (unsynced.erase(key) > 0) std::erase(unsynced_files, key);
}

Status StoreFiles::Impl::set_aside(const std::string& path,
                                   std::string_view name,
                                   std::string_view reason) {
  CAIRN_RETURN_IF_ERROR(fs.make_directories(folder("quarantine"), 0700));
  const std::string target = fmt::format("{}/{}.{}", folder("quarantine"), name, slug(reason));
  log_warning("store: {} set aside as {}: {}", path, target, reason);
  return fs.rename(path, target);
}

// --- StoreFiles ---------------------------------------------------------------------------------

StoreFiles::StoreFiles(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StoreFiles::~StoreFiles() = default;

const std::string& StoreFiles::directory() const {
  return impl_->options.directory;
}

std::string StoreFiles::object_path(const RootKey& root,
                                    ObjectKind kind,
                                    const PageKey& key) const {
  return impl_->object_path(root, kind, key);
}

Result<std::unique_ptr<StoreFiles>> StoreFiles::open(FileSystem& fs,
                                                     const Clock& clock,
                                                     const StoreOptions& options,
                                                     OpenReport* report) {
  auto impl = std::make_unique<Impl>(fs, clock, options);
  CAIRN_ASSIGN_OR_RETURN(impl->queue, IoQueue::open(options.io_engine, options.read_depth));
  CAIRN_RETURN_IF_ERROR(impl->open(report));
  return std::unique_ptr<StoreFiles>(new StoreFiles(std::move(impl)));
}

Status StoreFiles::describe_root(const RootSpec& spec) {
  CAIRN_RETURN_IF_ERROR(impl_->require_writable("describe a root"));
  const RootKey root = root_key(spec);
  if (impl_->described_roots.contains(root)) return Status::ok();
  // What the fields of a sealed store's root are is nobody's business.
  if (impl_->options.key != nullptr) return Status::ok();
  const std::string folder = impl_->root_folder(root);
  CAIRN_RETURN_IF_ERROR(impl_->ensure_folder(folder));
  const std::string path = folder + "/" + std::string(kRootFileName);
  const Status existing = impl_->fs.stat(path).status();
  if (!existing.is_ok()) {
    const std::string text = encode_root_description(spec);
    CAIRN_RETURN_IF_ERROR(write_file_atomically(impl_->fs, path, as_bytes(text)));
  }
  impl_->described_roots.insert(root);
  return Status::ok();
}

Status StoreFiles::remove_empty_root(const RootKey& root) {
  CAIRN_RETURN_IF_ERROR(impl_->require_writable("remove a root"));
  const std::string path = impl_->root_folder(root);
  const auto entries = impl_->fs.list(path);
  if (!entries.is_ok()) {
    return entries.status().code() == StatusCode::kNotFound ? Status::ok() : entries.status();
  }
  for (const DirEntry& entry : *entries) {
    // Folders of objects go when they are empty; whatever else lies here is not ours.
    if (entry.name == kRootFileName) continue;
    const std::string inside = path + "/" + entry.name;
    if (!entry.is_directory || !impl_->fs.remove(inside).is_ok()) return Status::ok();
    impl_->forget_folder(inside);
  }
  impl_->described_roots.erase(root);
  const Status undescribed = impl_->fs.remove(path + "/" + std::string(kRootFileName));
  if (!undescribed.is_ok() && undescribed.code() != StatusCode::kNotFound) return undescribed;
  CAIRN_RETURN_IF_ERROR(impl_->fs.remove(path));
  impl_->forget_folder(path);
  return Status::ok();
}

Result<uint64_t> StoreFiles::write_object(const ObjectSource& source) {
  CAIRN_RETURN_IF_ERROR(impl_->require_writable("write an object"));
  if (source.pages.empty()) return Status::invalid_argument("an object without pages");
  const PageKey& key = source.pages.back().key;
  const std::string path = impl_->object_path(source.root, source.kind, key);
  CAIRN_RETURN_IF_ERROR(impl_->ensure_folder(impl_->object_folder(source.root, key)));

  const std::string temp = impl_->temp_path(to_hex(impl_->disk_name(key)));
  const int64_t now = impl_->clock.unix_seconds();
  const auto fail = [&](const Status& status) {
    // Best effort: what stays in tmp/ goes at the next start.
    static_cast<void>(impl_->fs.remove(temp).is_ok());
    return status.with_prefix(path);
  };
  auto written = write_object_file(impl_->fs,
                                   temp,
                                   source,
                                   now,
                                   impl_->options.direct_io,
                                   {impl_->options.key.get(), &impl_->sealed_staging});
  if (!written.is_ok()) return fail(written.status());
  // A name that is taken may be durable: its bytes must not be replaced by some that are not.
  const bool is_taken = impl_->live_record_bytes.contains(key);
  if (is_taken) {
    const Status status = written->file->sync();
    if (!status.is_ok()) return fail(status);
  }
  const uint64_t file_bytes = written->header.file_bytes;
  const ObjectEntry entry{source.root, source.kind, source.parent, source.pages, file_bytes, now};
  const std::vector<std::byte> record = encode_add_record(entry);
  Status status = impl_->log->append(record);
  if (!status.is_ok()) return fail(status);
  status = impl_->publish(key, temp, path);
  if (!status.is_ok()) return fail(status);
  impl_->forget(key);
  impl_->live_record_bytes[key] = impl_->record_bytes(record.size());
  impl_->track_unsynced(key, path, std::move(written->file));
  return file_bytes;
}

Status StoreFiles::sync() {
  CAIRN_RETURN_IF_ERROR(impl_->require_writable("sync"));
  return impl_->sync_all();
}

Status StoreFiles::quarantine(const ObjectEntry& entry, std::string_view reason) {
  CAIRN_RETURN_IF_ERROR(impl_->require_writable("quarantine an object"));
  const std::string name =
      fmt::format("{}.{}", to_hex(impl_->disk_name(entry.key())), to_string(entry.kind));
  const std::string path = impl_->object_path(entry.root, entry.kind, entry.key());
  const Status moved = impl_->set_aside(path, name, reason);
  impl_->changed_folders.insert(parent_of(path));
  impl_->forget(entry.key());
  CAIRN_RETURN_IF_ERROR(impl_->log->append(encode_remove_record(entry.key())));
  return moved;
}

Status StoreFiles::remove_object(const ObjectEntry& entry) {
  CAIRN_RETURN_IF_ERROR(impl_->require_writable("remove an object"));
  const std::string path = impl_->object_path(entry.root, entry.kind, entry.key());
  const Status removed = impl_->fs.remove(path);
  if (!removed.is_ok() && removed.code() != StatusCode::kNotFound) return removed;
  impl_->changed_folders.insert(parent_of(path));
  impl_->forget(entry.key());
  CAIRN_RETURN_IF_ERROR(impl_->log->append(encode_remove_record(entry.key())));
  return removed;
}

Status StoreFiles::record_use(std::span<const PageKey> object_keys, int64_t unix_seconds) {
  CAIRN_RETURN_IF_ERROR(impl_->require_writable("record a use"));
  while (!object_keys.empty()) {
    const size_t n = std::min(object_keys.size(), kMaxKeysPerUse);
    CAIRN_RETURN_IF_ERROR(
        impl_->log->append(encode_use_record(object_keys.first(n), unix_seconds)));
    object_keys = object_keys.subspan(n);
  }
  return Status::ok();
}

Status StoreFiles::compact_if_needed(std::span<const ObjectEntry> live) {
  CAIRN_RETURN_IF_ERROR(impl_->require_writable("compact the index"));
  uint64_t live_bytes = kIndexHeaderBytes;
  for (const auto& [key, n_bytes] : impl_->live_record_bytes) live_bytes += n_bytes;
  const uint64_t log_bytes = impl_->log->size_bytes();
  if (log_bytes < kCompactBytesMin || live_bytes * 2 >= log_bytes) return Status::ok();
  return impl_->rewrite_log(live);
}

}  // namespace cairn
