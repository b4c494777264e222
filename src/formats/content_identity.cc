#include "formats/content_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/coding.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/options.h"

namespace cairn {
namespace {

namespace fs_path = std::filesystem;

constexpr uint64_t kMaxRecordBytes = 4096;
constexpr unsigned kMaxThreads = 16;
constexpr int64_t kSettledNs = 2'000'000'000;

bool same_state(const FileStat& a, const FileStat& b) {
  return a.device == b.device && a.inode == b.inode && a.size_bytes == b.size_bytes &&
         a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns;
}

// Hashes the blocks of one file; workers take the next block until none is left.
class BlockHasher {
 public:
  BlockHasher(File& file, uint64_t size_bytes, const std::stop_token& stop)
      : file_(file),
        size_bytes_(size_bytes),
        stop_(stop),
        leaves_((size_bytes + kIdentityBlockBytes - 1) / kIdentityBlockBytes) {}

  Result<std::vector<Digest>> run(unsigned n_threads) {
    const auto n_workers = static_cast<unsigned>(
        std::clamp<uint64_t>(leaves_.size(), 1, std::clamp(n_threads, 1U, kMaxThreads)));
    {
      std::vector<std::jthread> others;
      for (unsigned i = 1; i < n_workers; ++i) others.emplace_back([this] { work(); });
      work();
    }
    MutexLock lock(mutex_);
    if (!status_.is_ok()) return status_;
    return std::move(leaves_);
  }

 private:
  void work() {
    std::vector<std::byte> block(std::min(size_bytes_, kIdentityBlockBytes));
    while (!failed_.load(std::memory_order_relaxed)) {
      const uint64_t idx = next_.fetch_add(1, std::memory_order_relaxed);
      if (idx >= leaves_.size()) return;
      if (stop_.stop_requested()) return fail(Status::cancelled("hashing was called off"));
      const uint64_t offset = idx * kIdentityBlockBytes;
      const std::span<std::byte> bytes(block.data(),
                                       std::min(kIdentityBlockBytes, size_bytes_ - offset));
      Status status = file_.read_at(offset, bytes);
      if (!status.is_ok()) return fail(std::move(status));
      leaves_[idx] = sha256(bytes);  // one writer an element
    }
  }

  void fail(Status status) {
    failed_.store(true, std::memory_order_relaxed);
    MutexLock lock(mutex_);
    if (status_.is_ok()) status_ = std::move(status);
  }

  File& file_;
  const uint64_t size_bytes_;
  const std::stop_token stop_;
  std::vector<Digest> leaves_;
  std::atomic<uint64_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  Mutex mutex_;
  Status status_ CAIRN_GUARDED_BY(mutex_);
};

Digest combine(uint64_t size_bytes, const std::vector<Digest>& leaves) {
  Sha256 hash;
  hash.update_field("cairn file identity 1");
  hash.update_u64(size_bytes);
  hash.update_u64(kIdentityBlockBytes);
  for (const Digest& leaf : leaves) hash.update(leaf.bytes);
  return hash.finish();
}

Result<Digest> hash_file(FileSystem& fs,
                         const std::string& path,
                         const FileStat& before,
                         unsigned n_threads,
                         const std::stop_token& stop) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.open(path, {}));
  BlockHasher hasher(*file, before.size_bytes, stop);
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Digest> leaves, hasher.run(n_threads));
  CAIRN_ASSIGN_OR_RETURN(const FileStat after, file->stat());
  if (!same_state(before, after)) {
    return Status::corruption(
        fmt::format("{} changed while it was hashed; try again when nothing writes it", path));
  }
  return combine(before.size_bytes, leaves);
}

// One small file a weight file: nothing to merge, and a damaged one costs one hashing.
std::string record_path(const std::string& cache_dir, const FileStat& stat) {
  return (fs_path::path(cache_dir) / fmt::format("{:x}-{:x}.identity", stat.device, stat.inode))
      .string();
}

bool settled(const FileStat& stat) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return std::max(stat.mtime_ns, stat.ctime_ns) < now.count() - kSettledNs;
}

void remember(FileSystem& fs,
              const std::string& cache_dir,
              const FileStat& stat,
              const Digest& digest) {
  if (!settled(stat)) return;
  Status status = fs.make_directories(cache_dir);
  if (status.is_ok()) {
    const std::string record = format_identity_record(stat, digest);
    status = write_file_atomically(fs, record_path(cache_dir, stat), as_bytes(record));
  }
  if (!status.is_ok()) {
    log_warning("weights will be hashed again at the next start: {}", status.to_string());
  }
}

std::optional<Digest> recall(FileSystem& fs, const std::string& cache_dir, const FileStat& stat) {
  if (cache_dir.empty()) return std::nullopt;
  const Result<std::string> record =
      read_text_file(fs, record_path(cache_dir, stat), kMaxRecordBytes);
  return record.is_ok() ? parse_identity_record(*record, stat) : std::nullopt;
}

// A weight file as the identity of a model names it.
struct NamedFile {
  std::string name;  // without folders
  std::string path;
};

// In the order of their names, which must differ.
Result<std::vector<NamedFile>> sort_by_name(const std::vector<std::string>& paths) {
  if (paths.empty()) return Status::invalid_argument("no weight files to identify");
  std::vector<NamedFile> files;
  for (const std::string& path : paths) {
    files.push_back({fs_path::path(path).filename().string(), path});
  }
  std::sort(files.begin(), files.end(), [](const NamedFile& a, const NamedFile& b) {
    return a.name < b.name;
  });
  for (size_t i = 1; i < files.size(); ++i) {
    if (files[i].name != files[i - 1].name) continue;
    return Status::invalid_argument(
        fmt::format("{} and {} have the same name", files[i - 1].path, files[i].path));
  }
  return files;
}

// Combines what `identify` says of each file: Result<Digest>(path, stat).
template <typename Identify>
Result<Digest> combine_files(FileSystem& fs,
                             const std::vector<std::string>& paths,
                             const Identify& identify) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<NamedFile> files, sort_by_name(paths));
  Sha256 hash;
  hash.update_field("cairn content identity 1");
  hash.update_u64(files.size());
  for (const NamedFile& file : files) {
    CAIRN_ASSIGN_OR_RETURN(const FileStat stat, fs.stat(file.path));
    CAIRN_ASSIGN_OR_RETURN(const Digest digest, identify(file.path, stat));
    hash.update_field(file.name);
    hash.update_u64(stat.size_bytes);
    hash.update(digest.bytes);
  }
  return hash.finish();
}

}  // namespace

std::string format_identity_record(const FileStat& stat, const Digest& digest) {
  return fmt::format("cairn-identity 1 {} {} {} {} {} {}\n",
                     stat.device,
                     stat.inode,
                     stat.size_bytes,
                     stat.mtime_ns,
                     stat.ctime_ns,
                     to_hex(digest));
}

std::optional<Digest> parse_identity_record(std::string_view record, const FileStat& stat) {
  // The digest is the 64 digits before the line's end; the whole must be what we would write.
  constexpr size_t kDigits = 64;
  if (record.size() < kDigits + 1) return std::nullopt;
  const std::optional<Digest> digest =
      digest_from_hex(record.substr(record.size() - kDigits - 1, kDigits));
  if (!digest || format_identity_record(stat, *digest) != record) return std::nullopt;
  return digest;
}

Result<Digest> content_identity(FileSystem& fs,
                                const std::vector<std::string>& files,
                                const std::string& cache_dir,
                                unsigned n_threads,
                                const std::stop_token& stop) {
  if (n_threads == 0) n_threads = std::min(n_usable_cpus(), 4U);
  return combine_files(
      fs, files, [&](const std::string& path, const FileStat& stat) -> Result<Digest> {
        const std::optional<Digest> known = recall(fs, cache_dir, stat);
        if (known) return *known;
        CAIRN_ASSIGN_OR_RETURN(const Digest digest, hash_file(fs, path, stat, n_threads, stop));
        if (!cache_dir.empty()) remember(fs, cache_dir, stat, digest);
        return digest;
      });
}

std::optional<Digest> remembered_content_identity(FileSystem& fs,
                                                  const std::vector<std::string>& files,
                                                  const std::string& cache_dir) {
  const Result<Digest> digest =
      combine_files(fs, files, [&](const std::string& path, const FileStat& stat) {
        const std::optional<Digest> known = recall(fs, cache_dir, stat);
        return known ? Result<Digest>(*known) : Status::not_found(path + " is not remembered");
      });
  return digest.is_ok() ? std::optional(*digest) : std::nullopt;
}

}  // namespace cairn
