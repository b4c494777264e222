// Reads the fields of a JSON object one by one, remembering the first fault and which names were
// known.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "base/json_fwd.h"

namespace cairn {

// A field that is absent or null counts as not given. After the first fault all reads do nothing,
// so a parser can read everything and look once. `object` must outlive the reader.
class JsonFields {
 public:
  // `path` stands before names in messages: "cairn." for a nested object.
  JsonFields(const Json& object, std::string path);

  // Null when not given.
  const Json* find(std::string_view name);

  void read(std::string_view name, bool* out);
  void read(std::string_view name, std::string* out);
  void read(std::string_view name, float* out, float min, float max);
  void read(std::string_view name, uint32_t* out, uint32_t min, uint32_t max);
  void read(std::string_view name, std::optional<uint32_t>* out, uint32_t min, uint32_t max);
  void read(std::string_view name, std::optional<uint64_t>* out);

  // Accepted and ignored: fields that do not change an answer.
  void ignore(std::initializer_list<std::string_view> names);
  // Only `neutral` (or absence) is accepted; anything else says that this version cannot do it.
  void require_neutral(std::string_view name,
                       std::initializer_list<Json> neutral,
                       std::string_view why);

  // The first fault stays.
  void fail(std::string_view name, std::string message);
  // A name nobody asked for is a fault: it might change the answer.
  void refuse_unknown();

  bool has_failed() const { return error_.has_value(); }

  const ApiError& error() const { return *error_; }

 private:
  std::string full_name(std::string_view name) const;
  std::optional<int64_t> read_integer(std::string_view name, int64_t min, int64_t max);

  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::optional<ApiError> error_;
};

}  // namespace cairn
