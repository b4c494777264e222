#include "arena_file_system.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace cairn {
namespace {

class ArenaFile final : public File {
 public:
  ArenaFile(ArenaFileSystem& fs, std::shared_ptr<ArenaFileSystem::Node> node, std::string path)
      : fs_(fs), node_(std::move(node)), path_(std::move(path)) {}

  Status read_at(uint64_t offset, std::span<std::byte> out) override {
    if (offset > node_->size_bytes || out.size() > node_->size_bytes - offset) {
      return Status::corruption(fmt::format("{} ends before {} + {}", path_, offset, out.size()));
    }
    while (!out.empty()) {
      const auto [at, n] = piece(offset, out.size());
      std::memcpy(out.data(), at, n);
      out = out.subspan(n);
      offset += n;
    }
    return Status::ok();
  }

  Status write_at(uint64_t offset, std::span<const std::span<const std::byte>> parts) override {
    for (std::span<const std::byte> part : parts) {
      while (node_->chunks.size() * ArenaFileSystem::kChunkBytes < offset + part.size()) {
        CAIRN_ASSIGN_OR_RETURN(std::byte* const chunk, fs_.take_chunk());
        node_->chunks.push_back(chunk);
      }
      node_->size_bytes = std::max(node_->size_bytes, offset + part.size());
      while (!part.empty()) {
        const auto [at, n] = piece(offset, part.size());
        std::memcpy(at, part.data(), n);
        part = part.subspan(n);
        offset += n;
      }
    }
    return Status::ok();
  }

  Status append(std::span<const std::byte> bytes) override {
    return write_at(node_->size_bytes, std::span<const std::span<const std::byte>>(&bytes, 1));
  }

  Status truncate(uint64_t size_bytes) override {
    node_->size_bytes = size_bytes;
    return Status::ok();
  }

  Status sync() override { return Status::ok(); }

  Result<FileStat> stat() const override {
    FileStat stat;
    stat.size_bytes = node_->size_bytes;
    return stat;
  }

  bool is_direct() const override { return false; }

  int native_fd() const override { return -1; }

 private:
  // The longest piece from `offset` that lies in one chunk, at most n bytes.
  std::pair<std::byte*, size_t> piece(uint64_t offset, size_t n) {
    const size_t inside = offset % ArenaFileSystem::kChunkBytes;
    std::byte* const at = node_->chunks[offset / ArenaFileSystem::kChunkBytes] + inside;
    return {at, std::min(n, ArenaFileSystem::kChunkBytes - inside)};
  }

  ArenaFileSystem& fs_;
  std::shared_ptr<ArenaFileSystem::Node> node_;
  std::string path_;
};

class NoLock final : public FileLock {};

}  // namespace

ArenaFileSystem::ArenaFileSystem(size_t capacity_bytes) : arena_(Buffer::allocate(capacity_bytes)) {
  std::memset(arena_.data(), 1, arena_.size());
  for (size_t at = 0; at + kChunkBytes <= arena_.size(); at += kChunkBytes)
    free_.push_back(arena_.data() + at);
  std::reverse(free_.begin(), free_.end());
}

Result<std::byte*> ArenaFileSystem::take_chunk() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return Status::from_errno(ENOSPC, "the arena");
  std::byte* const chunk = free_.back();
  free_.pop_back();
  return chunk;
}

void ArenaFileSystem::empty(Node& node) {
  free_.insert(free_.end(), node.chunks.begin(), node.chunks.end());
  node.chunks.clear();
  node.size_bytes = 0;
}

void ArenaFileSystem::give_back(std::vector<std::byte*>& chunks) {
  const std::lock_guard lock(mutex_);
  free_.insert(free_.end(), chunks.begin(), chunks.end());
  chunks.clear();
}

Result<std::unique_ptr<File>> ArenaFileSystem::open(const std::string& path,
                                                    const OpenOptions& options) {
  const std::lock_guard lock(mutex_);
  auto& node = nodes_[path];
  if (node == nullptr && options.mode == FileMode::kRead) {
    nodes_.erase(path);
    return Status::from_errno(ENOENT, "open " + path);
  }
  if (node == nullptr) node = std::make_shared<Node>();
  if (options.mode == FileMode::kWrite) empty(*node);
  return std::unique_ptr<File>(std::make_unique<ArenaFile>(*this, node, path));
}

Status ArenaFileSystem::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  const auto it = nodes_.find(from);
  if (it == nodes_.end()) return Status::from_errno(ENOENT, "rename " + from);
  const auto node = it->second;
  nodes_.erase(it);
  nodes_[to] = node;
  return Status::ok();
}

Status ArenaFileSystem::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto it = nodes_.find(path);
  if (it == nodes_.end()) return Status::from_errno(ENOENT, "remove " + path);
  empty(*it->second);
  nodes_.erase(it);
  return Status::ok();
}

Status ArenaFileSystem::make_directories(const std::string& path, int /*permissions*/) {
  const std::lock_guard lock(mutex_);
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    nodes_.try_emplace(path.substr(0, at), std::make_shared<Node>(Node{true, 0, {}}));
  }
  nodes_.try_emplace(path, std::make_shared<Node>(Node{true, 0, {}}));
  return Status::ok();
}

Result<std::vector<DirEntry>> ArenaFileSystem::list(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::vector<DirEntry> entries;
  for (auto it = nodes_.lower_bound(path + "/");
       it != nodes_.end() && it->first.starts_with(path + "/");
       ++it) {
    std::string name = it->first.substr(path.size() + 1);
    if (name.find('/') == std::string::npos)
      entries.push_back({std::move(name), it->second->is_directory});
  }
  return entries;
}

Result<FileStat> ArenaFileSystem::stat(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto it = nodes_.find(path);
  if (it == nodes_.end()) return Status::from_errno(ENOENT, "stat " + path);
  FileStat stat;
  stat.size_bytes = it->second->size_bytes;
  stat.is_directory = it->second->is_directory;
  return stat;
}

Status ArenaFileSystem::sync_directory(const std::string& /*path*/) {
  return Status::ok();
}

Result<std::unique_ptr<FileLock>> ArenaFileSystem::lock(const std::string& /*path*/) {
  return std::unique_ptr<FileLock>(std::make_unique<NoLock>());
}

}  // namespace cairn
