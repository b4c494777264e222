// generation_config.json, and the special tokens of config.json where it is silent.
#include <filesystem>
#include <limits>

#include "base/file_system.h"
#include "base/json.h"
#include "formats/hf_config_parts.h"

namespace cairn {
namespace {

Status read_sampling(const ConfigFields& fields, GenerationConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(config->do_sample, fields.find_bool("do_sample"));
  CAIRN_RETURN_IF_ERROR(read_float(fields, "temperature", 0.0, 1000.0, &config->temperature));
  CAIRN_RETURN_IF_ERROR(read_float(fields, "top_p", 0.0, 1.0, &config->top_p));
  CAIRN_RETURN_IF_ERROR(read_float(fields, "min_p", 0.0, 1.0, &config->min_p));
  CAIRN_RETURN_IF_ERROR(
      read_float(fields, "repetition_penalty", 1e-6, 1000.0, &config->repetition_penalty));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> top_k,
                         fields.find_int("top_k", -1, std::numeric_limits<int>::max()));
  if (top_k) config->top_k = static_cast<int>(*top_k);
  CAIRN_ASSIGN_OR_RETURN(config->max_new_tokens,
                         fields.find_int("max_new_tokens", 1, std::numeric_limits<int32_t>::max()));
  return Status::ok();
}

Status read_special_tokens(const ConfigFields& fields, GenerationConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(config->eos_token_ids, fields.find_ids("eos_token_id"));
  CAIRN_ASSIGN_OR_RETURN(config->bos_token_id, fields.find_id("bos_token_id"));
  // Early Llama files write -1 for "no padding token".
  CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> pad,
                         fields.find_int("pad_token_id", -1, std::numeric_limits<uint32_t>::max()));
  if (pad && *pad >= 0) config->pad_token_id = static_cast<uint32_t>(*pad);
  return Status::ok();
}

// Only the special tokens, so that a configuration whose other fields Cairn refuses still tells
// them.
Status fill_from_config(std::string_view json, GenerationConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(const Json root, parse_json(json, "model configuration", true));
  if (!root.is_object()) return Status::invalid_argument("the top level is no JSON object");
  const ConfigFields outer(root);
  CAIRN_ASSIGN_OR_RETURN(const std::optional<ConfigFields> text, outer.find_object("text_config"));
  for (const ConfigFields* fields : {text ? &*text : &outer, &outer}) {
    GenerationConfig found;
    CAIRN_RETURN_IF_ERROR(read_special_tokens(*fields, &found));
    if (config->eos_token_ids.empty()) config->eos_token_ids = std::move(found.eos_token_ids);
    if (!config->bos_token_id) config->bos_token_id = found.bos_token_id;
    if (!config->pad_token_id) config->pad_token_id = found.pad_token_id;
  }
  return Status::ok();
}

// Nullopt when there is no such file.
Result<std::optional<std::string>> read_optional(const std::string& path) {
  Result<std::string> text = read_text_file(posix_file_system(), path, kMaxConfigBytes);
  if (text.is_ok()) return std::optional(std::move(text).value());
  if (text.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  return text.status();
}

}  // namespace

Result<GenerationConfig> parse_generation_config(std::string_view json) {
  CAIRN_ASSIGN_OR_RETURN(const Json root, parse_json(json, "generation configuration", true));
  if (!root.is_object()) return Status::invalid_argument("the top level is no JSON object");
  const ConfigFields fields(root);
  GenerationConfig config;
  CAIRN_RETURN_IF_ERROR(read_special_tokens(fields, &config));
  CAIRN_RETURN_IF_ERROR(read_sampling(fields, &config));
  return config;
}

Result<GenerationConfig> load_generation_config(const std::string& model_dir) {
  const std::filesystem::path folder(model_dir);
  const std::string path = (folder / "generation_config.json").string();
  GenerationConfig config;
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> text, read_optional(path));
  if (text) {
    Result<GenerationConfig> parsed = parse_generation_config(*text);
    if (!parsed.is_ok()) return parsed.status().with_prefix(path);
    config = std::move(parsed).value();
  }
  const std::string model_path = (folder / "config.json").string();
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> model_text, read_optional(model_path));
  if (model_text) {
    CAIRN_RETURN_IF_ERROR(fill_from_config(*model_text, &config).with_prefix(model_path));
  }
  return config;
}

}  // namespace cairn
