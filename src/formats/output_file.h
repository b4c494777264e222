// A file that is written front to back and appears under its name when it is whole.
//
// Thread: one at a time. Private to formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace cairn {

// Until finish() the bytes are in a temporary neighbour, which the destructor removes. Memory: one
// buffer of 4 MiB.
class OutputFile {
 public:
  // Errors: kNotFound for a missing folder, kInvalidArgument for a path that is no regular file;
  // kIo, kNoSpace.
  static Result<OutputFile> create(const std::string& path);

  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Links are followed, so this need not be what create() was given.
  const std::string& path() const;
  uint64_t n_written() const;

  Status write(std::span<const std::byte> bytes);
  // Flushes, syncs, renames. Errors: kInvalidArgument the second time; kIo, kNoSpace.
  Status finish();
  // Without the syncs, for what can be made again and is verified when it is read.
  Status finish_unsynced();

 private:
  struct State;
  explicit OutputFile(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace cairn
