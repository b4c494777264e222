// Removal that lasts: objects are unlinked, the log says so, and both are synced before the answer.
#include <algorithm>
#include <string>
#include <utility>

#include "store/folder_contents.h"
#include "store/store_files_impl.h"

namespace cairn {
namespace {

// Up to the end of the root key, which every version of the format has there.
constexpr size_t kRootOffset = 16;
constexpr size_t kNamedBytes = kRootOffset + 32;

bool holds_root(FileSystem& fs, const std::string& path, const RootKey& root) {
  const auto file = fs.open(path, {});
  if (!file.is_ok()) return false;
  std::vector<std::byte> bytes(kNamedBytes);
  if (!(*file)->read_at(0, bytes).is_ok()) return false;
  return std::equal(root.bytes.begin(), root.bytes.end(), bytes.begin() + kRootOffset);
}

// Tells the first fault; the others are tried all the same.
class Remover {
 public:
  Remover(FileSystem& fs, std::set<std::string>& changed_folders)
      : fs_(fs), changed_folders_(changed_folders) {}

  // False when the file is still there.
  bool remove(const std::string& path, uint64_t n_bytes) {
    const Status status = fs_.remove(path);
    const bool is_missing = status.code() == StatusCode::kNotFound;
    if (status.is_ok()) {
      ++removed_.n_objects;
      removed_.n_bytes += n_bytes;
    } else if (!is_missing) {
      note(status);
      return false;
    }
    changed_folders_.insert(parent_of(path));
    return true;
  }

  void note(const Status& status) {
    if (first_error_.is_ok()) first_error_ = status;
  }

  RemovedFiles take(Status* status) {
    *status = first_error_;
    return removed_;
  }

 private:
  FileSystem& fs_;
  std::set<std::string>& changed_folders_;
  RemovedFiles removed_;
  Status first_error_;
};

}  // namespace

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Folders that have lost a name since they were last synced. One that is gone itself is a name that
// its parent has lost.
Status StoreFiles::Impl::sync_removals() {
  while (!changed_folders.empty()) {
    const std::string path = *changed_folders.begin();
    const Status status = fs.sync_directory(path);
    if (status.code() == StatusCode::kNotFound) {
      changed_folders.insert(parent_of(path));
    } else if (!status.is_ok()) {
      return status;
    }
    changed_folders.erase(path);
  }
  return Status::ok();
}

Status StoreFiles::forget_objects(std::span<const ObjectEntry> entries,
                                  const RootKey* whole_root,
                                  RemovedFiles* removed) {
  *removed = {};
  CAIRN_RETURN_IF_ERROR(impl_->require_writable("forget objects"));
  Remover remover(impl_->fs, impl_->changed_folders);
  for (const ObjectEntry& entry : entries) {
    const std::string path = impl_->object_path(entry.root, entry.kind, entry.key());
    if (!remover.remove(path, entry.file_bytes)) continue;
    impl_->forget(entry.key());
    remover.note(impl_->log->append(encode_remove_record(entry.key())));
  }
  if (whole_root != nullptr) {
    // What no index knows: other versions' objects, and damaged ones that were set aside.
    CAIRN_ASSIGN_OR_RETURN(const FolderContents contents,
                           list_store(impl_->fs, impl_->options.directory, impl_->log_name()));
    const RootKey root_name = impl_->disk_name(*whole_root);
    for (const FoundObject& object : contents.objects) {
      if (object.root == root_name) remover.remove(object.path, object.size_bytes);
    }
    const std::string quarantine_dir = impl_->folder("quarantine");
    const auto set_aside = impl_->fs.list(quarantine_dir);
    for (const DirEntry& entry : set_aside.is_ok() ? *set_aside : std::vector<DirEntry>()) {
      const std::string path = quarantine_dir + "/" + entry.name;
      if (entry.is_directory || !holds_root(impl_->fs, path, root_name)) continue;
      const auto stat = impl_->fs.stat(path);
      remover.remove(path, stat.is_ok() ? stat->size_bytes : 0);
    }
  }
  remover.note(impl_->log->sync());
  remover.note(impl_->sync_removals());
  Status status;
  *removed = remover.take(&status);
  return status;
}

}  // namespace cairn
