// A file system in memory that costs as little as memory can: files are chunks cut from one arena
// that was touched before the clock started. For benchmarks of what lies above it.
//
// Thread: any; a file from one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "tensor/buffer.h"

namespace cairn {

class ArenaFileSystem final : public FileSystem {
 public:
  static constexpr size_t kChunkBytes = size_t{256} << 10;

  explicit ArenaFileSystem(size_t capacity_bytes);

  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status make_directories(const std::string& path, int permissions = 0700) override;
  Result<std::vector<DirEntry>> list(const std::string& path) override;
  Result<FileStat> stat(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

  struct Node {
    bool is_directory = false;
    uint64_t size_bytes = 0;
    std::vector<std::byte*> chunks;
  };

  // A free chunk; kNoSpace when there is none.
  Result<std::byte*> take_chunk();
  void give_back(std::vector<std::byte*>& chunks);

 private:
  void empty(Node& node);  // under the mutex

  std::mutex mutex_;
  Buffer arena_;
  std::vector<std::byte*> free_;
  std::map<std::string, std::shared_ptr<Node>> nodes_;
};

}  // namespace cairn
