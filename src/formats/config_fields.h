// Typed, range-checked reads from the objects of a Hugging Face configuration. Private to formats.
//
// A key that is absent or null is missing; a value of the wrong type or out of range is an error
// that names the key, the value and what is wanted. Thread: any. The JSON must outlive the object.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"

namespace cairn {

class ConfigFields {
 public:
  // `where` goes in front of keys in messages: "" or "rope_scaling.". `object` must be an object.
  explicit ConfigFields(const Json& object, std::string where = "");

  // The value, or null when missing.
  const Json* find(std::string_view key) const;

  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Integers may be spelt 32 or 32.0.
  Result<std::optional<int64_t>> find_int(std::string_view key, int64_t min, int64_t max) const;
  Result<std::optional<double>> find_number(std::string_view key, double min, double max) const;
  Result<std::optional<bool>> find_bool(std::string_view key) const;
  Result<std::optional<std::string>> find_string(std::string_view key) const;
  Result<std::optional<std::vector<std::string>>> find_strings(std::string_view key) const;
  // A token id or a list of them; empty when missing.
  Result<std::vector<uint32_t>> find_ids(std::string_view key) const;
  Result<std::optional<uint32_t>> find_id(std::string_view key) const;
  // A nested object. Errors: kInvalidArgument when the key holds something else.
  Result<std::optional<ConfigFields>> find_object(std::string_view key) const;

  // As find_int, but missing is kInvalidArgument.
  Result<int64_t> get_int(std::string_view key, int64_t min, int64_t max) const;

  // "<where><key> is <value>; wanted <wanted>".
  Status bad_value(std::string_view key, const Json& value, std::string_view wanted) const;

 private:
  const Json* object_;
  std::string where_;
};

// A number that settings keep as a float. `fields`: anything with find_number.
template <typename Fields>
Status read_float(
    const Fields& fields, std::string_view key, double min, double max, std::optional<float>* out) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<double> value, fields.find_number(key, min, max));
  if (value) *out = static_cast<float>(*value);
  return Status::ok();
}

}  // namespace cairn
