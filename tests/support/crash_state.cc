#include "support/crash_state.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/check.h"

namespace cairn {
namespace {

constexpr size_t kSectorBytes = 512;

// One file's bytes, and the changes since its last sync.
struct Contents {
  std::vector<std::byte> durable;
  std::vector<const Operation*> pending;
};

struct Name {
  uint64_t inode = 0;
  bool is_directory = false;
};

void put_bytes(std::vector<std::byte>* bytes, uint64_t offset, std::span<const std::byte> part) {
  if (part.empty()) return;
  if (offset + part.size() > bytes->size()) bytes->resize(offset + part.size());
  std::copy(part.begin(), part.end(), bytes->begin() + static_cast<ptrdiff_t>(offset));
}

void apply_data(const Operation& op, std::vector<std::byte>* bytes) {
  if (op.kind == OperationKind::kTruncate) {
    bytes->resize(op.offset);
  } else {
    put_bytes(bytes, op.offset, op.bytes);
  }
}

class Replay {
 public:
  Replay(const InitialDisk& initial, CrashMode mode, uint64_t seed) : mode_(mode), random_(seed) {
    for (const auto& [path, file] : initial) {
      names_[path] = {file.inode, file.is_directory};
      if (!file.is_directory) contents_[file.inode].durable = file.bytes;
    }
  }

  void step(const Operation& op);
  std::unique_ptr<MemoryFileSystem> lose_power();

 private:
  bool flip_coin() { return (random_() & 1U) != 0; }

  bool keeps_name();
  void apply_name(const Operation& op);
  void apply_torn(const Operation& op, std::vector<std::byte>* bytes);
  void settle(Contents* contents);
  bool is_reachable(const std::string& path) const;

  CrashMode mode_;
  std::mt19937_64 random_;
  std::map<std::string, Name> names_;  // durable
  std::vector<const Operation*> pending_names_;
  std::map<uint64_t, Contents> contents_;
};

void Replay::step(const Operation& op) {
  switch (op.kind) {
    case OperationKind::kCreate:
      contents_[op.inode];
      [[fallthrough]];
    case OperationKind::kRename:
    case OperationKind::kRemove:
    case OperationKind::kMakeDirectory:
      pending_names_.push_back(&op);
      break;
    case OperationKind::kWrite:
    case OperationKind::kAppend:
    case OperationKind::kTruncate:
      contents_[op.inode].pending.push_back(&op);
      break;
    case OperationKind::kSyncFile: {
      Contents& contents = contents_[op.inode];
      for (const Operation* change : contents.pending) apply_data(*change, &contents.durable);
      contents.pending.clear();
      break;
    }
    case OperationKind::kSyncDirectory:
      std::erase_if(pending_names_, [&](const Operation* change) {
        const bool is_rename = change->kind == OperationKind::kRename;
        if (parent_path(is_rename ? change->path_to : change->path) != op.path) return false;
        apply_name(*change);
        return true;
      });
      break;
    default:
      CAIRN_CHECK(false, "reads are not logged");
  }
}

void Replay::apply_name(const Operation& op) {
  const bool takes_away = op.kind == OperationKind::kRename || op.kind == OperationKind::kRemove;
  // The name may belong to a younger file by now, when operations are kept out of order.
  const auto old = names_.find(op.path);
  if (takes_away && old != names_.end() && old->second.inode == op.inode) names_.erase(old);
  if (op.kind == OperationKind::kRename) names_[op.path_to] = {op.inode, false};
  if (op.kind == OperationKind::kCreate) names_[op.path] = {op.inode, false};
  if (op.kind == OperationKind::kMakeDirectory) names_[op.path] = {op.inode, true};
}

bool Replay::keeps_name() {
  switch (mode_) {
    case CrashMode::kDropUnsynced:
    case CrashMode::kDataWithoutNames:
      return false;
    case CrashMode::kKeepAll:
    case CrashMode::kNamesWithoutData:
      return true;
    case CrashMode::kRandom:
    case CrashMode::kTorn:
      break;
  }
  return flip_coin();
}

// Keeps any of the 512-byte sectors of the disk that the write covers. A lost sector inside the new
// size reads as what was there before, or as zeros.
void Replay::apply_torn(const Operation& op, std::vector<std::byte>* bytes) {
  const std::span<const std::byte> all(op.bytes);
  // A size is metadata: it may reach the disk without the bytes.
  if (flip_coin() && op.offset + all.size() > bytes->size()) bytes->resize(op.offset + all.size());
  for (size_t begin = 0; begin < all.size();) {
    const size_t n_in_sector = kSectorBytes - (op.offset + begin) % kSectorBytes;
    const size_t n = std::min(n_in_sector, all.size() - begin);
    if (flip_coin()) put_bytes(bytes, op.offset + begin, all.subspan(begin, n));
    begin += n;
  }
}

void Replay::settle(Contents* contents) {
  for (const Operation* change : contents->pending) {
    switch (mode_) {
      case CrashMode::kDropUnsynced:
      case CrashMode::kNamesWithoutData:
        break;
      case CrashMode::kKeepAll:
      case CrashMode::kDataWithoutNames:
        apply_data(*change, &contents->durable);
        break;
      case CrashMode::kTorn:
        if (change->kind != OperationKind::kTruncate && flip_coin()) {
          apply_torn(*change, &contents->durable);
          break;
        }
        [[fallthrough]];
      case CrashMode::kRandom:
        if (flip_coin()) apply_data(*change, &contents->durable);
        break;
    }
  }
  contents->pending.clear();
}

// A name in a folder that is not there is lost with it.
bool Replay::is_reachable(const std::string& path) const {
  for (std::string folder = parent_path(path); folder != "/"; folder = parent_path(folder)) {
    const auto it = names_.find(folder);
    if (it == names_.end() || !it->second.is_directory) return false;
  }
  return true;
}

std::unique_ptr<MemoryFileSystem> Replay::lose_power() {
  for (const Operation* change : pending_names_) {
    if (keeps_name()) apply_name(*change);
  }
  for (auto& [inode, contents] : contents_) settle(&contents);
  auto disk = std::make_unique<MemoryFileSystem>();
  for (const auto& [path, name] : names_) {
    if (path == "/" || !is_reachable(path)) continue;
    if (name.is_directory) {
      CAIRN_CHECK(disk->make_directories(path).is_ok(), path);
    } else {
      disk->write_bytes(path, contents_[name.inode].durable);
    }
  }
  return disk;
}

}  // namespace

InitialDisk initial_disk(MemoryFileSystem& disk) {
  InitialDisk initial;
  for (const auto& path : disk.all_directories())
    initial[path] = {disk.stat(path)->inode, true, {}};
  for (const auto& path : disk.all_files()) {
    initial[path] = {disk.stat(path)->inode, false, disk.read_bytes(path)};
  }
  return initial;
}

std::unique_ptr<MemoryFileSystem> disk_after_power_loss(const InitialDisk& initial,
                                                        std::span<const Operation> log,
                                                        CrashMode mode,
                                                        uint64_t seed) {
  Replay replay(initial, mode, seed);
  for (const Operation& op : log) replay.step(op);
  return replay.lose_power();
}

}  // namespace cairn
