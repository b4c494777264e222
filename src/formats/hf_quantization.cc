// MLX's "quantization" object: {"bits", "group_size", "mode", "<module>": {...} or false}.
// Source: mlx-lm, utils.py (load_model, class_predicate).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "formats/hf_config_parts.h"

namespace cairn {
namespace {

constexpr std::array<int64_t, 6> kBits = {2, 3, 4, 5, 6, 8};
constexpr std::array<int64_t, 3> kGroups = {32, 64, 128};

Result<uint32_t> read_one_of(const ConfigFields& fields,
                             std::string_view key,
                             std::span<const int64_t> accepted) {
  CAIRN_ASSIGN_OR_RETURN(const int64_t value, fields.get_int(key, 1, 1 << 20));
  if (std::find(accepted.begin(), accepted.end(), value) != accepted.end()) {
    return static_cast<uint32_t>(value);
  }
  return Status::unsupported(fmt::format(
      "quantization {} is {}; this version supports {}", key, value, fmt::join(accepted, ", ")));
}

Result<AffineFormat> read_format(const ConfigFields& fields) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> mode, fields.find_string("mode"));
  if (mode.value_or("affine") != "affine") {
    return Status::unsupported(
        fmt::format("quantization mode {:?}; this version supports affine", mode->substr(0, 40)));
  }
  AffineFormat format;
  CAIRN_ASSIGN_OR_RETURN(format.bits, read_one_of(fields, "bits", kBits));
  CAIRN_ASSIGN_OR_RETURN(format.group_size, read_one_of(fields, "group_size", kGroups));
  return format;
}

// A module's entry: true (as usual), false (not quantised), or its own format.
Result<std::optional<AffineFormat>> read_exception(const std::string& module,
                                                   const Json& value,
                                                   const AffineFormat& usual) {
  if (value.is_boolean()) {
    return value.get<bool>() ? std::optional(usual) : std::optional<AffineFormat>();
  }
  if (value.is_object()) {
    Result<AffineFormat> format = read_format(ConfigFields(value, module + "."));
    if (!format.is_ok()) return format.status().with_prefix(module);
    return std::optional(*format);
  }
  return Status::invalid_argument(
      fmt::format("quantization of {:?} is neither an object nor true or false", module));
}

}  // namespace

std::optional<AffineFormat> AffineQuantization::of(std::string_view module) const {
  const auto at = exceptions.find(module);
  return at == exceptions.end() ? std::optional(usual) : at->second;
}

Status parse_affine(const ConfigFields& fields, HfConfig* config) {
  const Json* object = fields.find("quantization");
  if (object == nullptr) object = fields.find("quantization_config");
  // Other tools name their method; MLX does not.
  if (object == nullptr || !object->is_object() || object->contains("quant_method")) {
    return Status::ok();
  }
  AffineQuantization affine;
  CAIRN_ASSIGN_OR_RETURN(affine.usual, read_format(ConfigFields(*object, "quantization.")));
  for (const auto& [key, value] : object->items()) {
    if (key == "bits" || key == "group_size" || key == "mode") continue;
    CAIRN_ASSIGN_OR_RETURN(affine.exceptions[key], read_exception(key, value, affine.usual));
  }
  config->affine = std::move(affine);
  return Status::ok();
}

}  // namespace cairn
