// What StoreFiles is made of; split over store_files.cc (objects and the log), store_open.cc (what
// a folder holds when it is opened), store_sync.cc (durability) and store_read.cc (restores).
// Private to those files. Thread: as StoreFiles; read_objects() touches only what is const and
// queue.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "store/aligned_bytes.h"
#include "store/folder_contents.h"
#include "store/index_log.h"
#include "store/store_files.h"

namespace cairn {

inline constexpr std::string_view kTempSuffix = ".tmp";  // of write_file_atomically()

// A published object whose bytes or name may not survive power loss yet.
struct UnsyncedObject {
  std::string path;
  std::unique_ptr<File> file;    // null: opened again when it is synced
  bool data_is_synced = false;   // only the name is left
  bool sync_has_failed = false;  // a later fdatasync would lie: the bytes must be written anew
};

struct StoreFiles::Impl {
  Impl(FileSystem& file_system, const Clock& system_clock, StoreOptions store_options)
      : fs(file_system), clock(system_clock), options(std::move(store_options)) {}

  FileSystem& fs;
  const Clock& clock;
  const StoreOptions options;
  std::unique_ptr<FileLock> lock;
  std::unique_ptr<IndexLog> log;   // null when read_only
  std::unique_ptr<IoQueue> queue;  // read_objects() only
  uint64_t n_temp_files = 0;
  AlignedBytes sealed_staging;

  // Bytes of the log that each live object's record takes.
  std::unordered_map<PageKey, uint32_t, DigestHash> live_record_bytes;
  std::unordered_map<PageKey, UnsyncedObject, DigestHash> unsynced;
  std::deque<PageKey> unsynced_files;             // those with an open file, oldest first
  std::unordered_set<std::string> known_folders;  // exist
  std::unordered_set<std::string>
      durable_folders;  // their names in their parent survive power loss
  std::unordered_set<RootKey, DigestHash> described_roots;
  std::set<std::string> changed_folders;  // have lost names since they were last synced

  // What stands in names for a key of the cache.
  Digest disk_name(const Digest& key) const {
    return options.key == nullptr ? key : options.key->disk_name(key);
  }

  std::string log_name() const;

  // Bytes that an object's record takes in the log.
  uint32_t record_bytes(size_t n_plain) const {
    return static_cast<uint32_t>(n_plain + (options.key == nullptr ? 0 : kRecordSealBytes));
  }

  std::string root_folder(const RootKey& root) const;
  std::string object_folder(const RootKey& root, const PageKey& key) const;
  std::string object_path(const RootKey& root, ObjectKind kind, const PageKey& key) const;
  std::string temp_path(std::string_view name);

  std::string folder(std::string_view name) const {
    return options.directory + "/" + std::string(name);
  }

  Status require_writable(std::string_view what) const;
  Status ensure_folder(const std::string& path);
  void forget_folder(const std::string& path);
  // Errors as File::sync; the object is then remembered as one that must be written anew.
  Status publish(const PageKey& key, const std::string& temp, const std::string& path);
  void track_unsynced(const PageKey& key, const std::string& path, std::unique_ptr<File> file);
  void forget(const PageKey& key);
  // Moves a file under quarantine/; its name tells the reason.
  Status set_aside(const std::string& path, std::string_view name, std::string_view reason);

  // store_sync.cc
  Status sync_data(const PageKey& key, UnsyncedObject& object);
  Status write_anew(const PageKey& key, UnsyncedObject& object);
  Status prepare_sync(const PageKey& key, UnsyncedObject& object);
  void note_synced(const PageKey& key, UnsyncedObject& object, const Status& status);
  std::set<std::string> folders_to_sync(std::set<std::string>* settled) const;
  void drop_lost(const PageKey& key);
  Status sync_all();

  // store_forget.cc
  Status sync_removals();

  // store_open.cc
  bool has_name_of(const ObjectHeader& header, const FoundObject& file) const;
  Status open(OpenReport* report);
  // Replaces the log by records for `live`: durable ones, a mark, the others.
  Status rewrite_log(std::span<const ObjectEntry> live);
};

// "/a/b" -> "/a", "a" -> "."
std::string parent_of(const std::string& path);

// "size mismatch: 12" -> "size-mismatch-12", at most 48 characters: for a file's name.
std::string slug(std::string_view text);

}  // namespace cairn
