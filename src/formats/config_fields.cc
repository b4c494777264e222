#include "formats/config_fields.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "base/json.h"

namespace cairn {
namespace {

// Exact integers only; nullopt for anything else.
std::optional<int64_t> exact_int(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  constexpr double kExactLimit = 9007199254740992.0;  // 2^53
  if (!(std::fabs(number) <= kExactLimit) || std::trunc(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<uint32_t> exact_id(const Json& value) {
  const std::optional<int64_t> number = exact_int(value);
  if (!number || *number < 0 || *number > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

constexpr std::string_view kIdWanted = "a token id (0 to 4294967295)";

}  // namespace

ConfigFields::ConfigFields(const Json& object, std::string where)
    : object_(&object), where_(std::move(where)) {
  CAIRN_CHECK(object.is_object(), "ConfigFields reads objects");
}

const Json* ConfigFields::find(std::string_view key) const {
  for (auto it = object_->begin(); it != object_->end(); ++it) {
    if (it.key() == key) return it.value().is_null() ? nullptr : &it.value();
  }
  return nullptr;
}

Status ConfigFields::bad_value(std::string_view key,
                               const Json& value,
                               std::string_view wanted) const {
  constexpr size_t kMaxShown = 80;
  std::string text = dump_json(value);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return Status::invalid_argument(fmt::format("{}{} is {}; wanted {}", where_, key, text, wanted));
}

Result<std::optional<int64_t>> ConfigFields::find_int(std::string_view key,
                                                      int64_t min,
                                                      int64_t max) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  const std::optional<int64_t> number = exact_int(*value);
  if (!number || *number < min || *number > max) {
    return bad_value(key, *value, fmt::format("an integer from {} to {}", min, max));
  }
  return number;
}

Result<int64_t> ConfigFields::get_int(std::string_view key, int64_t min, int64_t max) const {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> value, find_int(key, min, max));
  if (value) return *value;
  return Status::invalid_argument(
      fmt::format("{}{} is missing; wanted an integer from {} to {}", where_, key, min, max));
}

Result<std::optional<double>> ConfigFields::find_number(std::string_view key,
                                                        double min,
                                                        double max) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<double>();
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  // Also false for NaN; infinity is above every maximum.
  if (!(number >= min && number <= max)) {
    return bad_value(key, *value, fmt::format("a number from {} to {}", min, max));
  }
  return std::optional<double>(number);
}

Result<std::optional<bool>> ConfigFields::find_bool(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return bad_value(key, *value, "true or false");
  return std::optional<bool>(value->get<bool>());
}

Result<std::optional<std::string>> ConfigFields::find_string(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return bad_value(key, *value, "a string");
  return std::optional<std::string>(value->get_ref<const std::string&>());
}

Result<std::optional<std::vector<std::string>>> ConfigFields::find_strings(
    std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<std::vector<std::string>>();
  if (!value->is_array()) return bad_value(key, *value, "a list of strings");
  std::vector<std::string> texts;
  for (const Json& item : *value) {
    if (!item.is_string()) return bad_value(key, item, "a list of strings");
    texts.push_back(item.get_ref<const std::string&>());
  }
  return std::optional(std::move(texts));
}

Result<std::vector<uint32_t>> ConfigFields::find_ids(std::string_view key) const {
  std::vector<uint32_t> ids;
  const Json* value = find(key);
  if (value == nullptr) return ids;
  if (!value->is_array()) {
    const std::optional<uint32_t> id = exact_id(*value);
    if (!id) return bad_value(key, *value, fmt::format("{} or a list of them", kIdWanted));
    ids.push_back(*id);
    return ids;
  }
  for (const Json& item : *value) {
    const std::optional<uint32_t> id = exact_id(item);
    if (!id) return bad_value(key, item, fmt::format("{} in each place of the list", kIdWanted));
    ids.push_back(*id);
  }
  return ids;
}

Result<std::optional<uint32_t>> ConfigFields::find_id(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<uint32_t>();
  const std::optional<uint32_t> id = exact_id(*value);
  if (!id) return bad_value(key, *value, kIdWanted);
  return id;
}

Result<std::optional<ConfigFields>> ConfigFields::find_object(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::optional<ConfigFields>();
  if (!value->is_object()) return bad_value(key, *value, "an object");
  return std::optional<ConfigFields>(ConfigFields(*value, fmt::format("{}{}.", where_, key)));
}

}  // namespace cairn
