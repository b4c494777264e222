// GGUF: metadata and named tensors in one file, as llama.cpp and its relatives publish models.
//
// A file is: "GGUF", u32 version (2 or 3), u64 tensor count, u64 metadata count, the metadata
// (string key, u32 type, value), the tensor table (string name, u32 rank, u64 dimensions innermost
// first, u32 ggml type, u64 offset into the data), zeros up to the alignment, the data. Every
// offset is a multiple of general.alignment (32 when absent). All little-endian. Version 2 differs
// from 3 only in that 3 may also be big-endian. Source: ggml/docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapping.h"
#include "base/result.h"
#include "formats/gguf_metadata.h"
#include "formats/tensor_info.h"
#include "tensor/buffer.h"

namespace cairn {

// Far above published files; they bound what a hostile header can make us allocate.
inline constexpr uint32_t kGgufMagic = 0x46554747;  // "GGUF"
inline constexpr uint32_t kGgufMaxRank = 4;
inline constexpr uint64_t kGgufMaxTensors = 1 << 16;
inline constexpr uint64_t kGgufMaxEntries = 1 << 16;

struct GgufLayout {
  uint32_t version = 0;
  uint64_t alignment = 32;  // bytes
  GgufMetadata metadata;    // points into the parsed bytes
  // In the order of their bytes; names as the file has them, shapes [outer, ..., inner], offsets
  // from the start of the file.
  std::vector<TensorInfo> tensors;
};

// Reads and checks everything but the tensors' values: `file` is the whole file.
// Errors: kCorruption for lengths, offsets, shapes or names that cannot be, overlaps, names given
// twice; kUnsupported for version 1, big-endian files and element types that Cairn does not read
// (with ggml's name). Cost: O(header).
Result<GgufLayout> parse_gguf(std::span<const std::byte> file);

// One mapped file. Immutable; any thread. Views stay valid while the object lives; their bytes are
// aligned to the file's alignment at best. See SafetensorsFile about files that others shorten.
class GgufFile {
 public:
  // Errors: kNotFound, kIo, and those of parse_gguf, with the path in front.
  static Result<GgufFile> open(const std::string& path);

  const std::string& path() const { return path_; }

  uint64_t size_bytes() const { return mapping_.bytes().size(); }

  uint32_t version() const { return layout_.version; }

  const GgufMetadata& metadata() const { return layout_.metadata; }

  const std::vector<TensorInfo>& tensors() const { return layout_.tensors; }

  // By index into tensors().
  TensorView tensor_at(size_t idx) const;

 private:
  GgufFile() = default;

  std::string path_;
  Mapping mapping_;
  GgufLayout layout_;
};

// Collects metadata for a file to be written; the order of calls is the order in the file. Keys
// must be new and not "general.alignment", which is always 32 here.
class GgufMetadataBuilder {
 public:
  void add_u32(std::string_view key, uint32_t value);
  void add_i32(std::string_view key, int32_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  void add_bools(std::string_view key, const std::vector<bool>& values);
  // As another file has it.
  void add(const GgufEntry& entry);
  // All of another's.
  void append(const GgufMetadataBuilder& other);

  uint64_t n_entries() const { return n_entries_; }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType type, uint64_t count);
  void put_string(std::string_view text);
  void put(std::span<const std::byte> bytes);

  uint64_t n_entries_ = 0;
  std::vector<std::byte> bytes_;
};

// Writes a version 3 file front to back: declare everything, then give the tensors' bytes in the
// declared order. The file appears under its name at finish(). Memory: the header and one buffer of
// 4 MiB. Thread: one at a time.
class GgufWriter {
 public:
  // `tensors` give name, dtype and shape [outer, ..., inner], rank 1 to 4; their offset and n_bytes
  // are ignored. Errors: kInvalidArgument for names given twice or shapes that cannot be,
  // kUnsupported for element types without a ggml number; kIo, kNoSpace.
  static Result<GgufWriter> create(const std::string& path,
                                   std::vector<TensorInfo> tensors,
                                   const GgufMetadataBuilder& metadata);

  GgufWriter(GgufWriter&&) noexcept;
  GgufWriter& operator=(GgufWriter&&) noexcept;
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;
  ~GgufWriter();

  // The next bytes of the current tensor; a piece must not cross into the next one.
  // Errors: kInvalidArgument for more bytes than were declared; kIo, kNoSpace.
  Status write(std::span<const std::byte> bytes);
  // Errors: kInvalidArgument when bytes are missing (then no file appears); kIo, kNoSpace.
  Status finish();

 private:
  struct State;
  explicit GgufWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace cairn
