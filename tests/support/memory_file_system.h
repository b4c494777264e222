// A file system in RAM, for tests that should not depend on a disk.
//
// Behaves as POSIX does where the store can tell: open files outlive their names, rename replaces,
// folders must exist and be empty before they go. Files opened `direct` insist on offsets, lengths
// and memory in multiples of 4096, so a misaligned caller fails here rather than on a user's disk.
// Paths are absolute; "//" and a trailing "/" do not matter. Thread: any, everything is guarded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace cairn {

// "/a//b/" -> "/a/b"; "a" -> "/a".
std::string normalized_path(const std::string& path);
// "/a/b" -> "/a"; "/a" -> "/".
std::string parent_path(const std::string& path);

class MemoryFileSystem final : public FileSystem {
 public:
  // Empty but for "/".
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status make_directories(const std::string& path, int permissions = 0700) override;
  Result<std::vector<DirEntry>> list(const std::string& path) override;
  Result<FileStat> stat(const std::string& path) override;
  Status sync_directory(const std::string& path) override;  // only looks whether it is there
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

  // For tests that prepare or damage files. read_bytes and flip_bits require that the file exists.
  std::vector<std::byte> read_bytes(const std::string& path) const;
  void flip_bits(const std::string& path, uint64_t offset, std::byte mask = std::byte{1});
  // Creates the file and its folders, or replaces the contents.
  void write_bytes(const std::string& path, std::span<const std::byte> bytes);
  bool exists(const std::string& path) const;
  // Every file, sorted by path; folders are not files.
  std::vector<std::string> all_files() const;
  std::vector<std::string> all_directories() const;  // "/" included
  uint64_t total_bytes() const;

  struct Disk;  // shared with open files, which may outlive this object

 private:
  std::shared_ptr<Disk> disk_;
};

}  // namespace cairn
