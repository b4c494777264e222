// What lies in a store's folder, by name and size alone; no file is opened.
//
// Thread: any. Cost: one listing a folder and one stat a file, so tens of thousands of objects take
// a fraction of a second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "store/object_format.h"

namespace cairn {

// A file whose name and place are those of an object; its bytes may say otherwise.
struct FoundObject {
  RootKey root;
  ObjectKind kind = ObjectKind::kRun;
  PageKey key;
  std::string path;
  uint64_t size_bytes = 0;
};

struct FolderContents {
  std::vector<FoundObject> objects;
  std::vector<std::string> root_folders;    // paths
  std::vector<std::string> object_folders;  // paths
  std::vector<std::string> temp_files;      // left by a crash: tmp/* and *.tmp
  uint64_t other_bytes = 0;                 // every file that is none of the above, the index apart
};

// Errors: kIo when a folder cannot be listed: its objects must not count as missing then. A file
// that vanishes while it is looked at is not an error.
Result<FolderContents> list_store(FileSystem& fs, const std::string& directory);

inline constexpr std::string_view kIndexFileName = "index.log";
inline constexpr std::string_view kLockFileName = "lock";

}  // namespace cairn
