// The key-value part of a GGUF file: typed, range-checked reads over the file's own bytes.
//
// Values stay where they lie (a vocabulary is most of a header), so a hostile header costs no more
// memory than it has bytes. Thread: any; immutable. Source: ggml/docs/gguf.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn {

enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,  // u64 length, bytes
  kArray,   // u32 element type, u64 count, elements
  kU64,
  kI64,
  kF64,
};

std::string_view to_string(GgufType type);  // "u8", "string", "array", ...

struct GgufValue {
  bool is_array = false;
  GgufType type = GgufType::kU8;     // of the elements when is_array; kArray: arrays of arrays
  uint64_t count = 1;                // elements
  std::span<const std::byte> bytes;  // the elements one after another, checked to be whole
};

struct GgufEntry {
  std::string key;
  GgufValue value;
};

class GgufMetadata {
 public:
  GgufMetadata() = default;
  // Entries in the file's order. The bytes they point at must outlive the object.
  // Errors: kCorruption for a key given twice.
  static Result<GgufMetadata> create(std::vector<GgufEntry> entries);

  const std::vector<GgufEntry>& entries() const { return entries_; }

  const GgufValue* find(std::string_view key) const;

  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Nullopt when missing. Any integer type serves; so does, for a setting that some files give once
  // a layer, an array of equal integers. Errors of all: kInvalidArgument naming key, value and what
  // is wanted.
  Result<std::optional<int64_t>> find_int(std::string_view key, int64_t min, int64_t max) const;
  Result<int64_t> get_int(std::string_view key, int64_t min, int64_t max) const;
  Result<std::optional<double>> find_number(std::string_view key, double min, double max) const;
  Result<std::optional<bool>> find_bool(std::string_view key) const;
  // Of at most 1 MiB.
  Result<std::optional<std::string>> find_string(std::string_view key) const;
  // Arrays of at most `max_count` elements; empty when missing. Strings are views of the file.
  Result<std::vector<std::string_view>> find_strings(std::string_view key,
                                                     uint64_t max_count) const;
  Result<std::vector<double>> find_numbers(std::string_view key, uint64_t max_count) const;

 private:
  Status bad_value(std::string_view key, const GgufValue& value, std::string_view wanted) const;

  std::vector<GgufEntry> entries_;
  std::vector<uint32_t> by_key_;  // indices into entries_, sorted by key
};

// For messages and `cairn inspect`: "qwen3", 32, "151936 strings". Long strings are cut at
// `max_bytes`.
std::string describe(const GgufValue& value, size_t max_bytes);

// Bytes of one element; 0 for strings and arrays, which say their own.
size_t gguf_type_bytes(GgufType type);

}  // namespace cairn
