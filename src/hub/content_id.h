// What a file's bytes are, as hubs name them: SHA-256 for large files (Git LFS), git's blob id
// (SHA-1 over "blob <length>\0" and the bytes) for small ones.
//
// Source: git-scm.com "Git Internals - Git Objects"; the Git LFS specification 1.0.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"

namespace cairn {

enum class ContentKind { kUnknown, kSha256, kGitBlob };

struct ContentId {
  ContentKind kind = ContentKind::kUnknown;
  std::string hex;  // lower case, 64 or 40 digits; empty when unknown

  bool is_known() const { return kind != ContentKind::kUnknown; }

  // "sha256:<hex>", "git:<hex>", or "" when unknown.
  std::string text() const;

  friend bool operator==(const ContentId&, const ContentId&) = default;
};

// By the number of digits: 64, 40; anything else is unknown.
ContentId content_id_from_hex(std::string_view hex);
// An ETag header's value: quotes and "W/" are taken off first.
ContentId content_id_from_etag(std::string_view etag);
// text() the other way round; unknown when it is something else.
ContentId content_id_from_text(std::string_view text);

// Names bytes as they come. Thread: one.
class ContentHasher {
 public:
  // `size_bytes`: of the whole file; a git blob's id begins with it.
  ContentHasher(ContentKind kind, uint64_t size_bytes);

  void update(std::span<const std::byte> bytes);
  ContentId finish();

 private:
  ContentKind kind_;
  Sha256 sha256_;
  Sha1 sha1_;
};

// Reads the whole file. Errors: those of reading.
Result<ContentId> content_id_of_file(const std::string& path, ContentKind kind);

}  // namespace cairn
