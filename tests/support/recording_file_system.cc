#include "support/recording_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "support/crash_state.h"

namespace cairn {
namespace {

constexpr size_t kKinds = static_cast<size_t>(OperationKind::kLock) + 1;

void copy_disk(const MemoryFileSystem& from, MemoryFileSystem* to) {
  for (const auto& path : from.all_directories()) CAIRN_CHECK(to->make_directories(path).is_ok());
  for (const auto& path : from.all_files()) to->write_bytes(path, from.read_bytes(path));
}

}  // namespace

struct RecordingFileSystem::Record {
  struct Armed {
    Fault fault;
    size_t n_left = 0;  // tries until it strikes
  };

  mutable std::mutex mutex;
  MemoryFileSystem live;
  InitialDisk initial = initial_disk(live);
  std::vector<Operation> log;
  std::vector<Armed> faults;
  std::array<size_t, kKinds> n_tried{};
  std::optional<uint64_t> total_bytes_max;

  // The fault that strikes this try, if one does. Caller holds the mutex, here and below.
  std::optional<Fault> attempt(OperationKind kind) {
    ++n_tried[static_cast<size_t>(kind)];
    std::optional<Fault> struck;
    for (auto& armed : faults) {
      if (armed.fault.kind != kind) continue;
      if (armed.n_left > 0) --armed.n_left;
      if (armed.n_left == 0 && !struck) struck = armed.fault;
    }
    std::erase_if(faults, [](const Armed& a) { return a.n_left == 0 && !a.fault.persistent; });
    return struck;
  }

  Status attempt_status(OperationKind kind, const std::string& path) {
    const auto fault = attempt(kind);
    if (!fault) return Status::ok();
    return Status::from_errno(fault->error_number, fmt::format("{} (injected)", path));
  }

  uint64_t inode_of(const std::string& path) {
    const auto st = live.stat(path);
    return st.is_ok() ? st->inode : 0;
  }

  // How many of `n` bytes at `offset` of a file of `size_bytes` still fit on the disk.
  uint64_t n_fitting(uint64_t size_bytes, uint64_t offset, uint64_t n) const {
    if (!total_bytes_max) return n;
    const uint64_t used = live.total_bytes();
    const uint64_t free_bytes = *total_bytes_max > used ? *total_bytes_max - used : 0;
    const uint64_t inside = offset < size_bytes ? size_bytes - offset : 0;
    return std::min(n, inside + free_bytes);
  }
};

namespace {

using Record = RecordingFileSystem::Record;

class RecordingFile final : public File {
 public:
  RecordingFile(std::shared_ptr<Record> record,
                std::unique_ptr<File> inner,
                std::string path,
                const OpenOptions& options)
      : record_(std::move(record)),
        inner_(std::move(inner)),
        path_(std::move(path)),
        is_direct_(options.direct),
        is_writable_(options.mode != FileMode::kRead) {
    inode_ = inner_->stat()->inode;
  }

  Status read_at(uint64_t offset, std::span<std::byte> out) override {
    const std::lock_guard lock(record_->mutex);
    const auto fault = record_->attempt(OperationKind::kRead);
    if (fault && fault->error_number == 0) {
      return Status::corruption(
          fmt::format("read {} at {}: the file ends (injected)", path_, offset));
    }
    if (fault)
      return Status::from_errno(fault->error_number, fmt::format("read {} (injected)", path_));
    CAIRN_RETURN_IF_ERROR(check_aligned(offset, out.data(), out.size()));
    return inner_->read_at(offset, out);
  }

  Status write_at(uint64_t offset, std::span<const std::span<const std::byte>> parts) override {
    std::vector<std::byte> bytes;
    for (const auto part : parts) {
      CAIRN_RETURN_IF_ERROR(check_aligned(offset + bytes.size(), part.data(), part.size()));
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    const std::lock_guard lock(record_->mutex);
    return put(OperationKind::kWrite, offset, std::move(bytes));
  }

  Status append(std::span<const std::byte> bytes) override {
    const std::lock_guard lock(record_->mutex);
    return put(OperationKind::kAppend, inner_->stat()->size_bytes, {bytes.begin(), bytes.end()});
  }

  Status truncate(uint64_t size_bytes) override {
    const std::lock_guard lock(record_->mutex);
    CAIRN_RETURN_IF_ERROR(record_->attempt_status(OperationKind::kTruncate, path_));
    CAIRN_RETURN_IF_ERROR(inner_->truncate(size_bytes));
    record_->log.push_back({OperationKind::kTruncate, path_, {}, inode_, size_bytes, {}});
    return Status::ok();
  }

  Status sync() override {
    const std::lock_guard lock(record_->mutex);
    CAIRN_RETURN_IF_ERROR(record_->attempt_status(OperationKind::kSyncFile, path_));
    record_->log.push_back({OperationKind::kSyncFile, path_, {}, inode_, 0, {}});
    return Status::ok();
  }

  Result<FileStat> stat() const override { return inner_->stat(); }

  bool is_direct() const override { return is_direct_; }

  int native_fd() const override { return -1; }

 private:
  Status check_aligned(uint64_t offset, const void* memory, size_t n) const {
    const bool aligned = (offset | n | reinterpret_cast<uintptr_t>(memory)) % 4096 == 0;
    if (!is_direct_ || aligned) return Status::ok();
    return Status::from_errno(EINVAL,
                              fmt::format("misaligned direct access to {} at {}", path_, offset));
  }

  // Writes what fits and what a fault lets through, logs that, and reports the rest.
  Status put(OperationKind kind, uint64_t offset, std::vector<std::byte> bytes) {
    if (!is_writable_) return Status::from_errno(EBADF, fmt::format("write {}", path_));
    const size_t n_wanted = bytes.size();
    const auto fault = record_->attempt(kind);
    size_t n = n_wanted;
    if (fault) n = fault->partial ? n_wanted / 2 : 0;
    n = std::min(n, record_->n_fitting(inner_->stat()->size_bytes, offset, n));
    bytes.resize(n);
    if (n > 0 || n_wanted == 0) {
      CAIRN_RETURN_IF_ERROR(apply(kind, offset, bytes));
      record_->log.push_back({kind, path_, {}, inode_, offset, std::move(bytes)});
    }
    if (fault)
      return Status::from_errno(fault->error_number, fmt::format("write {} (injected)", path_));
    if (n < n_wanted)
      return Status::from_errno(ENOSPC, fmt::format("write {} at {}", path_, offset));
    return Status::ok();
  }

  Status apply(OperationKind kind, uint64_t offset, std::span<const std::byte> bytes) {
    return kind == OperationKind::kAppend ? inner_->append(bytes) : inner_->write_at(offset, bytes);
  }

  std::shared_ptr<Record> record_;
  std::unique_ptr<File> inner_;
  std::string path_;
  bool is_direct_;
  bool is_writable_;
  uint64_t inode_ = 0;
};

}  // namespace

RecordingFileSystem::RecordingFileSystem() : record_(std::make_shared<Record>()) {}

RecordingFileSystem::RecordingFileSystem(const MemoryFileSystem& durable) : RecordingFileSystem() {
  copy_disk(durable, &record_->live);
  record_->initial = initial_disk(record_->live);
}

RecordingFileSystem::~RecordingFileSystem() = default;

Result<std::unique_ptr<File>> RecordingFileSystem::open(const std::string& path,
                                                        const OpenOptions& options) {
  const std::string normal = normalized_path(path);
  const std::lock_guard lock(record_->mutex);
  CAIRN_RETURN_IF_ERROR(record_->attempt_status(OperationKind::kOpen, normal));
  const bool is_new = !record_->live.exists(normal);
  const bool empties = !is_new && options.mode == FileMode::kWrite;
  if (is_new && options.mode != FileMode::kRead) {
    CAIRN_RETURN_IF_ERROR(record_->attempt_status(OperationKind::kCreate, normal));
  }
  // Opened buffered: the copies that this layer makes are not aligned. It checks its callers
  // itself.
  OpenOptions inner_options = options;
  inner_options.direct = false;
  CAIRN_ASSIGN_OR_RETURN(auto inner, record_->live.open(normal, inner_options));
  const uint64_t inode = inner->stat()->inode;
  if (is_new) record_->log.push_back({OperationKind::kCreate, normal, {}, inode, 0, {}});
  if (empties) record_->log.push_back({OperationKind::kTruncate, normal, {}, inode, 0, {}});
  return std::unique_ptr<File>(
      std::make_unique<RecordingFile>(record_, std::move(inner), normal, options));
}

Status RecordingFileSystem::rename(const std::string& from, const std::string& to) {
  const std::string source = normalized_path(from);
  const std::string target = normalized_path(to);
  const std::lock_guard lock(record_->mutex);
  CAIRN_RETURN_IF_ERROR(record_->attempt_status(OperationKind::kRename, source));
  const auto st = record_->live.stat(source);
  if (st.is_ok() && st->is_directory) return Status::from_errno(EXDEV, "rename folder " + source);
  CAIRN_RETURN_IF_ERROR(record_->live.rename(source, target));
  record_->log.push_back({OperationKind::kRename, source, target, st->inode, 0, {}});
  return Status::ok();
}

Status RecordingFileSystem::remove(const std::string& path) {
  const std::string normal = normalized_path(path);
  const std::lock_guard lock(record_->mutex);
  CAIRN_RETURN_IF_ERROR(record_->attempt_status(OperationKind::kRemove, normal));
  const uint64_t inode = record_->inode_of(normal);
  CAIRN_RETURN_IF_ERROR(record_->live.remove(normal));
  record_->log.push_back({OperationKind::kRemove, normal, {}, inode, 0, {}});
  return Status::ok();
}

Status RecordingFileSystem::make_directories(const std::string& path, int permissions) {
  const std::string normal = normalized_path(path);
  const std::lock_guard lock(record_->mutex);
  std::vector<std::string> missing;
  for (std::string front = normal; !record_->live.exists(front); front = parent_path(front)) {
    missing.push_back(front);
  }
  for (auto it = missing.rbegin(); it != missing.rend(); ++it) {
    CAIRN_RETURN_IF_ERROR(record_->attempt_status(OperationKind::kMakeDirectory, *it));
    CAIRN_RETURN_IF_ERROR(record_->live.make_directories(*it, permissions));
    record_->log.push_back({OperationKind::kMakeDirectory, *it, {}, record_->inode_of(*it), 0, {}});
  }
  return record_->live.make_directories(normal, permissions);  // fails when it is a file
}

Result<std::vector<DirEntry>> RecordingFileSystem::list(const std::string& path) {
  const std::lock_guard lock(record_->mutex);
  CAIRN_RETURN_IF_ERROR(record_->attempt_status(OperationKind::kList, path));
  return record_->live.list(path);
}

Result<FileStat> RecordingFileSystem::stat(const std::string& path) {
  const std::lock_guard lock(record_->mutex);
  CAIRN_RETURN_IF_ERROR(record_->attempt_status(OperationKind::kStat, path));
  return record_->live.stat(path);
}

Status RecordingFileSystem::sync_directory(const std::string& path) {
  const std::string normal = normalized_path(path);
  const std::lock_guard lock(record_->mutex);
  CAIRN_RETURN_IF_ERROR(record_->attempt_status(OperationKind::kSyncDirectory, normal));
  CAIRN_RETURN_IF_ERROR(record_->live.sync_directory(normal));
  record_->log.push_back(
      {OperationKind::kSyncDirectory, normal, {}, record_->inode_of(normal), 0, {}});
  return Status::ok();
}

Result<std::unique_ptr<FileLock>> RecordingFileSystem::lock(const std::string& path) {
  const std::string normal = normalized_path(path);
  const std::lock_guard lock(record_->mutex);
  CAIRN_RETURN_IF_ERROR(record_->attempt_status(OperationKind::kLock, normal));
  const bool is_new = !record_->live.exists(normal);
  auto held = record_->live.lock(normal);
  if (held.is_ok() && is_new) {
    record_->log.push_back({OperationKind::kCreate, normal, {}, record_->inode_of(normal), 0, {}});
  }
  return held;
}

MemoryFileSystem& RecordingFileSystem::live() {
  return record_->live;
}

size_t RecordingFileSystem::n_operations() const {
  const std::lock_guard lock(record_->mutex);
  return record_->log.size();
}

std::vector<Operation> RecordingFileSystem::operations() const {
  const std::lock_guard lock(record_->mutex);
  return record_->log;
}

std::unique_ptr<MemoryFileSystem> RecordingFileSystem::crash_state(size_t n_operations,
                                                                   CrashMode mode,
                                                                   uint64_t seed) const {
  const std::lock_guard lock(record_->mutex);
  CAIRN_CHECK(n_operations <= record_->log.size(), "no such operation");
  const std::span<const Operation> front(record_->log.data(), n_operations);
  return disk_after_power_loss(record_->initial, front, mode, seed);
}

void RecordingFileSystem::inject(const Fault& fault) {
  const std::lock_guard lock(record_->mutex);
  CAIRN_CHECK(fault.nth >= 1, "the first operation is number 1");
  record_->faults.push_back({fault, fault.nth});
}

void RecordingFileSystem::clear_faults() {
  const std::lock_guard lock(record_->mutex);
  record_->faults.clear();
}

void RecordingFileSystem::set_total_bytes_max(std::optional<uint64_t> n_bytes) {
  const std::lock_guard lock(record_->mutex);
  record_->total_bytes_max = n_bytes;
}

size_t RecordingFileSystem::n_tried(OperationKind kind) const {
  const std::lock_guard lock(record_->mutex);
  return record_->n_tried[static_cast<size_t>(kind)];
}

}  // namespace cairn
