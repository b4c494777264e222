// The store's folder, synchronously: objects, the index log, the lock. The crash tests drive this
// class over a recording file system; DiskStore runs it on I/O threads.
//
//   <store>/lock                         flock of the one server that owns the store
//   <store>/index.log                    append-only, checksummed records (docs/formats/index.md);
//                                        with a key: index-<id of the key>.log
//   <store>/<root hex>/root.cairn        JSON: what the root is, for tools
//   <store>/<root hex>/<2 hex>/<key>.<run|leaf>
//   <store>/quarantine/                  objects set aside, with the reason in their name
//   <store>/tmp/                         unfinished objects; emptied at open
//
// Published (renamed) means visible, durable means synced. Nothing unverified is ever served, so
// publishing needs no sync. Design: DESIGN.md 3.6, 3.7.
// Thread: one thread at a time, except read_object() which may run beside the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "base/io_queue.h"
#include "base/result.h"
#include "store/object_entry.h"
#include "store/object_format.h"

namespace cairn {

struct StoreOptions {
  std::string directory;
  IoEngine io_engine = IoEngine::kAuto;
  unsigned read_depth = 32;  // reads in flight, 1 to 256
  bool direct_io = true;
  // Seals what is written. Objects of another key, or of none, are left alone and not served.
  std::shared_ptr<const StoreKey> key = nullptr;
  bool read_only = false;  // tools beside a running server: no lock, no clean-up, no writes
};

// What an object is made of. The bytes must stay until write_object returns.
struct ObjectSource {
  RootKey root;
  ObjectKind kind = ObjectKind::kRun;
  PageKey parent;
  std::vector<PageRecord> pages;
  std::vector<PageLayout> layouts;  // one a group
  std::vector<std::vector<const std::byte*>>
      bytes;  // [page][group], each a whole page in host memory
};

// Where restored bytes go: whole pages, host memory, 4 KiB aligned; wholly overwritten (rows a leaf
// does not have become zero).
struct PageTarget {
  uint32_t page_index = 0;
  std::vector<std::byte*> bytes;  // one a group
};

struct ReadJob {
  const ObjectEntry* entry = nullptr;
  std::span<const PageLayout> layouts;
  std::span<const PageTarget> targets;
};

struct OpenReport {
  std::vector<ObjectEntry> objects;  // in the log's order, oldest first
  bool index_was_rebuilt = false;    // the log was lost or torn beyond its tail
  uint64_t n_bad_records = 0;
  uint64_t n_missing_files = 0;    // a record whose file is gone: a counted miss
  uint64_t n_unknown_version = 0;  // left alone: another version's, or another key's
  uint64_t n_quarantined = 0;
  uint64_t n_temp_removed = 0;
  uint64_t total_bytes = 0;  // every byte in the folder
};

struct RemovedFiles {
  uint64_t n_objects = 0;
  uint64_t n_bytes = 0;
};

class StoreFiles {
 public:
  // Makes the folder when missing (0700). Errors: kOverloaded when another process owns it (naming
  // its id), kIo/kNoSpace otherwise: the caller goes on without a disk tier.
  static Result<std::unique_ptr<StoreFiles>> open(FileSystem& fs,
                                                  const Clock& clock,
                                                  const StoreOptions& options,
                                                  OpenReport* report);

  StoreFiles(const StoreFiles&) = delete;
  StoreFiles& operator=(const StoreFiles&) = delete;
  StoreFiles(StoreFiles&&) = delete;
  StoreFiles& operator=(StoreFiles&&) = delete;
  ~StoreFiles();

  // Writes root.cairn once per root.
  Status describe_root(const RootSpec& spec);
  // Removes the root's folder when nothing but root.cairn is in it; else does nothing. Reads no
  // object.
  Status remove_empty_root(const RootKey& root);

  // Hashes, writes to tmp/, appends the index record, renames. Published when it returns ok.
  // Staging is at most 4 MiB + header. Returns the file's size.
  Result<uint64_t> write_object(const ObjectSource& source);

  // Everything published before the call is durable when it returns ok.
  Status sync();

  // Reads and verifies pages of an object straight into their targets, read_depth at a time. Every
  // layer's hash is checked before it returns ok. Errors: kCorruption (caller quarantines),
  // kNotFound, kIo. On error the targets hold rubbish.
  Status read_object(const ObjectEntry& entry,
                     std::span<const PageLayout> layouts,
                     std::span<const PageTarget> targets);

  // The same for many objects through one queue, so that reads of the next are in flight while the
  // last of the former is checked. next() gives a job or null when there is none now; it is asked
  // again after each completion. Jobs must live until done(), which is called once for each.
  // Returns when next() gave null and nothing is in flight. Thread: as read_object().
  void read_objects(const std::function<const ReadJob*()>& next,
                    const std::function<void(const ReadJob&, const Status&)>& done);

  // Sets a damaged object aside under quarantine/ and records its removal. `reason` is logged and
  // kept.
  Status quarantine(const ObjectEntry& entry, std::string_view reason);
  Status remove_object(const ObjectEntry& entry);
  // Removes objects for good: when it returns ok, neither these nor any that were removed or set
  // aside before come back after power loss. `whole_root`, unless null: every other object in this
  // root's folder too, and those of it in quarantine/. After an error some may still be there.
  Status forget_objects(std::span<const ObjectEntry> entries,
                        const RootKey* whole_root,
                        RemovedFiles* removed);

  // Appends recency for objects (never edits them).
  Status record_use(std::span<const PageKey> object_keys, int64_t unix_seconds);
  // Rewrites the log with live objects only, when more than half of it is dead.
  Status compact_if_needed(std::span<const ObjectEntry> live);

  // Checks every object's header and every extent. `visit` gets the path and ok or the fault.
  Status verify_all(
      const std::function<void(const std::string& path, const Status& status)>& visit);

  std::string object_path(const RootKey& root, ObjectKind kind, const PageKey& key) const;
  const std::string& directory() const;

  struct Impl;  // store_files_impl.h, for this class's own source files

 private:
  explicit StoreFiles(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
