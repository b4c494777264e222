// One object on its way from its file into pages: which reads it needs, and the checks on what
// arrives.
//
// Header and payload are asked for together, because the index already says how long the header is;
// what arrives before the header waits for it. Each chunk is hashed (or opened in place, when
// sealed), layer by layer, as soon as it is there, while later chunks are still in flight. Nothing
// is copied: full pages are read where they belong, a leaf's packed strips into the end of its page
// and then spread (page_packing.h). Thread: one at a time. Design: DESIGN.md 3.6.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/io_queue.h"
#include "base/result.h"
#include "store/aligned_bytes.h"
#include "store/object_format.h"
#include "store/store_files.h"

namespace cairn {

class ObjectRead {
 public:
  // Opens the file and plans its reads. `entry`, `layouts`, `targets` and `key` (null for a store
  // without one) must outlive the object.
  // Errors: kNotFound, kIo; kCorruption when the file's size is not the entry's; kInvalidArgument
  // when entry, layouts and targets do not fit together.
  static Result<std::unique_ptr<ObjectRead>> start(FileSystem& fs,
                                                   std::string path,
                                                   const ObjectEntry& entry,
                                                   std::span<const PageLayout> layouts,
                                                   std::span<const PageTarget> targets,
                                                   bool direct_io,
                                                   const StoreKey* key = nullptr);

  // The next read to submit; nullopt when all are out or one has failed. Its tag is for complete().
  std::optional<ReadRequest> next_request();
  void complete(uint64_t tag, Status status);
  // Every read that went out has come back, and no more will go out.
  bool is_finished() const;
  // Requires is_finished(). Ok: the targets hold exactly the pages of the entry.
  Status finish();

  bool has_native_file() const { return file_->native_fd() >= 0; }

  uint64_t n_bytes() const { return n_bytes_; }  // of payload asked for

 private:
  // Consecutive layers of one group of one page: one read.
  struct Chunk {
    size_t first_extent = 0;  // in the plan's table
    size_t n_extents = 0;
    std::byte* out = nullptr;
    size_t n_bytes = 0;
  };

  ObjectRead(std::string path,
             const ObjectEntry& entry,
             std::span<const PageLayout> layouts,
             std::span<const PageTarget> targets,
             const StoreKey* key)
      : path_(std::move(path)), entry_(entry), layouts_(layouts), targets_(targets), key_(key) {}

  Status plan();
  void advise() const;
  void plan_chunks(const PageTarget& target);
  bool may_read_direct() const;
  Status check_opened_header();
  Status verify(const Chunk& chunk);
  void fail(Status status);

  std::string path_;
  const ObjectEntry& entry_;
  std::span<const PageLayout> layouts_;
  std::span<const PageTarget> targets_;
  const StoreKey* key_;
  std::unique_ptr<File> file_;
  ObjectHeader planned_;  // what the entry promises, without hashes
  AlignedBytes header_bytes_;
  std::optional<ObjectHeader> header_;  // once read and checked
  std::optional<Aes256Gcm> cipher_;     // likewise, of a sealed object
  std::vector<Chunk> chunks_;
  std::vector<size_t> early_;  // chunks that arrived before the header
  size_t n_submitted_ = 0;     // the header is read 0, chunk i read i + 1
  size_t n_completed_ = 0;
  uint64_t n_bytes_ = 0;
  Status status_;
};

}  // namespace cairn
