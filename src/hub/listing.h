// The files of a repository at one revision, as a hub lists them.
//
// Source: the reply to GET {endpoint}/api/models/{org}/{repo}/revision/{revision}?blobs=true of
// huggingface.co: {"sha": commit, "siblings": [{"rfilename", "size", "blobId", "lfs": {"sha256",
// "size"}}]}. Mirrors leave sizes and ids out, and the hub itself says null for some sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hub/content_id.h"

namespace cairn {

inline constexpr size_t kListingBytesMax = size_t{16} << 20;
inline constexpr size_t kListingFilesMax = 10'000;
inline constexpr uint64_t kRepoFileBytesMax = uint64_t{1} << 48;  // sums of 10,000 cannot overflow

struct RepoFile {
  std::string name;  // path inside the repository; passed check_repo_path()
  std::optional<uint64_t> size_bytes;
  ContentId content;
};

struct Listing {
  std::string commit;  // 40 hex digits, or empty when the hub does not say
  std::vector<RepoFile> files;
};

// `json` is untrusted. Errors: kInvalidArgument (no JSON), kCorruption (not such a listing, too
// many files, a size past the limit, a name given twice or one that check_repo_path() refuses: a
// hub that sends one of those is not to be trusted with the others).
Result<Listing> parse_listing(std::string_view json);

}  // namespace cairn
