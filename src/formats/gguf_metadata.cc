#include "formats/gguf_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/coding.h"
#include "formats/tensor_info.h"

namespace cairn {
namespace {

constexpr size_t kShownBytes = 60;
constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxStringBytes = size_t{1} << 20;  // the longest setting is a template of 17 KB

// The string that begins at `at`; parse_gguf checked that it is whole.
std::string_view string_at(std::span<const std::byte> bytes, size_t at) {
  const auto n = load_le<uint64_t>(bytes.data() + at);
  return {reinterpret_cast<const char*>(bytes.data()) + at + kLengthBytes, n};
}

// An integer or boolean as i64. Nullopt for other types and for what does not fit.
std::optional<int64_t> integer_at(GgufType type, const std::byte* at) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kBool:
      return load_le<uint8_t>(at);
    case GgufType::kI8:
      return load_le<int8_t>(at);
    case GgufType::kU16:
      return load_le<uint16_t>(at);
    case GgufType::kI16:
      return load_le<int16_t>(at);
    case GgufType::kU32:
      return load_le<uint32_t>(at);
    case GgufType::kI32:
      return load_le<int32_t>(at);
    case GgufType::kI64:
      return load_le<int64_t>(at);
    case GgufType::kU64: {
      const auto value = load_le<uint64_t>(at);
      if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> number_at(GgufType type, const std::byte* at) {
  if (type == GgufType::kF32) return static_cast<double>(load_le<float>(at));
  if (type == GgufType::kF64) return load_le<double>(at);
  const std::optional<int64_t> value = integer_at(type, at);
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

// One integer, or an array whose elements are all the same one.
std::optional<int64_t> uniform_integer(const GgufValue& value) {
  const size_t step = gguf_type_bytes(value.type);
  if (value.type == GgufType::kBool || step == 0 || value.count == 0) return std::nullopt;
  const std::optional<int64_t> first = integer_at(value.type, value.bytes.data());
  for (uint64_t i = 1; first && i < value.count; ++i) {
    if (integer_at(value.type, value.bytes.data() + i * step) != first) return std::nullopt;
  }
  return first;
}

}  // namespace

std::string_view to_string(GgufType type) {
  switch (type) {
    case GgufType::kU8:
      return "u8";
    case GgufType::kI8:
      return "i8";
    case GgufType::kU16:
      return "u16";
    case GgufType::kI16:
      return "i16";
    case GgufType::kU32:
      return "u32";
    case GgufType::kI32:
      return "i32";
    case GgufType::kF32:
      return "f32";
    case GgufType::kBool:
      return "bool";
    case GgufType::kString:
      return "string";
    case GgufType::kArray:
      return "array";
    case GgufType::kU64:
      return "u64";
    case GgufType::kI64:
      return "i64";
    case GgufType::kF64:
      return "f64";
  }
  return "unknown";
}

size_t gguf_type_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

std::string describe(const GgufValue& value, size_t max_bytes) {
  if (value.is_array) return fmt::format("{} x {}", value.count, to_string(value.type));
  if (value.type == GgufType::kString) {
    const std::string_view text = string_at(value.bytes, 0);
    if (text.size() <= max_bytes) return fmt::format("{:?}", text);
    return fmt::format("{:?}... ({} bytes)", text.substr(0, max_bytes), text.size());
  }
  const std::byte* at = value.bytes.data();
  if (value.type == GgufType::kBool) return load_le<uint8_t>(at) != 0 ? "true" : "false";
  if (value.type == GgufType::kF32) return fmt::format("{}", load_le<float>(at));
  if (value.type == GgufType::kF64) return fmt::format("{}", load_le<double>(at));
  if (value.type == GgufType::kU64) return fmt::format("{}", load_le<uint64_t>(at));
  return fmt::format("{}", integer_at(value.type, at).value_or(0));
}

Result<GgufMetadata> GgufMetadata::create(std::vector<GgufEntry> entries) {
  GgufMetadata metadata;
  metadata.entries_ = std::move(entries);
  const std::vector<GgufEntry>& all = metadata.entries_;
  std::vector<uint32_t>& order = metadata.by_key_;
  order.resize(all.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(
      order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return all[a].key < all[b].key; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (all[order[i]].key == all[order[i - 1]].key) {
      return Status::corruption(
          fmt::format("metadata key {} is given twice", in_quotes(all[order[i]].key)));
    }
  }
  return metadata;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto at = std::lower_bound(
      by_key_.begin(), by_key_.end(), key, [this](uint32_t idx, std::string_view wanted) {
        return entries_[idx].key < wanted;
      });
  if (at == by_key_.end() || entries_[*at].key != key) return nullptr;
  return &entries_[*at].value;
}

Status GgufMetadata::bad_value(std::string_view key,
                               const GgufValue& value,
                               std::string_view wanted) const {
  return Status::invalid_argument(fmt::format("metadata {} is {} ({}); wanted {}",
                                              key,
                                              describe(value, kShownBytes),
                                              to_string(value.type),
                                              wanted));
}

Result<std::optional<int64_t>> GgufMetadata::find_int(std::string_view key,
                                                      int64_t min,
                                                      int64_t max) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  const std::optional<int64_t> number = uniform_integer(*value);
  if (number && *number >= min && *number <= max) return number;
  return bad_value(key, *value, fmt::format("an integer in [{}, {}]", min, max));
}

Result<int64_t> GgufMetadata::get_int(std::string_view key, int64_t min, int64_t max) const {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> value, find_int(key, min, max));
  if (value) return *value;
  return Status::invalid_argument(
      fmt::format("metadata {} is missing; wanted an integer in [{}, {}]", key, min, max));
}

Result<std::optional<double>> GgufMetadata::find_number(std::string_view key,
                                                        double min,
                                                        double max) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<double>();
  std::optional<double> number;
  if (!value->is_array && value->type != GgufType::kBool) {
    number = number_at(value->type, value->bytes.data());
  }
  // Written so that NaN fails.
  if (number && *number >= min && *number <= max) return number;
  return bad_value(key, *value, fmt::format("a number in [{}, {}]", min, max));
}

Result<std::optional<bool>> GgufMetadata::find_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_array && value->type == GgufType::kBool) {
    return std::optional<bool>(load_le<uint8_t>(value->bytes.data()) != 0);
  }
  return bad_value(key, *value, "a bool");
}

Result<std::optional<std::string>> GgufMetadata::find_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_array && value->type == GgufType::kString &&
      value->bytes.size() <= kMaxStringBytes) {
    return std::optional<std::string>(string_at(value->bytes, 0));
  }
  return bad_value(key, *value, fmt::format("a string of at most {} bytes", kMaxStringBytes));
}

Result<std::vector<std::string_view>> GgufMetadata::find_strings(std::string_view key,
                                                                 uint64_t max_count) const {
  std::vector<std::string_view> strings;
  const GgufValue* value = find(key);
  if (value == nullptr) return strings;
  if (!value->is_array || value->type != GgufType::kString || value->count > max_count) {
    return bad_value(key, *value, fmt::format("an array of at most {} strings", max_count));
  }
  strings.reserve(value->count);
  size_t at = 0;
  for (uint64_t i = 0; i < value->count; ++i) {
    strings.emplace_back(string_at(value->bytes, at));
    at += kLengthBytes + strings.back().size();
  }
  return strings;
}

Result<std::vector<double>> GgufMetadata::find_numbers(std::string_view key,
                                                       uint64_t max_count) const {
  std::vector<double> numbers;
  const GgufValue* value = find(key);
  if (value == nullptr) return numbers;
  const size_t step = gguf_type_bytes(value->type);
  if (!value->is_array || step == 0 || value->count > max_count) {
    return bad_value(key, *value, fmt::format("an array of at most {} numbers", max_count));
  }
  numbers.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::optional<double> number = number_at(value->type, value->bytes.data() + i * step);
    if (!number) return bad_value(key, *value, "numbers below 2^63");
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace cairn
