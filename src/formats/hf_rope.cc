// Rotary settings: rope_theta + rope_scaling, or rope_parameters.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/json.h"
#include "formats/config_limits.h"
#include "formats/hf_config_parts.h"

namespace cairn {
namespace {

constexpr double kMinFactor = 1e-6;
constexpr int64_t kMaxOriginalPositions = int64_t{1} << 40;

struct TypeName {
  RopeConfig::Type type;
  std::string_view name;
};

constexpr std::array<TypeName, 4> kTypeNames = {{{RopeConfig::Type::kDefault, "default"},
                                                 {RopeConfig::Type::kLinear, "linear"},
                                                 {RopeConfig::Type::kLlama3, "llama3"},
                                                 {RopeConfig::Type::kYarn, "yarn"}}};

// "rope_type" since 2024, "type" before; files that were converted have both.
Result<RopeConfig::Type> read_type(const ConfigFields& fields) {
  CAIRN_ASSIGN_OR_RETURN(std::optional<std::string> name, fields.find_string("rope_type"));
  if (!name) {
    CAIRN_ASSIGN_OR_RETURN(name, fields.find_string("type"));
  }
  if (!name) return RopeConfig::Type::kDefault;
  for (const TypeName& entry : kTypeNames) {
    if (entry.name == *name) return entry.type;
  }
  std::string known;
  for (const TypeName& entry : kTypeNames) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
  }
  return Status::unsupported(
      fmt::format("rope type {:?}; this version supports {}", name->substr(0, 40), known));
}

Status read_number(
    const ConfigFields& fields, const char* key, double min, double max, double* out) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<double> value, fields.find_number(key, min, max));
  if (value) *out = *value;
  return Status::ok();
}

Status read_llama3(const ConfigFields& fields, RopeConfig* rope) {
  CAIRN_ASSIGN_OR_RETURN(
      rope->original_max_position,
      fields.get_int("original_max_position_embeddings", 1, kMaxOriginalPositions));
  CAIRN_RETURN_IF_ERROR(
      read_number(fields, "low_freq_factor", kMinFactor, kMaxFactor, &rope->low_freq_factor));
  CAIRN_RETURN_IF_ERROR(
      read_number(fields, "high_freq_factor", kMinFactor, kMaxFactor, &rope->high_freq_factor));
  if (rope->high_freq_factor > rope->low_freq_factor) return Status::ok();
  return Status::invalid_argument(
      fmt::format("rope high_freq_factor {} must be above low_freq_factor {}",
                  rope->high_freq_factor,
                  rope->low_freq_factor));
}

Status read_yarn(const ConfigFields& fields, int64_t max_position, RopeConfig* rope) {
  CAIRN_ASSIGN_OR_RETURN(
      const std::optional<int64_t> original,
      fields.find_int("original_max_position_embeddings", 1, kMaxOriginalPositions));
  rope->original_max_position = original.value_or(max_position);
  CAIRN_RETURN_IF_ERROR(read_number(fields, "beta_fast", kMinFactor, kMaxFactor, &rope->beta_fast));
  CAIRN_RETURN_IF_ERROR(read_number(fields, "beta_slow", kMinFactor, kMaxFactor, &rope->beta_slow));
  CAIRN_ASSIGN_OR_RETURN(rope->attention_factor,
                         fields.find_number("attention_factor", 0, kMaxFactor));
  CAIRN_ASSIGN_OR_RETURN(rope->mscale, fields.find_number("mscale", 0, kMaxFactor));
  CAIRN_ASSIGN_OR_RETURN(rope->mscale_all_dim, fields.find_number("mscale_all_dim", 0, kMaxFactor));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<bool> truncate, fields.find_bool("truncate"));
  rope->truncate = truncate.value_or(true);
  if (rope->beta_fast > rope->beta_slow) return Status::ok();
  return Status::invalid_argument(fmt::format(
      "rope beta_fast {} must be above beta_slow {}", rope->beta_fast, rope->beta_slow));
}

// The factor of the types that stretch. A yarn file may leave it to the ratio of the two lengths.
Status read_factor(const ConfigFields& fields, int64_t max_position, RopeConfig* rope) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<double> factor,
                         fields.find_number("factor", kMinFactor, kMaxFactor));
  if (factor) {
    rope->factor = *factor;
    return Status::ok();
  }
  if (rope->type == RopeConfig::Type::kYarn && rope->original_max_position > 0) {
    rope->factor =
        static_cast<double>(max_position) / static_cast<double>(rope->original_max_position);
    return Status::ok();
  }
  return Status::invalid_argument(
      fmt::format("rope type {} needs a factor, and there is none", to_string(rope->type)));
}

// Reads one settings object into `rope`, which holds the values that the top level gave.
Status read_settings(const ConfigFields& fields, int64_t max_position, RopeConfig* rope) {
  CAIRN_ASSIGN_OR_RETURN(rope->type, read_type(fields));
  CAIRN_RETURN_IF_ERROR(read_number(fields, "rope_theta", 1.0 + 1e-9, kMaxTheta, &rope->theta));
  CAIRN_RETURN_IF_ERROR(
      read_number(fields, "partial_rotary_factor", 1e-3, 1.0, &rope->partial_rotary_factor));
  if (rope->type == RopeConfig::Type::kDefault) return Status::ok();
  if (rope->type == RopeConfig::Type::kLlama3) CAIRN_RETURN_IF_ERROR(read_llama3(fields, rope));
  if (rope->type == RopeConfig::Type::kYarn) {
    CAIRN_RETURN_IF_ERROR(read_yarn(fields, max_position, rope));
  }
  return read_factor(fields, max_position, rope);
}

// transformers 5: one object, or one for each kind of layer.
Status read_parameters(const ConfigFields& parameters, const RopeConfig& base, HfConfig* config) {
  const int64_t max_position = config->max_position_embeddings;
  if (!parameters.has(kFullAttention) && !parameters.has(kSlidingAttention)) {
    config->rope = base;
    return read_settings(parameters, max_position, &config->rope);
  }
  CAIRN_ASSIGN_OR_RETURN(const std::optional<ConfigFields> full,
                         parameters.find_object(kFullAttention));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<ConfigFields> sliding,
                         parameters.find_object(kSlidingAttention));
  config->rope = base;
  CAIRN_RETURN_IF_ERROR(read_settings(full ? *full : *sliding, max_position, &config->rope));
  if (!sliding) return Status::ok();
  config->sliding_rope = base;
  return read_settings(*sliding, max_position, &*config->sliding_rope);
}

// Families whose sliding layers turn differently without rope_parameters that say so.
Status add_sliding_rope(const ConfigFields& fields, const RopeConfig& base, HfConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<double> local,
                         fields.find_number("rope_local_base_freq", 1.0 + 1e-9, kMaxTheta));
  if (!local && config->model_type != "olmo3") return Status::ok();
  config->sliding_rope = base;
  if (local) config->sliding_rope->theta = *local;
  return Status::ok();
}

}  // namespace

std::string_view to_string(RopeConfig::Type type) {
  for (const TypeName& entry : kTypeNames) {
    if (entry.type == type) return entry.name;
  }
  return "unknown";
}

Status parse_rope(const ConfigFields& fields, HfConfig* config) {
  RopeConfig base;
  CAIRN_ASSIGN_OR_RETURN(const std::optional<double> theta,
                         fields.find_number("rope_theta", 1.0 + 1e-9, kMaxTheta));
  if (theta) base.theta = *theta;
  CAIRN_RETURN_IF_ERROR(
      read_number(fields, "partial_rotary_factor", 1e-3, 1.0, &base.partial_rotary_factor));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<ConfigFields> parameters,
                         fields.find_object("rope_parameters"));
  if (parameters) return read_parameters(*parameters, base, config);
  if (!theta) config->notes.push_back("rope_theta is missing: 10000");
  CAIRN_ASSIGN_OR_RETURN(const std::optional<ConfigFields> scaling,
                         fields.find_object("rope_scaling"));
  config->rope = base;
  if (scaling) {
    CAIRN_RETURN_IF_ERROR(read_settings(*scaling, config->max_position_embeddings, &config->rope));
  }
  return add_sliding_rope(fields, base, config);
}

}  // namespace cairn
