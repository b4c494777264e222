// Making published objects durable, for all of them together.
//
// Bytes first, then the log, then the names: a name that survives without its bytes is a damaged
// object (a miss), bytes without a name are rubbish in tmp/. Only when all of it has succeeded does
// a mark in the log say so; objects behind the last mark are synced again by the next process,
// because this one may be killed before its own sync.
#include <fmt/core.h>

#include <utility>

#include "base/coding.h"
#include "base/log.h"
#include "store/object_write.h"
#include "store/store_files_impl.h"

namespace cairn {
namespace {

constexpr size_t kOpenFilesMax = 64;  // of unsynced objects; an older one's bytes are synced early
constexpr size_t kCopyBytes = size_t{1} << 20;

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Writes the same bytes to another file and makes them durable there.
Status copy_durably(FileSystem& fs, const std::string& from, const std::string& to) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> in, fs.open(from, {}));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> out, fs.open(to, {.mode = FileMode::kWrite}));
  CAIRN_ASSIGN_OR_RETURN(const FileStat stat, in->stat());
  std::vector<std::byte> bytes;
  for (uint64_t offset = 0; offset < stat.size_bytes; offset += bytes.size()) {
    bytes.resize(std::min<uint64_t>(kCopyBytes, stat.size_bytes - offset));
    CAIRN_RETURN_IF_ERROR(in->read_at(offset, bytes));
    CAIRN_RETURN_IF_ERROR(out->write_at(offset, std::span<const std::byte>(bytes)));
  }
  return out->sync();
}

}  // namespace

void StoreFiles::Impl::track_unsynced(const PageKey& key,
                                      const std::string& path,
                                      std::unique_ptr<File> file) {
  UnsyncedObject& added = unsynced[key];
  added.path = path;
  added.file = std::move(file);
  unsynced_files.push_back(key);
  if (unsynced_files.size() <= kOpenFilesMax) return;
  const PageKey oldest = unsynced_files.front();
  UnsyncedObject& object = unsynced.at(oldest);
  const Status status = sync_data(oldest, object);
  // Not lost: sync() tries again and reports.
  if (!status.is_ok()) log_warning("store: {}", status.to_string());
}

// Syncs the bytes and closes the file.
Status StoreFiles::Impl::sync_data(const PageKey& key, UnsyncedObject& object) {
  if (object.data_is_synced) return Status::ok();
  if (object.sync_has_failed) return write_anew(key, object);
  if (object.file == nullptr) {
    CAIRN_ASSIGN_OR_RETURN(object.file, fs.open(object.path, {}));
  }
  const Status status = object.file->sync();
  object.file.reset();
  std::erase(unsynced_files, key);
  object.data_is_synced = status.is_ok();
  object.sync_has_failed = !status.is_ok();
  return status;
}

// After a failed fdatasync the system may hold the bytes for clean, so the next one would succeed
// without having written them: they are read back, checked, and written to a new file.
Status StoreFiles::Impl::write_anew(const PageKey& key, UnsyncedObject& object) {
  CAIRN_RETURN_IF_ERROR(verify_object_file(fs, object.path).status());
  const std::string temp = temp_path(to_hex(key));
  Status status = copy_durably(fs, object.path, temp);
  if (status.is_ok()) status = fs.rename(temp, object.path);
  if (!status.is_ok()) {
    static_cast<void>(fs.remove(temp).is_ok());
    return status;
  }
  object.sync_has_failed = false;
  object.data_is_synced = true;
  return status;
}

// The folders of unsynced objects, and above them those whose own names are not known to be
// durable.
Status StoreFiles::Impl::sync_folders() {
  std::set<std::string> folders;
  std::set<std::string> settled;
  for (const auto& [key, object] : unsynced) {
    const std::string object_dir = parent_of(object.path);
    const std::string root_dir = parent_of(object_dir);
    folders.insert(object_dir);
    if (settled.insert(object_dir).second && !durable_folders.contains(object_dir))
      folders.insert(root_dir);
    if (settled.insert(root_dir).second && !durable_folders.contains(root_dir))
      folders.insert(options.directory);
  }
  if (settled.insert(options.directory).second && !durable_folders.contains(options.directory)) {
    folders.insert(options.directory);  // the log's name
    folders.insert(parent_of(options.directory));
  }
  for (const std::string& path : folders) CAIRN_RETURN_IF_ERROR(fs.sync_directory(path));
  durable_folders.insert(settled.begin(), settled.end());
  return Status::ok();
}

Status StoreFiles::Impl::sync_all() {
  if (unsynced.empty()) return Status::ok();
  Status first_error;
  std::vector<PageKey> gone;
  for (auto& [key, object] : unsynced) {
    const Status status = sync_data(key, object);
    if (status.is_ok()) continue;
    const bool is_gone = status.code() == StatusCode::kNotFound;
    // What can be neither synced nor read any more is no longer published; this sync still says so.
    const bool is_lost = is_gone || status.code() == StatusCode::kCorruption;
    if (is_lost) gone.push_back(key);
    if (!is_gone && first_error.is_ok()) first_error = status;
  }
  for (const PageKey& key : gone) {
    const std::string path = unsynced.at(key).path;
    log_warning("store: {} was lost before it became durable", path);
    static_cast<void>(fs.remove(path).is_ok());
    static_cast<void>(log->append(encode_remove_record(key)).is_ok());
    forget(key);
  }
  CAIRN_RETURN_IF_ERROR(first_error);
  CAIRN_RETURN_IF_ERROR(log->sync());
  CAIRN_RETURN_IF_ERROR(sync_folders());
  unsynced.clear();
  unsynced_files.clear();
  // The mark saves the next process work; without it that one syncs these objects again.
  const Status marked = log->append(encode_synced_record());
  if (!marked.is_ok()) log_warning("store: {}", marked.to_string());
  return Status::ok();
}

}  // namespace cairn
