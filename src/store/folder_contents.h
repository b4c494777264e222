// What lies in a store's folder, by name and size alone; no file is opened.
//
// Thread: any. Cost: one listing a folder and one stat a file, so tens of thousands of objects take
// a fraction of a second.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "store/object_format.h"

namespace cairn {

// A file whose name and place are those of an object; its bytes may say otherwise.
struct FoundObject {
  RootKey root;  // this and the key are names on disk: in a sealed store, StoreKey::disk_name's
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

inline constexpr std::string_view kIndexFileName = "index.log";
// "index-<16 hex>.log": of a store that is sealed with this key.
std::string sealed_index_name(uint64_t key_id);

// `own_index`: the log that is not counted; those of other keys are files like others. Errors: kIo
// when a folder cannot be listed: its objects must not count as missing then. A file that vanishes
// while it is looked at is not an error.
Result<FolderContents> list_store(FileSystem& fs,
                                  const std::string& directory,
                                  std::string_view own_index = kIndexFileName);

inline constexpr std::string_view kLockFileName = "lock";

}  // namespace cairn
