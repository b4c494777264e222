#include "support/memory_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace cairn {

std::string normalized_path(const std::string& path) {
  std::string out;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) out.append(1, '/').append(path, begin, end - begin);
    begin = end + 1;
  }
  if (out.empty()) out.append(1, '/');
  return out;
}

std::string parent_path(const std::string& path) {
  const std::string normal = normalized_path(path);
  return normal.substr(0, std::max<size_t>(normal.rfind('/'), 1));
}

struct MemoryFileSystem::Disk {
  struct Node {
    bool is_directory = false;
    uint64_t inode = 0;
    int64_t changed = 0;  // counts changes; stands for both times
    std::vector<std::byte> bytes;
  };

  mutable std::mutex mutex;
  std::map<std::string, std::shared_ptr<Node>> nodes;  // every path but its contents' parents first
  std::set<std::string> locks;
  uint64_t n_inodes = 0;
  int64_t n_changes = 0;

  // All below: the caller holds the mutex.
  std::shared_ptr<Node> find(const std::string& path) const {
    const auto it = nodes.find(path);
    return it == nodes.end() ? nullptr : it->second;
  }

  bool has_directory(const std::string& path) const {
    const auto node = find(path);
    return node != nullptr && node->is_directory;
  }

  std::shared_ptr<Node> add(const std::string& path, bool is_directory) {
    auto node = std::make_shared<Node>();
    node->is_directory = is_directory;
    node->inode = ++n_inodes;
    node->changed = ++n_changes;
    nodes[path] = node;
    return node;
  }

  void add_directories(const std::string& path) {
    if (has_directory(path)) return;
    add_directories(parent_path(path));
    add(path, true);
  }

  bool is_empty_directory(const std::string& path) const {
    const auto next = nodes.lower_bound(path == "/" ? path : path + "/");
    return next == nodes.end() || !next->first.starts_with(path + "/");
  }

  static FileStat stat_of(const Node& node) {
    FileStat st;
    st.size_bytes = node.bytes.size();
    st.device = 1;
    st.inode = node.inode;
    st.mtime_ns = node.changed;
    st.ctime_ns = node.changed;
    st.is_directory = node.is_directory;
    return st;
  }
};

namespace {

using Disk = MemoryFileSystem::Disk;

class MemoryFile final : public File {
 public:
  MemoryFile(std::shared_ptr<Disk> disk,
             std::shared_ptr<Disk::Node> node,
             std::string path,
             const OpenOptions& options)
      : disk_(std::move(disk)), node_(std::move(node)), path_(std::move(path)), options_(options) {}

  Status read_at(uint64_t offset, std::span<std::byte> out) override {
    const std::lock_guard lock(disk_->mutex);
    CAIRN_RETURN_IF_ERROR(check_aligned("read", offset, out.data(), out.size()));
    const auto& bytes = node_->bytes;
    if (offset > bytes.size() || out.size() > bytes.size() - offset) {
      return Status::corruption(fmt::format("read {} at {}: wanted {} bytes, the file has {}",
                                            path_,
                                            offset,
                                            out.size(),
                                            bytes.size()));
    }
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return Status::ok();
  }

  Status write_at(uint64_t offset, std::span<const std::span<const std::byte>> parts) override {
    CAIRN_CHECK(options_.mode != FileMode::kAppend, "write_at on a file opened for appending");
    const std::lock_guard lock(disk_->mutex);
    if (options_.mode == FileMode::kRead) return Status::from_errno(EBADF, "write " + path_);
    for (const auto part : parts) {
      CAIRN_RETURN_IF_ERROR(check_aligned("write", offset, part.data(), part.size()));
      auto& bytes = node_->bytes;
      if (offset + part.size() > bytes.size()) bytes.resize(offset + part.size());
      std::copy(part.begin(), part.end(), bytes.begin() + static_cast<ptrdiff_t>(offset));
      offset += part.size();
    }
    node_->changed = ++disk_->n_changes;
    return Status::ok();
  }

  Status append(std::span<const std::byte> bytes) override {
    CAIRN_CHECK(options_.mode == FileMode::kAppend, "append on a file not opened for appending");
    const std::lock_guard lock(disk_->mutex);
    node_->bytes.insert(node_->bytes.end(), bytes.begin(), bytes.end());
    node_->changed = ++disk_->n_changes;
    return Status::ok();
  }

  Status truncate(uint64_t size_bytes) override {
    const std::lock_guard lock(disk_->mutex);
    if (options_.mode == FileMode::kRead) return Status::from_errno(EBADF, "truncate " + path_);
    node_->bytes.resize(size_bytes);
    node_->changed = ++disk_->n_changes;
    return Status::ok();
  }

  Status sync() override { return Status::ok(); }

  Result<FileStat> stat() const override {
    const std::lock_guard lock(disk_->mutex);
    return Disk::stat_of(*node_);
  }

  bool is_direct() const override { return options_.direct; }

  int native_fd() const override { return -1; }

 private:
  Status check_aligned(const char* operation, uint64_t offset, const void* memory, size_t n) const {
    const bool aligned = (offset | n | reinterpret_cast<uintptr_t>(memory)) % 4096 == 0;
    if (!options_.direct || aligned) return Status::ok();
    return Status::from_errno(
        EINVAL, fmt::format("misaligned direct {} {} at {}", operation, path_, offset));
  }

  std::shared_ptr<Disk> disk_;
  std::shared_ptr<Disk::Node> node_;
  std::string path_;
  OpenOptions options_;
};

class MemoryFileLock final : public FileLock {
 public:
  MemoryFileLock(std::shared_ptr<Disk> disk, std::string path)
      : disk_(std::move(disk)), path_(std::move(path)) {}

  MemoryFileLock(const MemoryFileLock&) = delete;
  MemoryFileLock& operator=(const MemoryFileLock&) = delete;
  MemoryFileLock(MemoryFileLock&&) = delete;
  MemoryFileLock& operator=(MemoryFileLock&&) = delete;

  ~MemoryFileLock() override {
    const std::lock_guard lock(disk_->mutex);
    disk_->locks.erase(path_);
  }

 private:
  std::shared_ptr<Disk> disk_;
  std::string path_;
};

}  // namespace

MemoryFileSystem::MemoryFileSystem() : disk_(std::make_shared<Disk>()) {
  disk_->add("/", true);
}

MemoryFileSystem::~MemoryFileSystem() = default;

Result<std::unique_ptr<File>> MemoryFileSystem::open(const std::string& path,
                                                     const OpenOptions& options) {
  const std::string normal = normalized_path(path);
  const std::lock_guard lock(disk_->mutex);
  auto node = disk_->find(normal);
  if (node != nullptr && node->is_directory) return Status::from_errno(EISDIR, "open " + path);
  if (node == nullptr) {
    const bool may_create =
        options.mode != FileMode::kRead && disk_->has_directory(parent_path(normal));
    if (!may_create) return Status::from_errno(ENOENT, "open " + path);
    node = disk_->add(normal, false);
  } else if (options.mode == FileMode::kWrite) {
    node->bytes.clear();
    node->changed = ++disk_->n_changes;
  }
  return std::unique_ptr<File>(
      std::make_unique<MemoryFile>(disk_, std::move(node), normal, options));
}

Status MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  const std::string source = normalized_path(from);
  const std::string target = normalized_path(to);
  const std::string what = fmt::format("rename {} to {}", from, to);
  const std::lock_guard lock(disk_->mutex);
  const auto node = disk_->find(source);
  if (node == nullptr || !disk_->has_directory(parent_path(target))) {
    return Status::from_errno(ENOENT, what);
  }
  if (source == target) return Status::ok();
  const auto old = disk_->find(target);
  if (old != nullptr && old->is_directory && !node->is_directory)
    return Status::from_errno(EISDIR, what);
  if (node->is_directory) {
    const bool into_itself = target.starts_with(source + "/");
    if (into_itself || old != nullptr)
      return Status::from_errno(into_itself ? EINVAL : EEXIST, what);
    std::map<std::string, std::shared_ptr<Disk::Node>> moved;
    for (const auto& [name, child] : disk_->nodes) {
      if (name.starts_with(source + "/")) moved[target + name.substr(source.size())] = child;
    }
    std::erase_if(disk_->nodes, [&](const auto& n) { return n.first.starts_with(source + "/"); });
    disk_->nodes.merge(moved);
  }
  disk_->nodes.erase(source);
  disk_->nodes[target] = node;
  return Status::ok();
}

Status MemoryFileSystem::remove(const std::string& path) {
  const std::string normal = normalized_path(path);
  const std::lock_guard lock(disk_->mutex);
  const auto node = disk_->find(normal);
  if (node == nullptr) return Status::from_errno(ENOENT, "remove " + path);
  if (normal == "/") return Status::from_errno(EBUSY, "remove /");
  if (node->is_directory && !disk_->is_empty_directory(normal)) {
    return Status::from_errno(ENOTEMPTY, "remove " + path);
  }
  disk_->nodes.erase(normal);
  return Status::ok();
}

Status MemoryFileSystem::make_directories(const std::string& path, int /*permissions*/) {
  const std::string normal = normalized_path(path);
  const std::lock_guard lock(disk_->mutex);
  for (std::string front = normal; front != "/"; front = parent_path(front)) {
    const auto node = disk_->find(front);
    if (node != nullptr && !node->is_directory) {
      return Status::from_errno(ENOTDIR, fmt::format("make directory {}", path));
    }
  }
  disk_->add_directories(normal);
  return Status::ok();
}

Result<std::vector<DirEntry>> MemoryFileSystem::list(const std::string& path) {
  const std::string normal = normalized_path(path);
  const std::lock_guard lock(disk_->mutex);
  const auto node = disk_->find(normal);
  if (node == nullptr) return Status::from_errno(ENOENT, "list " + path);
  if (!node->is_directory) return Status::from_errno(ENOTDIR, "list " + path);
  const std::string front = normal == "/" ? normal : normal + "/";
  std::vector<DirEntry> entries;
  for (auto it = disk_->nodes.upper_bound(front); it != disk_->nodes.end(); ++it) {
    if (!it->first.starts_with(front)) break;
    std::string name = it->first.substr(front.size());
    if (name.find('/') == std::string::npos)
      entries.push_back({std::move(name), it->second->is_directory});
  }
  return entries;
}

Result<FileStat> MemoryFileSystem::stat(const std::string& path) {
  const std::lock_guard lock(disk_->mutex);
  const auto node = disk_->find(normalized_path(path));
  if (node == nullptr) return Status::from_errno(ENOENT, "stat " + path);
  return Disk::stat_of(*node);
}

Status MemoryFileSystem::sync_directory(const std::string& path) {
  const std::lock_guard lock(disk_->mutex);
  if (disk_->has_directory(normalized_path(path))) return Status::ok();
  return Status::from_errno(ENOENT, "sync directory " + path);
}

Result<std::unique_ptr<FileLock>> MemoryFileSystem::lock(const std::string& path) {
  const std::string normal = normalized_path(path);
  const std::lock_guard lock(disk_->mutex);
  if (!disk_->has_directory(parent_path(normal))) return Status::from_errno(ENOENT, "lock " + path);
  if (!disk_->locks.insert(normal).second) {
    return Status::overloaded(fmt::format("lock {}: this process holds it", path));
  }
  if (disk_->find(normal) == nullptr) disk_->add(normal, false);
  return std::unique_ptr<FileLock>(std::make_unique<MemoryFileLock>(disk_, normal));
}

std::vector<std::byte> MemoryFileSystem::read_bytes(const std::string& path) const {
  const std::lock_guard lock(disk_->mutex);
  const auto node = disk_->find(normalized_path(path));
  CAIRN_CHECK(node != nullptr && !node->is_directory, path);
  return node->bytes;
}

void MemoryFileSystem::flip_bits(const std::string& path, uint64_t offset, std::byte mask) {
  const std::lock_guard lock(disk_->mutex);
  const auto node = disk_->find(normalized_path(path));
  CAIRN_CHECK(node != nullptr && offset < node->bytes.size(), path);
  node->bytes[offset] ^= mask;
}

void MemoryFileSystem::write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  const std::string normal = normalized_path(path);
  const std::lock_guard lock(disk_->mutex);
  disk_->add_directories(parent_path(normal));
  auto node = disk_->find(normal);
  if (node == nullptr) node = disk_->add(normal, false);
  CAIRN_CHECK(!node->is_directory, path);
  node->bytes.assign(bytes.begin(), bytes.end());
  node->changed = ++disk_->n_changes;
}

bool MemoryFileSystem::exists(const std::string& path) const {
  const std::lock_guard lock(disk_->mutex);
  return disk_->find(normalized_path(path)) != nullptr;
}

std::vector<std::string> MemoryFileSystem::all_files() const {
  const std::lock_guard lock(disk_->mutex);
  std::vector<std::string> paths;
  for (const auto& [path, node] : disk_->nodes) {
    if (!node->is_directory) paths.push_back(path);
  }
  return paths;
}

std::vector<std::string> MemoryFileSystem::all_directories() const {
  const std::lock_guard lock(disk_->mutex);
  std::vector<std::string> paths;
  for (const auto& [path, node] : disk_->nodes) {
    if (node->is_directory) paths.push_back(path);
  }
  return paths;
}

uint64_t MemoryFileSystem::total_bytes() const {
  const std::lock_guard lock(disk_->mutex);
  uint64_t n = 0;
  for (const auto& [path, node] : disk_->nodes) n += node->bytes.size();
  return n;
}

}  // namespace cairn
