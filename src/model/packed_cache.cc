#include "model/packed_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/coding.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/options.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".packed";
constexpr size_t kPlaceDigits = 8;
constexpr size_t kKeyDigits = 16;
constexpr uint64_t kLeftFree = uint64_t{1} << 30;
constexpr unsigned kMaxThreads = 8;  // enough for any memory

unsigned n_hash_threads() {
  return std::clamp(n_usable_cpus(), 1U, kMaxThreads);
}

std::string absolute_text(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(path, error);
  return error ? path : absolute.string();
}

void remove_file(const std::string& path) {
  const Status removed = posix_file_system().remove(path);
  if (!removed.is_ok()) log_warning("old packed weights stay: {}", removed.message());
}

}  // namespace

PackedCache::PackedCache(PackedCacheOptions options,
                         const std::string& weights_path,
                         const Digest& key)
    : options_(std::move(options)), key_(key) {
  const fs::path path(absolute_text(weights_path));
  const Digest place = sha256(as_bytes(path.string()));
  name_front_ = fmt::format(
      "{}-{}.", path.stem().string(), std::string_view(to_hex(place)).substr(0, kPlaceDigits));
}

std::string PackedCache::path_in(const std::string& folder) const {
  const std::string key = to_hex(key_).substr(0, kKeyDigits);
  return (fs::path(folder) / (name_front_ + key + kEnding)).string();
}

std::optional<PackedFile> PackedCache::find() const {
  for (const std::string& folder : options_.folders) {
    Result<PackedFile> file = PackedFile::open(path_in(folder), key_, n_hash_threads());
    if (file.is_ok()) return std::move(file).value();
    if (file.status().code() == StatusCode::kNotFound) continue;
    log_warning("packed weights cannot be used and are made again: {}", file.status().message());
    if (file.status().code() == StatusCode::kCorruption) remove_file(path_in(folder));
  }
  return std::nullopt;
}

void PackedCache::remove_stale(const std::string& folder) const {
  const Result<std::vector<DirEntry>> entries = posix_file_system().list(folder);
  if (!entries.is_ok()) return;
  for (const DirEntry& entry : *entries) {
    // Ours end in .packed, or in .packed.tmp-<random> while they are written.
    if (entry.is_directory || !entry.name.starts_with(name_front_)) continue;
    if (entry.name.find(kEnding, name_front_.size()) == std::string::npos) continue;
    remove_file((fs::path(folder) / entry.name).string());
  }
}

Status PackedCache::keep_in(const std::string& folder,
                            std::span<const std::span<const std::byte>> blobs,
                            uint64_t n_bytes) const {
  CAIRN_RETURN_IF_ERROR(posix_file_system().make_directories(folder));
  // Where the identity of the weights cannot be remembered, each start comes here.
  if (posix_file_system().stat(path_in(folder)).is_ok()) return Status::ok();
  remove_stale(folder);
  const Result<uint64_t> n_free = free_space_bytes(folder);
  if (n_free.is_ok() && *n_free < n_bytes + kLeftFree) {
    return Status::no_space(
        fmt::format("{} has {} bytes free; the packed weights take {} and leave {} free",
                    folder,
                    *n_free,
                    n_bytes,
                    kLeftFree));
  }
  return write_packed_file(path_in(folder), key_, blobs, n_hash_threads());
}

void PackedCache::keep(std::span<const std::span<const std::byte>> blobs) const {
  uint64_t n_bytes = 0;
  for (const std::span<const std::byte> blob : blobs) n_bytes += blob.size();
  if (options_.folders.empty() || n_bytes < options_.min_bytes) return;
  std::string reasons;
  for (const std::string& folder : options_.folders) {
    const Status status = keep_in(folder, blobs, n_bytes);
    if (status.is_ok()) return log_info("packed weights kept: {}", path_in(folder));
    reasons += (reasons.empty() ? "" : "; ") + status.message();
  }
  log_info("packed weights are not kept, so the next start packs them again: {}", reasons);
}

}  // namespace cairn
