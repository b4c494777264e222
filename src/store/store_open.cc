// What a folder holds when it is opened: the log's word, checked against the files that are there.
//
// Objects that the log names are taken at their size's word (their bytes are verified when they are
// read). Objects that it does not name, because its end was lost or all of it, are read from their
// headers. Whenever the two disagreed the log is written anew, so the next start is quick again.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "store/folder_contents.h"
#include "store/object_write.h"
#include "store/store_files_impl.h"

namespace cairn {
namespace {

constexpr uint64_t kIndexBytesMax = uint64_t{1} << 32;
constexpr size_t kQuarantineFilesMax =
    64;  // older ones go at open, so that damage cannot fill the disk

struct ReadLog {
  IndexScan scan;
  bool is_there = false;
  bool is_usable = false;
};

ReadLog read_log(FileSystem& fs, const std::string& path, const StoreKey* key) {
  ReadLog out;
  const auto stat = fs.stat(path);
  if (!stat.is_ok() || stat->size_bytes == 0) return out;
  out.is_there = true;
  if (stat->size_bytes > kIndexBytesMax) {
    log_warning("store: {} has {} bytes, at most {} are read: rebuilding it",
                path,
                stat->size_bytes,
                kIndexBytesMax);
    return out;
  }
  const auto text = read_text_file(fs, path, kIndexBytesMax);
  if (!text.is_ok()) {
    log_warning("store: {}: rebuilding the index", text.status().to_string());
    return out;
  }
  out.scan = scan_index_log(std::as_bytes(std::span(text->data(), text->size())), key);
  out.is_usable = out.scan.has_header;
  if (out.scan.unknown_version != 0) {
    log_warning("store: {} has version {}, this program reads {}: it is set aside and rebuilt",
                path,
                out.scan.unknown_version,
                kIndexLogVersion);
  } else if (!out.is_usable) {
    log_warning("store: {} does not begin as an index: rebuilding it", path);
  }
  return out;
}

// Files under their paths, until an index entry claims them.
using Files = std::unordered_map<std::string, const FoundObject*>;

class Reconciler {
 public:
  Reconciler(StoreFiles::Impl& impl, OpenReport& report) : impl_(impl), report_(report) {}

  bool has_disagreement() const { return has_disagreement_; }

  void take_indexed(std::vector<IndexedObject> indexed, Files* files) {
    for (IndexedObject& object : indexed) {
      const ObjectEntry& entry = object.entry;
      const std::string path = impl_.object_path(entry.root, entry.kind, entry.key());
      const auto it = files->find(path);
      if (it == files->end()) {
        ++report_.n_missing_files;
        has_disagreement_ = true;
        continue;
      }
      const FoundObject& file = *it->second;
      files->erase(it);
      if (file.size_bytes == entry.file_bytes) {
        accept(std::move(object.entry), path, object.is_synced);
      } else {
        refuse(file,
               Status::corruption(fmt::format(
                   "{} bytes long, the index says {}", file.size_bytes, entry.file_bytes)));
      }
    }
  }

  // Objects that no record names.
  void take_unnamed(const Files& files) {
    std::vector<std::pair<int64_t, ObjectEntry>> found;
    for (const auto& [path, file] : files) {
      const auto header = read_object_header(impl_.fs, path, impl_.options.key.get());
      const Status status = header.is_ok() ? check_name(*header, *file) : header.status();
      if (status.code() == StatusCode::kNotFound) continue;  // removed beside us
      if (status.code() == StatusCode::kUnsupported) {
        report_.total_bytes += file->size_bytes;
        // There may be tens of thousands of another key.
        if (++report_.n_unknown_version == 1)
          log_warning("store: left alone: {}", status.message());
        continue;
      }
      if (!status.is_ok()) {
        refuse(*file, status);
        continue;
      }
      found.emplace_back(header->created_unix,
                         ObjectEntry{header->root,
                                     header->kind,
                                     header->parent,
                                     header->pages,
                                     header->file_bytes,
                                     header->created_unix});
    }
    if (!found.empty()) has_disagreement_ = true;
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second.key() < b.second.key();
    });
    for (auto& [created, entry] : found) {
      std::string path = impl_.object_path(entry.root, entry.kind, entry.key());
      accept(std::move(entry), path, false);
    }
  }

 private:
  Status check_name(const ObjectHeader& header, const FoundObject& file) const {
    if (impl_.has_name_of(header, file)) return Status::ok();
    return Status::corruption(
        fmt::format("{}: holds {}.{} of root {}: another object under this name",
                    file.path,
                    to_hex(header.key()),
                    to_string(header.kind),
                    to_hex(header.root)));
  }

  void accept(ObjectEntry entry, const std::string& path, bool is_synced) {
    if (!is_synced) impl_.unsynced[entry.key()].path = path;
    report_.total_bytes += entry.file_bytes;
    report_.objects.push_back(std::move(entry));
  }

  void refuse(const FoundObject& file, const Status& reason) {
    ++report_.n_quarantined;
    has_disagreement_ = true;
    report_.total_bytes += file.size_bytes;
    if (impl_.options.read_only) return;
    const std::string name = file.path.substr(file.path.rfind('/') + 1);
    const Status moved = impl_.set_aside(file.path, name, reason.message());
    if (!moved.is_ok()) log_warning("store: {}", moved.to_string());
  }

  StoreFiles::Impl& impl_;
  OpenReport& report_;
  bool has_disagreement_ = false;
};

void remove_temp_files(FileSystem& fs, const FolderContents& contents, OpenReport* report) {
  for (const std::string& path : contents.temp_files) {
    if (fs.remove(path).is_ok()) ++report->n_temp_removed;
  }
}

// "<64 hex>.<kind>.<reason>" or "index.log.<reason>", see StoreFiles::Impl::set_aside. Other files
// are not ours to remove.
bool is_quarantined_name(std::string_view name, std::string_view own_log) {
  for (const std::string_view log : {kIndexFileName, own_log}) {
    if (name.starts_with(log) && name.substr(log.size()).starts_with('.')) return true;
  }
  return name.size() > 65 && name[64] == '.' &&
         name.substr(0, 64).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The folders that clean-up works in must be the store's own: a link would lead it elsewhere.
Status check_own_folders(FileSystem& fs, const std::string& directory) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<DirEntry> entries, fs.list(directory));
  for (const DirEntry& entry : entries) {
    if ((entry.name == "tmp" || entry.name == "quarantine") && !entry.is_directory) {
      return Status::invalid_argument(
          fmt::format("{}/{} is a link or a file, not a folder of the store's own; move it away or "
                      "give another folder with --store",
                      directory,
                      entry.name));
    }
  }
  return Status::ok();
}

void log_damage(const std::string& directory, const OpenReport& report) {
  if (report.index_was_rebuilt) {
    log_warning(
        "store {}: the index was lost or unreadable and was rebuilt from the objects; only "
        "recency is lost",
        directory);
  }
  if (report.n_bad_records > 0) {
    log_warning(
        "store {}: skipped {} damaged records of the index", directory, report.n_bad_records);
  }
  if (report.n_missing_files > 0) {
    log_warning(
        "store {}: {} objects of the index have no file", directory, report.n_missing_files);
  }
  if (report.n_unknown_version > 0) {
    log_warning("store {}: left {} objects of another version or another key alone",
                directory,
                report.n_unknown_version);
  }
}

void thin_quarantine(FileSystem& fs,
                     const std::string& folder,
                     std::string_view own_log,
                     FolderContents* contents) {
  const auto entries = fs.list(folder);
  if (!entries.is_ok() || entries->size() <= kQuarantineFilesMax) return;
  std::vector<std::pair<int64_t, std::string>> files;  // mtime, path
  for (const DirEntry& entry : *entries) {
    const std::string path = folder + "/" + entry.name;
    const auto stat = fs.stat(path);
    if (!entry.is_directory && stat.is_ok() && is_quarantined_name(entry.name, own_log)) {
      files.emplace_back(stat->mtime_ns, path);
    }
  }
  std::sort(files.begin(), files.end());
  const size_t n_excess =
      files.size() > kQuarantineFilesMax ? files.size() - kQuarantineFilesMax : 0;
  for (size_t i = 0; i < n_excess; ++i) {
    const auto stat = fs.stat(files[i].second);
    if (fs.remove(files[i].second).is_ok() && stat.is_ok())
      contents->other_bytes -= stat->size_bytes;
  }
}

}  // namespace

bool StoreFiles::Impl::has_name_of(const ObjectHeader& header, const FoundObject& file) const {
  return disk_name(header.root) == file.root && header.kind == file.kind &&
         disk_name(header.key()) == file.key;
}

Status StoreFiles::Impl::open(OpenReport* report) {
  *report = {};
  if (options.read_only) {
    CAIRN_RETURN_IF_ERROR(fs.stat(options.directory).status());
  } else {
    CAIRN_RETURN_IF_ERROR(fs.make_directories(options.directory, 0700));
    CAIRN_ASSIGN_OR_RETURN(lock, fs.lock(folder(kLockFileName)));
    CAIRN_RETURN_IF_ERROR(check_own_folders(fs, options.directory));
    CAIRN_RETURN_IF_ERROR(fs.make_directories(folder("tmp"), 0700));
  }
  const std::string log_path = folder(log_name());
  ReadLog old_log = read_log(fs, log_path, options.key.get());
  CAIRN_ASSIGN_OR_RETURN(FolderContents contents, list_store(fs, options.directory, log_name()));
  if (!options.read_only) {
    remove_temp_files(fs, contents, report);
    thin_quarantine(fs, folder("quarantine"), log_name(), &contents);
  }
  known_folders.insert(contents.root_folders.begin(), contents.root_folders.end());
  known_folders.insert(contents.object_folders.begin(), contents.object_folders.end());

  Files files;
  for (const FoundObject& object : contents.objects) files.emplace(object.path, &object);
  Reconciler reconciler(*this, *report);
  reconciler.take_indexed(std::move(old_log.scan.objects), &files);
  reconciler.take_unnamed(files);
  report->n_bad_records = old_log.scan.n_bad_records;
  report->index_was_rebuilt =
      !old_log.is_usable &&
      (old_log.is_there || contents.objects.size() > report->n_unknown_version);
  report->total_bytes += contents.other_bytes;
  if (options.read_only) {
    const auto stat = fs.stat(log_path);
    if (stat.is_ok()) report->total_bytes += stat->size_bytes;
    return Status::ok();
  }

  if (old_log.is_there && !old_log.is_usable) {
    CAIRN_RETURN_IF_ERROR(set_aside(log_path, log_name(), "unreadable"));
  }
  CAIRN_ASSIGN_OR_RETURN(log, IndexLog::open(fs, log_path, options.key.get()));
  for (const ObjectEntry& entry : report->objects) {
    live_record_bytes[entry.key()] = record_bytes(encode_add_record(entry).size());
  }
  const bool is_damaged = old_log.scan.has_torn_tail || old_log.scan.n_bad_records > 0;
  if (is_damaged || reconciler.has_disagreement()) {
    const Status rewritten = rewrite_log(report->objects);
    // The store works with the old log too; the next start only has to look at the same files
    // again.
    if (!rewritten.is_ok()) log_warning("store: {}", rewritten.to_string());
  }
  report->total_bytes += log->size_bytes();
  log_damage(options.directory, *report);
  return Status::ok();
}

Status StoreFiles::Impl::rewrite_log(std::span<const ObjectEntry> live) {
  std::vector<std::byte> durable;
  std::vector<std::byte> others;
  std::unordered_set<PageKey, DigestHash> seen;
  const auto add = [&](const ObjectEntry& entry) {
    if (!live_record_bytes.contains(entry.key()) || !seen.insert(entry.key()).second) return;
    const std::vector<std::byte> record = encode_add_record(entry);
    std::vector<std::byte>& to = unsynced.contains(entry.key()) ? others : durable;
    to.insert(to.end(), record.begin(), record.end());
  };
  for (const ObjectEntry& entry : live) add(entry);
  // Objects published since the caller made its list are in the log alone.
  if (seen.size() < live_record_bytes.size()) {
    const ReadLog old_log = read_log(fs, folder(log_name()), options.key.get());
    for (const IndexedObject& object : old_log.scan.objects) add(object.entry);
  }
  const std::vector<std::byte> mark = encode_synced_record();
  durable.insert(durable.end(), mark.begin(), mark.end());
  durable.insert(durable.end(), others.begin(), others.end());
  return log->replace(durable);
}

// Folder names and headers are enough to find objects, so this works beside a running server.
Status StoreFiles::verify_all(
    const std::function<void(const std::string& path, const Status& status)>& visit) {
  CAIRN_ASSIGN_OR_RETURN(const FolderContents contents,
                         list_store(impl_->fs, impl_->options.directory, impl_->log_name()));
  for (const FoundObject& object : contents.objects) {
    const auto header = verify_object_file(impl_->fs, object.path, impl_->options.key.get());
    Status status = header.status();
    if (status.is_ok() && !impl_->has_name_of(*header, object)) {
      status = Status::corruption(fmt::format("{}: holds {}.{} of root {}",
                                              object.path,
                                              to_hex(header->key()),
                                              to_string(header->kind),
                                              to_hex(header->root)));
    }
    if (status.code() == StatusCode::kNotFound) continue;  // removed by the server meanwhile
    visit(object.path, status);
  }
  return Status::ok();
}

}  // namespace cairn
