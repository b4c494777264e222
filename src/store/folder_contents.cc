#include "store/folder_contents.h"

#include <fmt/core.h>

#include <optional>
#include <string_view>
#include <utility>

#include "store/root_description.h"
#include "store/store_files_impl.h"

namespace cairn {
namespace {

constexpr int kForeignDepthMax = 16;  // folders that are not ours are only weighed, so deep

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<std::pair<PageKey, ObjectKind>> parse_object_name(std::string_view name) {
  for (const ObjectKind kind : {ObjectKind::kRun, ObjectKind::kLeaf, ObjectKind::kAnchor}) {
    const std::string suffix = "." + std::string(to_string(kind));
    if (name.size() != 64 + suffix.size() || !name.ends_with(suffix) || !is_hex(name.substr(0, 64)))
      continue;
    return std::pair(*digest_from_hex(name.substr(0, 64)), kind);
  }
  return std::nullopt;
}

bool is_index_name(std::string_view name) {
  constexpr std::string_view kFront = "index-";
  constexpr std::string_view kBack = ".log";
  if (name == kIndexFileName) return true;
  return name.size() == kFront.size() + 16 + kBack.size() && name.starts_with(kFront) &&
         name.ends_with(kBack) && is_hex(name.substr(kFront.size(), 16));
}

// Only what this program wrote may be removed; a store's folder can hold other people's files.

// What write_file_atomically() leaves behind: "<file>.<16 hex>.tmp" of the store's own files.
bool is_atomic_write_temp(std::string_view name) {
  constexpr size_t kBehindBytes = 1 + 16 + kTempSuffix.size();
  if (name.size() <= kBehindBytes || !name.ends_with(kTempSuffix)) return false;
  const std::string_view file = name.substr(0, name.size() - kBehindBytes);
  return name[file.size()] == '.' && is_hex(name.substr(file.size() + 1, 16)) &&
         (file == kRootFileName || is_index_name(file));
}

// "<number>.<64 hex>", see StoreFiles::Impl::temp_path.
bool is_object_temp(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == 0 || dot == std::string_view::npos || name.size() != dot + 1 + 64) return false;
  return name.substr(0, dot).find_first_not_of("0123456789") == std::string_view::npos &&
         is_hex(name.substr(dot + 1));
}

class Lister {
 public:
  Lister(FileSystem& fs, std::string_view own_index) : fs_(fs), own_index_(own_index) {}

  Status list_all(const std::string& directory) {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<DirEntry> entries, fs_.list(directory));
    for (const DirEntry& entry : entries) {
      const std::string path = directory + "/" + entry.name;
      if (!entry.is_directory) {
        if (entry.name != own_index_) other_file(path, entry.name);
      } else if (entry.name == "tmp") {
        CAIRN_RETURN_IF_ERROR(list_temp(path));
      } else if (entry.name.size() == 64 && is_hex(entry.name)) {
        CAIRN_RETURN_IF_ERROR(list_root(path, *digest_from_hex(entry.name)));
      } else {
        weigh(path, 0);
      }
    }
    return Status::ok();
  }

  FolderContents take() { return std::move(contents_); }

 private:
  uint64_t size_of(const std::string& path) {
    const auto stat = fs_.stat(path);
    return stat.is_ok() ? stat->size_bytes : 0;
  }

  void other_file(const std::string& path, std::string_view name) {
    if (is_atomic_write_temp(name)) {
      contents_.temp_files.push_back(path);
    } else {
      contents_.other_bytes += size_of(path);
    }
  }

  Status list_temp(const std::string& path) {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<DirEntry> entries, fs_.list(path));
    for (const DirEntry& entry : entries) {
      if (entry.is_directory) continue;
      const std::string file = path + "/" + entry.name;
      if (is_object_temp(entry.name)) {
        contents_.temp_files.push_back(file);
      } else {
        contents_.other_bytes += size_of(file);
      }
    }
    return Status::ok();
  }

  Status list_root(const std::string& root_path, const RootKey& root) {
    contents_.root_folders.push_back(root_path);
    CAIRN_ASSIGN_OR_RETURN(const std::vector<DirEntry> entries, fs_.list(root_path));
    for (const DirEntry& entry : entries) {
      const std::string path = root_path + "/" + entry.name;
      if (!entry.is_directory) {
        other_file(path, entry.name);
      } else if (entry.name.size() == 2 && is_hex(entry.name)) {
        CAIRN_RETURN_IF_ERROR(list_objects(path, entry.name, root));
      } else {
        weigh(path, 0);
      }
    }
    return Status::ok();
  }

  Status list_objects(const std::string& folder,
                      std::string_view first_digits,
                      const RootKey& root) {
    contents_.object_folders.push_back(folder);
    CAIRN_ASSIGN_OR_RETURN(const std::vector<DirEntry> entries, fs_.list(folder));
    for (const DirEntry& entry : entries) {
      const std::string path = folder + "/" + entry.name;
      const auto parsed = parse_object_name(entry.name);
      if (entry.is_directory) {
        weigh(path, 0);
      } else if (parsed && entry.name.starts_with(first_digits)) {
        contents_.objects.push_back({root, parsed->second, parsed->first, path, size_of(path)});
      } else {
        other_file(path, entry.name);
      }
    }
    return Status::ok();
  }

  // Folders that are not ours (lost+found, say) may be closed to us.
  void weigh(const std::string& path, int depth) {
    const auto entries = fs_.list(path);
    if (!entries.is_ok() || depth == kForeignDepthMax) return;
    for (const DirEntry& entry : *entries) {
      const std::string child = path + "/" + entry.name;
      if (entry.is_directory) {
        weigh(child, depth + 1);
      } else {
        contents_.other_bytes += size_of(child);
      }
    }
  }

  FileSystem& fs_;
  std::string_view own_index_;
  FolderContents contents_;
};

}  // namespace

std::string sealed_index_name(uint64_t key_id) {
  return fmt::format("index-{:016x}.log", key_id);
}

Result<FolderContents> list_store(FileSystem& fs,
                                  const std::string& directory,
                                  std::string_view own_index) {
  Lister lister(fs, own_index);
  CAIRN_RETURN_IF_ERROR(lister.list_all(directory));
  return lister.take();
}

}  // namespace cairn
