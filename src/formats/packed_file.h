// Packed weights in one file, so that the next start maps them and packs nothing.
//
// The file is a list of blobs, one a packed matrix, under the key of what they were made from.
// Every byte is under a hash, and all of them are verified before a blob is handed out. Format:
// docs/formats/packed.md. Thread: any; both calls may take seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "tensor/buffer.h"

namespace cairn {

class PackedFile {
 public:
  // Maps the file and verifies it on `n_threads` threads, which also brings it into memory.
  // Errors: kNotFound, kIo; kCorruption for anything but a whole file of this key;
  // kUnsupported for another version of the format.
  static Result<PackedFile> open(const std::string& path, const Digest& key, unsigned n_threads);

  size_t n_blobs() const { return blobs_.size(); }

  // Aligned to 4096; kept alive by whoever holds it. idx < n_blobs().
  const SharedBytes& blob(size_t idx) const { return blobs_[idx]; }

 private:
  std::vector<SharedBytes> blobs_;
};

// Writes the file beside its name and renames it. It is not synced: a file that a power loss
// damages is refused by open() and made again. Errors: kNotFound for a missing folder, kIo,
// kNoSpace; then nothing is left behind.
Status write_packed_file(const std::string& path,
                         const Digest& key,
                         std::span<const std::span<const std::byte>> blobs,
                         unsigned n_threads);

// The blobs of a whole file in memory, verified. Errors: as PackedFile::open().
Result<std::vector<std::span<const std::byte>>> parse_packed_file(std::span<const std::byte> file,
                                                                  const Digest& key,
                                                                  unsigned n_threads);

}  // namespace cairn
