// The index log: which objects the store holds, and when each was last of use.
// docs/formats/index.md describes it byte by byte.
//
// Append-only. A record has a mark, a checksum and a length, so a torn tail is cut and a damaged
// record in the middle is skipped, counted, and the next one found by its mark. Nothing depends on
// the log being whole: an object that it does not name is found in the folder and read from its
// header, an object that it names in vain is a counted miss. Thread: one at a time. Design:
// DESIGN.md 3.7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "store/object_entry.h"

namespace cairn {

inline constexpr uint32_t kIndexLogVersion = 1;
inline constexpr size_t kIndexHeaderBytes = 24;
inline constexpr size_t kRecordHeaderBytes = 16;
inline constexpr uint32_t kMaxRecordBytes = 1U << 20;  // of a record's body, its seal included
inline constexpr size_t kMaxKeysPerUse = 4096;

std::vector<std::byte> encode_index_header();
// One whole record each, checksum included. `keys`: at most kMaxKeysPerUse.
std::vector<std::byte> encode_add_record(const ObjectEntry& entry);
std::vector<std::byte> encode_remove_record(const PageKey& key);
std::vector<std::byte> encode_use_record(std::span<const PageKey> keys, int64_t unix_seconds);
// Says that every object added before it is durable, name and bytes.
std::vector<std::byte> encode_synced_record();

struct IndexedObject {
  ObjectEntry entry;
  bool is_synced = false;
};

struct IndexScan {
  bool has_header = false;             // false: nothing could be used
  uint32_t unknown_version = 0;        // not 0: a version this program does not read
  std::vector<IndexedObject> objects;  // in the order in which they were added
  uint64_t n_records = 0;
  uint64_t n_bad_records = 0;  // damaged stretches with a good record behind them
  uint64_t good_bytes = 0;     // up to the end of the last good record
  bool has_torn_tail = false;  // bytes behind it
};

// Reads a log of any bytes; never fails. `key`: null for a log that is not sealed; records that are
// not sealed with it count as bad.
IndexScan scan_index_log(std::span<const std::byte> bytes, const StoreKey* key = nullptr);

// Bytes that sealing adds to a record.
inline constexpr size_t kRecordSealBytes = 1 + sizeof(SealNonce) + sizeof(SealTag);

// The open log of the store's owner.
class IndexLog {
 public:
  // Opens for appending and writes the header when the file is empty. `key`, unless null, outlives
  // the log: its records are sealed.
  static Result<std::unique_ptr<IndexLog>> open(FileSystem& fs,
                                                const std::string& path,
                                                const StoreKey* key = nullptr);

  // One write. On failure what arrived of it is cut off again (or, when even that fails, skipped by
  // the next scan), so that later records stay readable.
  Status append(std::span<const std::byte> record);
  Status sync();
  // Replaces the log by the header and `records` in one step: temp file, sync, rename, sync folder.
  // On failure the old log stays in use.
  Status replace(std::span<const std::byte> records);

  uint64_t size_bytes() const { return size_bytes_; }

  // False for files in memory.
  bool has_native_file() const { return file_->native_fd() >= 0; }

 private:
  IndexLog(FileSystem& fs, std::string path, const StoreKey* key)
      : fs_(fs), path_(std::move(path)) {
    if (key != nullptr) cipher_.emplace(key->log_cipher());
  }

  Status reopen();
  Status append_bytes(std::span<const std::byte> bytes);
  std::vector<std::byte> sealed(std::span<const std::byte> records);

  FileSystem& fs_;
  std::string path_;
  std::optional<Aes256Gcm> cipher_;
  std::unique_ptr<File> file_;
  uint64_t size_bytes_ = 0;
};

}  // namespace cairn
