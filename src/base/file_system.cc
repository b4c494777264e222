#include "base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/coding.h"
#include "base/hash.h"
#include "base/unique_fd.h"

namespace cairn {
namespace {

constexpr size_t kDirectAlignment = 4096;
// Parts of one pwritev; the kernel's limit (IOV_MAX) is 1024.
constexpr size_t kPartsMax = 256;

bool is_aligned(uint64_t offset, const void* memory, size_t n) {
  return (offset | reinterpret_cast<uintptr_t>(memory) | n) % kDirectAlignment == 0;
}

FileStat file_stat_of(const struct stat& st) {
  FileStat out;
  out.size_bytes = static_cast<uint64_t>(st.st_size);
  out.device = st.st_dev;
  out.inode = st.st_ino;
  out.mtime_ns = int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec;
  out.ctime_ns = int64_t{st.st_ctim.tv_sec} * 1'000'000'000 + st.st_ctim.tv_nsec;
  out.is_directory = S_ISDIR(st.st_mode);
  return out;
}

class PosixFile final : public File {
 public:
  PosixFile(UniqueFd fd, std::string path, FileMode mode, bool direct)
      : fd_(std::move(fd)), path_(std::move(path)), mode_(mode), direct_(direct) {}

  Status read_at(uint64_t offset, std::span<std::byte> out) override;
  Status write_at(uint64_t offset, std::span<const std::span<const std::byte>> parts) override;
  Status append(std::span<const std::byte> bytes) override;
  Status truncate(uint64_t size_bytes) override;
  Status sync() override;
  Result<FileStat> stat() const override;

  bool is_direct() const override { return direct_.load(std::memory_order_relaxed); }

  int native_fd() const override { return fd_.get(); }

 private:
  Status failed(const char* operation, uint64_t offset) const {
    return Status::from_errno(errno, fmt::format("{} {} at {}", operation, path_, offset));
  }

  // Some file systems accept O_DIRECT at open and refuse it at the first transfer. Returns true
  // when the transfer that just failed with errno should be tried again, buffered.
  bool leave_direct();

  UniqueFd fd_;
  std::string path_;
  FileMode mode_;
  std::atomic<bool> direct_;  // reads may run on several threads at once
};

bool PosixFile::leave_direct() {
  if (errno != EINVAL || !is_direct()) return false;
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) != 0) {
    errno = EINVAL;
    return false;
  }
  direct_.store(false, std::memory_order_relaxed);
  return true;
}

Status PosixFile::read_at(uint64_t offset, std::span<std::byte> out) {
  const bool aligned = is_aligned(offset, out.data(), out.size());
  size_t n_done = 0;
  while (n_done < out.size()) {
    const ssize_t n = ::pread(
        fd_.get(), out.data() + n_done, out.size() - n_done, static_cast<off_t>(offset + n_done));
    if (n < 0) {
      if (errno == EINTR || (aligned && leave_direct())) continue;
      return failed("read", offset + n_done);
    }
    n_done += static_cast<size_t>(n);
    // A direct read that stops inside a sector has met the end; asking on would be misaligned.
    const bool at_end = n == 0 || (is_direct() && n_done < out.size() && n_done % 512 != 0);
    if (at_end) {
      return Status::corruption(
          fmt::format("read {} at {}: wanted {} bytes, the file ends after {}",
                      path_,
                      offset,
                      out.size(),
                      n_done));
    }
  }
  return Status::ok();
}

Status PosixFile::write_at(uint64_t offset, std::span<const std::span<const std::byte>> parts) {
  // Linux would ignore the offset and append.
  CAIRN_CHECK(mode_ != FileMode::kAppend, "write_at on a file opened for appending");
  const bool aligned = std::ranges::all_of(
      parts, [&](const auto& p) { return is_aligned(offset, p.data(), p.size()); });
  std::array<iovec, kPartsMax> vectors;
  size_t part_idx = 0;  // first part not wholly written, and how much of it was
  size_t part_done = 0;
  while (true) {
    while (part_idx < parts.size() && part_done == parts[part_idx].size()) {
      ++part_idx;
      part_done = 0;
    }
    if (part_idx == parts.size()) return Status::ok();
    const size_t n_vectors = std::min(kPartsMax, parts.size() - part_idx);
    for (size_t i = 0; i < n_vectors; ++i) {
      const auto rest = parts[part_idx + i].subspan(i == 0 ? part_done : 0);
      vectors[i] = {const_cast<std::byte*>(rest.data()), rest.size()};
    }
    const ssize_t n = ::pwritev(
        fd_.get(), vectors.data(), static_cast<int>(n_vectors), static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR || (aligned && leave_direct())) continue;
      return failed("write", offset);
    }
    offset += static_cast<uint64_t>(n);
    for (size_t left = static_cast<size_t>(n); left > 0;) {
      const size_t taken = std::min(left, parts[part_idx].size() - part_done);
      part_done += taken;
      left -= taken;
      if (part_done == parts[part_idx].size()) {
        ++part_idx;
        part_done = 0;
      }
    }
  }
}

Status PosixFile::append(std::span<const std::byte> bytes) {
  CAIRN_CHECK(mode_ == FileMode::kAppend, "append on a file not opened for appending");
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return Status::from_errno(errno, fmt::format("append to {}", path_));
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return Status::ok();
}

Status PosixFile::truncate(uint64_t size_bytes) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(size_bytes)) == 0) return Status::ok();
  return Status::from_errno(errno, fmt::format("truncate {} to {}", path_, size_bytes));
}

Status PosixFile::sync() {
  // Not retried on other errors: after a failed fsync the kernel may have dropped the pages.
  while (::fdatasync(fd_.get()) != 0) {
    if (errno != EINTR) return Status::from_errno(errno, fmt::format("sync {}", path_));
  }
  return Status::ok();
}

Result<FileStat> PosixFile::stat() const {
  struct stat st {};

  if (::fstat(fd_.get(), &st) == 0) return file_stat_of(st);
  return Status::from_errno(errno, fmt::format("stat {}", path_));
}

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(UniqueFd fd) : fd_(std::move(fd)) {}

 private:
  UniqueFd fd_;  // closing it releases the flock
};

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status make_directories(const std::string& path, int permissions) override;
  Result<std::vector<DirEntry>> list(const std::string& path) override;
  Result<FileStat> stat(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;
};

int open_flags(FileMode mode) {
  switch (mode) {
    case FileMode::kRead:
      return O_RDONLY | O_NONBLOCK;  // a FIFO must not hang the caller; regular files ignore it
    case FileMode::kWrite:
      return O_RDWR | O_CREAT | O_TRUNC;
    case FileMode::kAppend:
      return O_RDWR | O_CREAT | O_APPEND;
  }
  return O_RDONLY;
}

int open_retrying(const std::string& path, int flags, int permissions) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, permissions);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

Result<std::unique_ptr<File>> PosixFileSystem::open(const std::string& path,
                                                    const OpenOptions& options) {
  const int flags = open_flags(options.mode);
  bool direct = options.direct;
  UniqueFd fd(open_retrying(path, flags | (direct ? O_DIRECT : 0), options.permissions));
  if (!fd.is_open() && direct && errno == EINVAL) {
    direct = false;
    fd = UniqueFd(open_retrying(path, flags, options.permissions));
    // The caller wanted the page cache left alone; this is as near as buffered reads come.
    if (fd.is_open()) ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_NOREUSE);
  }
  if (!fd.is_open()) return Status::from_errno(errno, fmt::format("open {}", path));

  struct stat st {};

  if (::fstat(fd.get(), &st) != 0) return Status::from_errno(errno, fmt::format("stat {}", path));
  if (!S_ISREG(st.st_mode)) {
    return Status::io(
        fmt::format("open {}: it is not a regular file; give the path of a file", path));
  }
  return std::unique_ptr<File>(
      std::make_unique<PosixFile>(std::move(fd), path, options.mode, direct));
}

Status PosixFileSystem::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return Status::ok();
  return Status::from_errno(errno, fmt::format("rename {} to {}", from, to));
}

Status PosixFileSystem::remove(const std::string& path) {
  // ::remove, not unlink: it takes empty folders too.
  if (::remove(path.c_str()) == 0) return Status::ok();
  return Status::from_errno(errno, fmt::format("remove {}", path));
}

Status PosixFileSystem::make_directories(const std::string& path, int permissions) {
  for (size_t at = 0; at < path.size();) {
    at = std::min(path.find('/', at + 1), path.size());
    const std::string front = path.substr(0, at);
    if (::mkdir(front.c_str(), static_cast<mode_t>(permissions)) == 0 || errno == EEXIST) continue;
    const int error_number = errno;

    struct stat st {};

    // A parent on a read-only or foreign file system answers EROFS or EACCES though it exists.
    if (::stat(front.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) continue;
    return Status::from_errno(error_number, fmt::format("make directory {}", front));
  }
  CAIRN_ASSIGN_OR_RETURN(const FileStat made, stat(path));
  if (made.is_directory) return Status::ok();
  return Status::from_errno(ENOTDIR, fmt::format("make directory {}", path));
}

Result<std::vector<DirEntry>> PosixFileSystem::list(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()),
                                                [](DIR* d) { return ::closedir(d); });
  if (dir == nullptr) return Status::from_errno(errno, fmt::format("list {}", path));
  std::vector<DirEntry> entries;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    DirEntry out{entry->d_name, entry->d_type == DT_DIR};
    if (out.name == "." || out.name == "..") continue;
    if (entry->d_type == DT_UNKNOWN) {
      struct stat st {};

      out.is_directory =
          ::fstatat(::dirfd(dir.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
          S_ISDIR(st.st_mode);
    }
    entries.push_back(std::move(out));
  }
  if (errno != 0) return Status::from_errno(errno, fmt::format("list {}", path));
  return entries;
}

Result<FileStat> PosixFileSystem::stat(const std::string& path) {
  struct stat st {};

  if (::stat(path.c_str(), &st) == 0) return file_stat_of(st);
  return Status::from_errno(errno, fmt::format("stat {}", path));
}

Status PosixFileSystem::sync_directory(const std::string& path) {
  const UniqueFd fd(open_retrying(path, O_RDONLY | O_DIRECTORY, 0));
  if (!fd.is_open()) return Status::from_errno(errno, fmt::format("open directory {}", path));
  while (::fsync(fd.get()) != 0) {
    if (errno != EINTR) return Status::from_errno(errno, fmt::format("sync directory {}", path));
  }
  return Status::ok();
}

Result<std::unique_ptr<FileLock>> PosixFileSystem::lock(const std::string& path) {
  UniqueFd fd(open_retrying(path, O_RDWR | O_CREAT, 0600));
  if (!fd.is_open()) return Status::from_errno(errno, fmt::format("open {}", path));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Status::from_errno(errno, fmt::format("lock {}", path));
    std::array<char, 32> text{};
    const ssize_t n = ::pread(fd.get(), text.data(), text.size(), 0);
    std::string holder(text.data(), n > 0 ? static_cast<size_t>(n) : 0);
    holder.erase(std::min(holder.find('\n'), holder.size()));
    return Status::overloaded(
        fmt::format("lock {}: process {} holds it; stop that process or use another folder",
                    path,
                    holder.empty() ? "(unknown)" : holder));
  }
  // For people only: a failure to write it does not weaken the lock.
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd.get(), 0) == 0) {
    [[maybe_unused]] const ssize_t n = ::pwrite(fd.get(), pid.data(), pid.size(), 0);
  }
  return std::unique_ptr<FileLock>(std::make_unique<PosixFileLock>(std::move(fd)));
}

// Files under /proc say they are empty, so the text is read until it ends, not by its size.
Status read_all(File& file, uint64_t max_bytes, const std::string& path, std::string* text) {
  constexpr size_t kStep = 4096;
  while (true) {
    if (text->size() > max_bytes) {
      return Status::invalid_argument(
          fmt::format("{}: more than {} bytes, the most that is read here", path, max_bytes));
    }
    const size_t begin = text->size();
    text->resize(begin + kStep);
    ssize_t n = 0;
    do {
      n = ::pread(file.native_fd(), text->data() + begin, kStep, static_cast<off_t>(begin));
    } while (n < 0 && errno == EINTR);
    text->resize(begin + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n < 0) return Status::from_errno(errno, fmt::format("read {}", path));
    if (n == 0) return Status::ok();
  }
}

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem instance;
  return instance;
}

Result<uint64_t> free_space_bytes(const std::string& path) {
  struct statvfs st {};

  if (::statvfs(path.c_str(), &st) != 0) {
    return Status::from_errno(errno, fmt::format("free space of {}", path));
  }
  uint64_t n_bytes = 0;
  const bool fits = checked_mul(st.f_bavail, st.f_frsize, &n_bytes);
  return fits ? n_bytes : std::numeric_limits<uint64_t>::max();
}

Result<std::string> read_text_file(FileSystem& fs, const std::string& path, uint64_t max_bytes) {
  CAIRN_ASSIGN_OR_RETURN(const auto file, fs.open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileStat st, file->stat());
  if (st.size_bytes > max_bytes) {
    return Status::invalid_argument(
        fmt::format("{}: {} bytes, at most {} are read here", path, st.size_bytes, max_bytes));
  }
  std::string text;
  if (file->native_fd() >= 0 && st.size_bytes == 0) {
    CAIRN_RETURN_IF_ERROR(read_all(*file, max_bytes, path, &text));
    return text;
  }
  text.resize(static_cast<size_t>(st.size_bytes));
  CAIRN_RETURN_IF_ERROR(file->read_at(0, std::as_writable_bytes(std::span<char>(text))));
  return text;
}

Status write_file_atomically(FileSystem& fs,
                             const std::string& path,
                             std::span<const std::byte> bytes) {
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
  const std::string temp = fmt::format("{}.{:016x}.tmp", path, random_u64());
  const auto write = [&]() -> Status {
    OpenOptions options;
    options.mode = FileMode::kWrite;
    CAIRN_ASSIGN_OR_RETURN(const auto file, fs.open(temp, options));
    CAIRN_RETURN_IF_ERROR(file->write_at(0, bytes));
    return file->sync();
  };
  Status status = write();
  if (status.is_ok()) status = fs.rename(temp, path);
  if (!status.is_ok()) {
    // Best effort: the first error is the one worth reporting.
    static_cast<void>(fs.remove(temp).is_ok());
    return status;
  }
  return fs.sync_directory(folder);
}

}  // namespace cairn
