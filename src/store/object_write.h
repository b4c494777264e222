// One object's way from pages into a temporary file.
//
// Full pages are written straight from page memory and hashed while they are in the processor's
// cache; only a leaf's used strips are packed through a small staging buffer, and what is sealed
// through one of 4 MiB (or one layer of a page, at most 32 MiB). The header, which holds the hashes
// or tags, goes last (or, with direct I/O, with the payload in one write). Thread: one at
// a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "store/aligned_bytes.h"
#include "store/object_format.h"
#include "store/store_files.h"

namespace cairn {

// A written, unnamed object.
struct WrittenObject {
  ObjectHeader header;
  std::unique_ptr<File> file;  // open for sync()
};

// How an object is sealed, under a salt of its own; without a key it is not.
struct WriteSeal {
  const StoreKey* key = nullptr;
  // Grows to what an object needs and is kept from one to the next: fresh memory for each took
  // twenty times as long as sealing it.
  AlignedBytes* staging = nullptr;
};

// Writes to `path`, which the caller renames or removes; also after an error.
// Errors: kInvalidArgument when the source does not fit together, kIo, kNoSpace.
Result<WrittenObject> write_object_file(FileSystem& fs,
                                        const std::string& path,
                                        const ObjectSource& source,
                                        int64_t created_unix,
                                        bool direct_io,
                                        const WriteSeal& seal);

// Checks a file against itself: header, size and every extent. Returns the header. Memory: header
// and one layer. Errors: kCorruption, kUnsupported (another key's, too), kNotFound, kIo.
Result<ObjectHeader> verify_object_file(FileSystem& fs,
                                        const std::string& path,
                                        const StoreKey* key = nullptr);

// The header alone, checked. Errors as above.
Result<ObjectHeader> read_object_header(FileSystem& fs,
                                        const std::string& path,
                                        const StoreKey* key = nullptr);

}  // namespace cairn
