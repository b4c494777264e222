// The identity of a model's weights by content, and a memory of it, so that gigabytes are not
// hashed at every start.
//
// Identity of a file: SHA-256 of its size and the SHA-256 of each of its 4 MiB blocks. Identity of
// a model: SHA-256 over its files' names (without folders), sizes and identities, in the order of
// the names. So a model that moves to another folder keeps its cached pages. Design: DESIGN.md 3.3.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/hash.h"
#include "base/result.h"

namespace cairn {

inline constexpr uint64_t kIdentityBlockBytes = 4 << 20;

// The identity of the weights in `files` (at least one; names without folders must differ).
//   cache_dir  folder of remembered identities, made when missing; "" remembers nothing
//   n_threads  that hash in parallel; 0 takes the usable processors, at most 4
// A remembered identity is used only while device, inode, size, mtime and ctime (nanoseconds) are
// what they were; any difference hashes again. A file that changed within the last two seconds is
// not remembered, since clocks of file systems tick too slowly to tell a further change. A memory
// that cannot be read or written costs time, never an error. Errors: kNotFound, kIo; kCorruption
// when a file changes while it is hashed; kCancelled within a block after `stop`. Thread: any; it
// may take seconds, so not net or engine. Cost: O(bytes) or O(1) when remembered.
Result<Digest> content_identity(FileSystem& fs,
                                const std::vector<std::string>& files,
                                const std::string& cache_dir,
                                unsigned n_threads = 0,
                                const std::stop_token& stop = {});

// The same if every file's identity is remembered, else nullopt at once: nothing is hashed.
std::optional<Digest> remembered_content_identity(FileSystem& fs,
                                                  const std::vector<std::string>& files,
                                                  const std::string& cache_dir);

// One remembered identity, as text that is kept in a file of its own:
//   cairn-identity 1 <device> <inode> <size> <mtime ns> <ctime ns> <64 hex digits>\n
// Nullopt for anything else, and for a record of another state of the file.
std::optional<Digest> parse_identity_record(std::string_view record, const FileStat& stat);
std::string format_identity_record(const FileStat& stat, const Digest& digest);

}  // namespace cairn
