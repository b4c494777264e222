// Making published objects durable, for all of them together.
//
// Bytes, log and names, in no order that matters: a name that survives without its bytes is a
// damaged object (a miss), bytes without a name are rubbish in tmp/, a record without either is a
// miss. Only when all of it has succeeded does a mark in the log say so; objects behind the last
// mark are synced again by the next process, because this one may be killed before its own sync.
#include <algorithm>
#include <atomic>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "store/folder_contents.h"
#include "store/object_write.h"
#include "store/store_files_impl.h"

namespace cairn {
namespace {

constexpr size_t kOpenFilesMax = 256;  // of unsynced objects; an older one's bytes are synced early
constexpr size_t kCopyBytes = size_t{1} << 20;
constexpr size_t kSyncThreadsMax = 32;  // they only wait

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

struct SyncTask {
  std::function<Status()> run;
  Status status;
};

// One flush of a disk's cache takes milliseconds (5 to 9 on a cloud disk) however little there is
// to flush, but the kernel merges those that wait at the same time: 33 syncs after 64 MiB of
// objects took as long as the writes when they went one after another. Files in memory keep the
// order given.
void run_all(std::vector<SyncTask>& tasks, bool at_once) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < tasks.size(); i = next++) tasks[i].status = tasks[i].run();
  };
  std::vector<std::jthread> threads;
  const size_t n_threads = at_once ? std::min(tasks.size(), kSyncThreadsMax) : 1;
  try {
    for (size_t i = 1; i < n_threads; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: those that run, and this one, do all of it.
  }
  work();
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
  CAIRN_RETURN_IF_ERROR(prepare_sync(key, object));
  if (object.data_is_synced) return Status::ok();
  Status status = object.file->sync();
  note_synced(key, object, status);
  return status;
}

// Afterwards either the bytes are durable or the file is open.
Status StoreFiles::Impl::prepare_sync(const PageKey& key, UnsyncedObject& object) {
  if (object.data_is_synced) return Status::ok();
  if (object.sync_has_failed) return write_anew(key, object);
  if (object.file != nullptr) return Status::ok();
  CAIRN_ASSIGN_OR_RETURN(object.file, fs.open(object.path, {}));
  return Status::ok();
}

void StoreFiles::Impl::note_synced(const PageKey& key,
                                   UnsyncedObject& object,
                                   const Status& status) {
  object.file.reset();
  std::erase(unsynced_files, key);
  object.data_is_synced = status.is_ok();
  object.sync_has_failed = !status.is_ok();
}

// After a failed fdatasync the system may hold the bytes for clean, so the next one would succeed
// without having written them: they are read back, checked, and written to a new file.
Status StoreFiles::Impl::write_anew(const PageKey& key, UnsyncedObject& object) {
  CAIRN_RETURN_IF_ERROR(verify_object_file(fs, object.path, options.key.get()).status());
  const std::string temp = temp_path(to_hex(disk_name(key)));
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
std::set<std::string> StoreFiles::Impl::folders_to_sync(std::set<std::string>* settled) const {
  std::set<std::string> folders;
  const auto settle = [&](const std::string& path) {
    if (settled->insert(path).second && !durable_folders.contains(path))
      folders.insert(parent_of(path));
  };
  for (const auto& [key, object] : unsynced) {
    const std::string object_dir = parent_of(object.path);
    folders.insert(object_dir);
    settle(object_dir);
    settle(parent_of(object_dir));
  }
  settle(options.directory);
  settle(folder(log_name()));  // a name like the others
  return folders;
}

// An object whose bytes can be neither synced nor read any more is no longer published.
void StoreFiles::Impl::drop_lost(const PageKey& key) {
  const std::string path = unsynced.at(key).path;
  log_warning("store: {} was lost before it became durable", path);
  static_cast<void>(fs.remove(path).is_ok());
  static_cast<void>(log->append(encode_remove_record(key)).is_ok());
  forget(key);
}

Status StoreFiles::Impl::sync_all() {
  if (unsynced.empty()) return Status::ok();
  Status first_error;
  const auto note = [&](const Status& status) {
    if (first_error.is_ok()) first_error = status;
  };
  std::vector<std::pair<PageKey, UnsyncedObject*>> objects;
  std::vector<PageKey> lost;
  for (auto& [key, object] : unsynced) {
    const Status status = prepare_sync(key, object);
    if (status.is_ok() && !object.data_is_synced) objects.emplace_back(key, &object);
    const bool is_gone =
        status.code() == StatusCode::kNotFound;  // removed by somebody: like evicted
    if (is_gone || status.code() == StatusCode::kCorruption) lost.push_back(key);
    if (!is_gone) note(status);
  }
  std::set<std::string> settled;
  std::vector<SyncTask> tasks;
  for (const auto& [key, object] : objects)
    tasks.push_back({[o = object] { return o->file->sync(); }, {}});
  tasks.push_back({[this] { return log->sync(); }, {}});
  for (const std::string& path : folders_to_sync(&settled)) {
    tasks.push_back({[this, path] { return fs.sync_directory(path); }, {}});
  }
  run_all(tasks, log->has_native_file());
  for (size_t i = 0; i < objects.size(); ++i)
    note_synced(objects[i].first, *objects[i].second, tasks[i].status);
  for (const SyncTask& task : tasks) note(task.status);
  for (const PageKey& key : lost) drop_lost(key);
  CAIRN_RETURN_IF_ERROR(first_error);
  durable_folders.insert(settled.begin(), settled.end());
  unsynced.clear();
  unsynced_files.clear();
  // The mark saves the next process work; without it that one syncs these objects again.
  const Status marked = log->append(encode_synced_record());
  if (!marked.is_ok()) log_warning("store: {}", marked.to_string());
  return Status::ok();
}

}  // namespace cairn
