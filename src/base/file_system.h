// Files as the store and the loaders use them, behind an interface so that tests can record every
// operation, drop what was never synced, and fail the n-th call.
//
// Thread: a FileSystem may be used from any thread; a File from one thread at a time, except
// read_at, which may run on several at once. Errors: Status::from_errno with the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace cairn {

enum class FileMode {
  kRead,    // must exist
  kWrite,   // creates or truncates; also readable
  kAppend,  // creates when missing; append() adds at the end
};

struct OpenOptions {
  FileMode mode = FileMode::kRead;
  bool direct = false;  // ask for O_DIRECT: offsets, lengths and memory must be multiples of 4096.
                        // Where it is refused the file opens buffered and is_direct() says so.
  int permissions = 0600;
};

struct FileStat {
  uint64_t size_bytes = 0;
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  bool is_directory = false;
};

struct DirEntry {
  std::string name;
  bool is_directory = false;
};

class File {
 public:
  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  File(File&&) = delete;
  File& operator=(File&&) = delete;
  virtual ~File() = default;  // closes; an error at close is lost, so sync() first where it matters

  // Reads exactly out.size() bytes. Errors: kCorruption when the file ends before that.
  virtual Status read_at(uint64_t offset, std::span<std::byte> out) = 0;
  // Writes all parts one after another from `offset` (pwritev).
  virtual Status write_at(uint64_t offset, std::span<const std::span<const std::byte>> parts) = 0;

  Status write_at(uint64_t offset, std::span<const std::byte> bytes) {
    return write_at(offset, std::span<const std::span<const std::byte>>(&bytes, 1));
  }

  // kAppend only: one write at the end of the file.
  virtual Status append(std::span<const std::byte> bytes) = 0;
  virtual Status truncate(uint64_t size_bytes) = 0;
  // fdatasync: the bytes survive power loss. The name does not until sync_directory().
  virtual Status sync() = 0;
  virtual Result<FileStat> stat() const = 0;
  virtual bool is_direct() const = 0;
  // The descriptor for io_uring, or -1 when there is none (in-memory and recording files).
  virtual int native_fd() const = 0;
};

// Held until destroyed (flock).
class FileLock {
 public:
  FileLock() = default;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  FileLock(FileLock&&) = delete;
  FileLock& operator=(FileLock&&) = delete;
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;
  FileSystem(FileSystem&&) = delete;
  FileSystem& operator=(FileSystem&&) = delete;
  virtual ~FileSystem() = default;

  virtual Result<std::unique_ptr<File>> open(const std::string& path,
                                             const OpenOptions& options) = 0;
  // Replaces `to` in one step; readers see the old file or the new one.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path) = 0;  // kNotFound when missing
  virtual Status make_directories(const std::string& path, int permissions = 0700) = 0;
  // Names in no particular order, without "." and "..". A symbolic link is not a directory,
  // whatever it points to: who cleans up must not follow one out of the folder.
  virtual Result<std::vector<DirEntry>> list(const std::string& path) = 0;
  virtual Result<FileStat> stat(const std::string& path) = 0;
  // fsync of a folder: renames and removals in it survive power loss.
  virtual Status sync_directory(const std::string& path) = 0;
  // Exclusive; does not wait. The holder's process id is written into the file for people to read.
  // Errors: kOverloaded naming that id when another process holds it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
};

// The machine's own file system. Never null; lives as long as the program.
FileSystem& posix_file_system();

// What may still be written to the machine's file system that holds `path` (a folder or file that
// is there), reserves for the system left out.
Result<uint64_t> free_space_bytes(const std::string& path);

// Whole small files, for configurations. `max_bytes` guards against absurd ones (kInvalidArgument).
Result<std::string> read_text_file(FileSystem& fs, const std::string& path, uint64_t max_bytes);
// Temp name, write, sync, rename, sync folder: readers see the old bytes or the new ones.
Status write_file_atomically(FileSystem& fs,
                             const std::string& path,
                             std::span<const std::byte> bytes);

}  // namespace cairn
