// A file system in RAM that remembers every change, so that tests can ask "what if the power had
// failed here?", and that fails on demand.
//
//   RecordingFileSystem fs(prepared);             // prepared: what is durable at the start
//   ... run the store on fs ...
//   for (size_t n = 0; n <= fs.n_operations(); ++n) {
//     auto disk = fs.crash_state(n, CrashMode::kTorn, seed);   // a MemoryFileSystem
//     ... open the store on *disk, compare ...
//   }
//
// What survives a crash. Data of a file: what was written before the last File::sync() of that
// file. A name (create, rename, remove, make directory): once sync_directory() of the folder that
// holds it ran (of the target's folder for a rename); syncing a file does not make its name
// durable, nor does syncing a folder make the folder's own name durable. Everything later is up to
// the CrashMode. POSIX promises no more than that, though some file systems do. Thread: any;
// operations are logged in the order in which they took effect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "support/memory_file_system.h"

namespace cairn {

enum class OperationKind {
  // Logged when they succeed:
  kCreate,
  kWrite,
  kAppend,
  kTruncate,  // also an open that empties an old file
  kRename,
  kRemove,
  kMakeDirectory,  // one for each folder made
  kSyncFile,
  kSyncDirectory,
  // Not logged, but they can be made to fail:
  kOpen,  // every open, of old and of new files
  kRead,
  kList,
  kStat,
  kLock,
};

struct Operation {
  OperationKind kind = OperationKind::kCreate;
  std::string path;
  std::string path_to;  // kRename
  uint64_t inode = 0;   // which file or folder; a name may change hands
  uint64_t offset = 0;  // kWrite, kAppend: where the bytes went; kTruncate: the new size
  std::vector<std::byte> bytes;
};

enum class CrashMode {
  kDropUnsynced,      // only what was promised
  kKeepAll,           // everything, as after a killed process
  kNamesWithoutData,  // all names, no unsynced data: files shorter or older than their names say
  kDataWithoutNames,  // all data, no unsynced names
  kRandom,            // each unsynced operation kept or dropped by the seed
  kTorn,              // as kRandom, and writes keep any of their 512-byte sectors
};

// Fails the `nth` (from 1) operation of one kind counted from the moment of the call, or that one
// and all later ones.
struct Fault {
  OperationKind kind = OperationKind::kWrite;
  size_t nth = 1;
  int error_number = 5;  // EIO; 0 with kRead: the file seems to end early (kCorruption)
  bool persistent = false;
  bool partial = false;  // kWrite, kAppend: half of the bytes arrive before the failure
};

class RecordingFileSystem final : public FileSystem {
 public:
  RecordingFileSystem();
  // Starts with a copy of `durable`, all of it already safe.
  explicit RecordingFileSystem(const MemoryFileSystem& durable);
  ~RecordingFileSystem() override;

  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  // Files only; a folder is refused as EXDEV.
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status make_directories(const std::string& path, int permissions = 0700) override;
  Result<std::vector<DirEntry>> list(const std::string& path) override;
  Result<FileStat> stat(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

  // What a running system sees now; for comparing and damaging.
  MemoryFileSystem& live();

  size_t n_operations() const;
  std::vector<Operation> operations() const;
  // The disk after power was lost when the first `n_operations` had happened. The same arguments
  // give the same disk. Requires n_operations <= n_operations(). Cost: replays them.
  std::unique_ptr<MemoryFileSystem> crash_state(size_t n_operations,
                                                CrashMode mode,
                                                uint64_t seed) const;

  void inject(const Fault& fault);
  void clear_faults();
  // Writes that would pass this many bytes in all files fail with ENOSPC after filling what is
  // left.
  void set_total_bytes_max(std::optional<uint64_t> n_bytes);
  // How often an operation of this kind was tried, failures included.
  size_t n_tried(OperationKind kind) const;

  struct Record;  // shared with open files

 private:
  std::shared_ptr<Record> record_;
};

}  // namespace cairn
