// StoreFiles on its own threads: the engine sends commands with leased memory and gets replies.
//
// One writer thread (write, sync, remove, quarantine, recency) and one reader thread with many
// reads in flight. Commands are bounded by the engine (bytes leased, restores admitted), so the
// queues cannot grow without limit. Thread: engine thread calls; `reply` is called on the I/O
// threads and must only hand the message over (engine inbox).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "store/store_files.h"

namespace cairn {

struct WriteReply {
  uint64_t ticket = 0;
  Status status;
  uint64_t file_bytes = 0;
};

struct ReadReply {
  uint64_t ticket = 0;
  Status status;  // of the whole object
  uint64_t n_bytes = 0;
  uint64_t micros = 0;
};

struct SyncReply {
  uint64_t ticket = 0;  // everything published by write tickets before it is durable
  Status status;
};

struct ForgetReply {
  uint64_t ticket = 0;
  Status status;
  uint64_t n_objects = 0;  // files removed
  uint64_t n_bytes = 0;
};

using StoreReply = std::variant<WriteReply, ReadReply, SyncReply, ForgetReply>;

class DiskStore {
 public:
  // Takes over opened files. `reply` outlives the store.
  DiskStore(std::unique_ptr<StoreFiles> files, std::function<void(StoreReply)> reply);
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;
  DiskStore(DiskStore&&) = delete;
  DiskStore& operator=(DiskStore&&) = delete;
  ~DiskStore();  // finishes the commands that are queued

  void describe_root(RootSpec spec);
  void remove_root(RootKey root);
  void write(uint64_t ticket, ObjectSource source);  // -> WriteReply
  void read(uint64_t ticket,
            ObjectEntry entry,
            std::vector<PageLayout> layouts,
            std::vector<PageTarget> targets);  // -> ReadReply
  void sync(uint64_t ticket);                  // -> SyncReply
  // `whole_root`: whatever else lies in this root's folder goes too.
  void forget(uint64_t ticket,
              std::vector<ObjectEntry> entries,
              std::optional<RootKey> whole_root);  // -> ForgetReply
  void quarantine(ObjectEntry entry, std::string reason);
  void remove(ObjectEntry entry);
  void record_use(std::vector<PageKey> object_keys, int64_t unix_seconds);
  void compact(std::vector<ObjectEntry> live);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
