#include "api/json_fields.h"

#include <fmt/format.h>

#include <limits>

#include "base/json.h"

namespace cairn {
namespace {

constexpr size_t kShownValueBytes = 80;

// A value as it stands in a message, cut so that a hostile one does not fill the log.
std::string shown(const Json& value) {
  std::string text = dump_json(value);
  if (text.size() > kShownValueBytes) text = text.substr(0, kShownValueBytes) + "...";
  return text;
}

}  // namespace

JsonFields::JsonFields(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {}

std::string JsonFields::full_name(std::string_view name) const {
  return path_ + std::string(name);
}

void JsonFields::fail(std::string_view name, std::string message) {
  if (error_) return;
  ApiError error;
  error.param = full_name(name);
  error.message = std::move(message);
  error_ = std::move(error);
}

const Json* JsonFields::find(std::string_view name) {
  known_.emplace(name);
  if (error_) return nullptr;
  const auto it = object_.find(std::string(name));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void JsonFields::read(std::string_view name, bool* out) {
  const Json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_boolean())
    return fail(name,
                fmt::format("{} is {}, wanted true or false", full_name(name), shown(*value)));
  *out = value->get<bool>();
}

void JsonFields::read(std::string_view name, std::string* out) {
  const Json* value = find(name);
  if (value == nullptr) return;
  if (!value->is_string())
    return fail(name, fmt::format("{} is {}, wanted a string", full_name(name), shown(*value)));
  *out = value->get<std::string>();
}

void JsonFields::read(std::string_view name, float* out, float min, float max) {
  const Json* value = find(name);
  if (value == nullptr) return;
  const double number =
      value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!(number >= static_cast<double>(min) && number <= static_cast<double>(max))) {
    return fail(name,
                fmt::format("{} is {}, wanted a number from {} to {}",
                            full_name(name),
                            shown(*value),
                            shortest_float(min),
                            shortest_float(max)));
  }
  *out = static_cast<float>(number);
}

std::optional<int64_t> JsonFields::read_integer(std::string_view name, int64_t min, int64_t max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  // 3.0 is a whole number to a client whose language has only doubles.
  const bool is_whole =
      value->is_number_integer() ||
      (value->is_number_float() &&
       value->get<double>() == static_cast<double>(static_cast<int64_t>(
                                   std::min(std::max(value->get<double>(), -1e15), 1e15))));
  const double number = is_whole ? value->get<double>() : 0;
  if (!is_whole || number < static_cast<double>(min) || number > static_cast<double>(max)) {
    fail(name,
         fmt::format("{} is {}, wanted a whole number from {} to {}",
                     full_name(name),
                     shown(*value),
                     min,
                     max));
    return std::nullopt;
  }
  return value->is_number_integer() ? value->get<int64_t>() : static_cast<int64_t>(number);
}

void JsonFields::read(std::string_view name, uint32_t* out, uint32_t min, uint32_t max) {
  if (const auto number = read_integer(name, min, max)) *out = static_cast<uint32_t>(*number);
}

void JsonFields::read(std::string_view name,
                      std::optional<uint32_t>* out,
                      uint32_t min,
                      uint32_t max) {
  if (const auto number = read_integer(name, min, max)) *out = static_cast<uint32_t>(*number);
}

void JsonFields::read(std::string_view name, std::optional<uint64_t>* out) {
  const Json* value = find(name);
  if (value == nullptr) return;
  if (value->is_number_unsigned()) {
    *out = value->get<uint64_t>();
  } else if (const auto number = read_integer(
                 name, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())) {
    *out = static_cast<uint64_t>(*number);  // negative seeds are seeds too
  }
}

void JsonFields::ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) known_.emplace(name);
}

void JsonFields::require_neutral(std::string_view name,
                                 std::initializer_list<Json> neutral,
                                 std::string_view why) {
  const Json* value = find(name);
  if (value == nullptr) return;
  for (const Json& accepted : neutral) {
    if (*value == accepted) return;
  }
  fail(name, fmt::format("{} is {}: {}", full_name(name), shown(*value), why));
}

void JsonFields::refuse_unknown() {
  if (error_) return;
  for (const auto& [name, value] : object_.items()) {
    if (!known_.contains(name) && !value.is_null()) {
      std::string cut = name.substr(0, kShownValueBytes);
      return fail(cut,
                  fmt::format("\"{}\" is not a field that this endpoint knows; leave it out",
                              full_name(cut)));
    }
  }
}

}  // namespace cairn
