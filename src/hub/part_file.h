// A file while it is fetched: <path>.part, and <path>.part.json that says what it is a part of.
//
// The note is written before the first byte, so bytes without a note are never built upon. It holds
// {"content": ContentId::text(), "etag": the entity tag of the answer, "size": bytes or null}.
// Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "hub/content_id.h"
#include "hub/listing.h"

namespace cairn {

// What the bytes belong to.
struct PartSource {
  ContentId content;  // unknown: nobody says
  std::string etag;   // of the server that sent the bytes; empty: none
  std::optional<uint64_t> size_bytes;

  friend bool operator==(const PartSource&, const PartSource&) = default;
};

class PartFile {
 public:
  // Takes up what an earlier pull left when it is certainly a part of `file`: the same content id,
  // or where the hub tells none, something that can be asked for by its entity tag. Anything else
  // is removed. Bytes that are kept are read once, for their hash.
  static Result<PartFile> open(const std::string& path, const RepoFile& file);

  uint64_t n_bytes() const { return n_bytes_; }

  // Nullopt until begin() or when nothing was kept.
  const std::optional<PartSource>& source() const { return source_; }

  bool is_complete() const { return source_ && source_->size_bytes == n_bytes_; }

  // The entity tag under which the rest may be asked for; empty: none that promises the same bytes.
  std::string resume_tag() const;
  // Whether bytes that come later will fit those here, or be noticed: by tag or by content.
  bool can_resume() const;

  // Says what the next bytes belong to; when that is not what is here already, starts from nothing.
  Status begin(const PartSource& source);
  Status append(std::span<const std::byte> bytes);
  // Forgets what is here.
  Status start_anew();

  // Everything is here: synced, checked against the content id, and renamed to its path in one
  // step; the caller syncs the folder. Errors: kCorruption (other bytes than were promised: they
  // are removed), those of writing.
  Result<ContentId> finish();

  // Both files are gone afterwards.
  void remove();

 private:
  explicit PartFile(std::string path) : path_(std::move(path)) {}

  std::string part_path() const { return path_ + ".part"; }

  std::string note_path() const { return path_ + ".part.json"; }

  Status take_up(const RepoFile& file);
  Status hash_what_is_here();
  Status write_note() const;
  Status check_content(const ContentId& found);

  std::string path_;
  std::unique_ptr<File> file_;
  uint64_t n_bytes_ = 0;
  std::optional<PartSource> source_;
  // Of the first n_bytes_; nullopt: the size is not known yet, so the file is read at the end.
  std::optional<ContentHasher> hasher_;
};

// What of an earlier pull PartFile::open() would keep, without reading it.
uint64_t n_part_bytes(const std::string& path, const RepoFile& file);

}  // namespace cairn
