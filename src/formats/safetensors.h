// Safetensors: named dense tensors behind a JSON header, read through a mapping and written as a
// stream.
//
// A file is: u64 header length N (little-endian), N bytes of JSON, then the tensors' bytes. The
// JSON maps each name to {"dtype", "shape", "data_offsets": [begin, end)}, offsets counted from the
// first byte after the header; "__metadata__" maps strings to strings. The tensors fill the rest of
// the file without gap or overlap. Source: github.com/huggingface/safetensors, README "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/mapping.h"
#include "base/result.h"
#include "formats/tensor_info.h"
#include "tensor/buffer.h"

namespace cairn {

// The spec's bound on a header.
inline constexpr size_t kSafetensorsPrefixBytes = 8;  // the header's length, u64
inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;

struct SafetensorsLayout {
  std::vector<TensorInfo> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

// Reads and checks everything but the tensors' values: `file` is the whole file.
// Errors: kCorruption for a length, offset, shape or name that cannot be, gaps, overlaps, names
// given twice; kUnsupported for an element type that Cairn does not read (the message lists those
// it does). Cost: O(header).
Result<SafetensorsLayout> parse_safetensors(std::span<const std::byte> file);

// One mapped file. Immutable; any thread. Views stay valid while the object lives. Bytes start
// where the header ended, so they may be aligned to nothing: read elements with memcpy. A file that
// another process shortens while it is mapped ends this process (SIGBUS), as with every mapping.
class SafetensorsFile {
 public:
  // Errors: kNotFound, kIo, and those of parse_safetensors, with the path in front.
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return path_; }

  uint64_t size_bytes() const { return mapping_.bytes().size(); }

  const std::vector<TensorInfo>& tensors() const { return layout_.tensors; }

  const std::map<std::string, std::string>& metadata() const { return layout_.metadata; }

  // By name, O(log n). Errors: kNotFound.
  Result<TensorView> tensor(std::string_view name) const;
  // By index into tensors().
  TensorView tensor_at(size_t idx) const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  Mapping mapping_;
  SafetensorsLayout layout_;
  std::vector<uint32_t> by_name_;  // indices into tensors(), sorted by name
};

// Writes a file front to back: declare every tensor, then give their bytes in the declared order.
// Memory: one buffer of 4 MiB. The file appears under its name at finish(); before that it is a
// temporary neighbour, which the destructor removes. Thread: one at a time.
class SafetensorsWriter {
 public:
  // `tensors` give name, dtype and shape; their offset and n_bytes are ignored.
  // Errors: kInvalidArgument for names given twice or "__metadata__", shapes that cannot be; kIo,
  // kNoSpace.
  static Result<SafetensorsWriter> create(const std::string& path,
                                          std::vector<TensorInfo> tensors,
                                          const std::map<std::string, std::string>& metadata = {});

  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  // The next bytes of the data part; pieces may cross tensors. Errors: kInvalidArgument for more
  // bytes than were declared; kIo, kNoSpace.
  Status write(std::span<const std::byte> bytes);
  // Errors: kInvalidArgument when bytes are missing (then no file appears); kIo, kNoSpace.
  Status finish();

 private:
  struct State;
  explicit SafetensorsWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace cairn
