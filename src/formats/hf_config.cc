#include "formats/hf_config.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <tuple>

#include "base/file_system.h"
#include "base/json.h"
#include "formats/config_limits.h"
#include "formats/hf_config_parts.h"

namespace cairn {
namespace {

// Far above every published model, far below what overflows a product of three.

// Whose configuration class ties the output matrix to the embeddings unless told otherwise.
constexpr std::array<std::string_view, 4> kTiedPrefixes = {
    "gemma", "smollm3", "cohere2", "starcoder2"};

// The language model's fields, and those of the file around them (the same for text models).
struct Sources {
  ConfigFields text;
  ConfigFields outer;
};

Result<Sources> find_sources(const Json& root) {
  if (!root.is_object()) return Status::invalid_argument("the top level is no JSON object");
  const ConfigFields outer(root);
  CAIRN_ASSIGN_OR_RETURN(std::optional<ConfigFields> text, outer.find_object("text_config"));
  return Sources{text ? std::move(*text) : outer, outer};
}

Status parse_names(const Sources& sources, HfConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(auto names, sources.outer.find_strings("architectures"));
  if (!names) {
    CAIRN_ASSIGN_OR_RETURN(names, sources.text.find_strings("architectures"));
  }
  if (names && !names->empty()) config->architecture = names->front();
  CAIRN_ASSIGN_OR_RETURN(std::optional<std::string> type, sources.text.find_string("model_type"));
  if (!type) {
    CAIRN_ASSIGN_OR_RETURN(type, sources.outer.find_string("model_type"));
  }
  config->model_type = type.value_or("");
  if (!config->architecture.empty() || !config->model_type.empty()) return Status::ok();
  return Status::invalid_argument(
      "architectures and model_type are both missing: this is no model configuration");
}

Status parse_dims(const ConfigFields& fields, HfConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(config->hidden_size, fields.get_int("hidden_size", 1, kMaxDim));
  CAIRN_ASSIGN_OR_RETURN(config->intermediate_size,
                         fields.get_int("intermediate_size", 1, kMaxDim));
  CAIRN_ASSIGN_OR_RETURN(config->num_hidden_layers,
                         fields.get_int("num_hidden_layers", 1, kMaxLayers));
  CAIRN_ASSIGN_OR_RETURN(config->num_attention_heads,
                         fields.get_int("num_attention_heads", 1, kMaxHeads));
  CAIRN_ASSIGN_OR_RETURN(config->vocab_size, fields.get_int("vocab_size", 1, kMaxVocab));
  CAIRN_ASSIGN_OR_RETURN(config->max_position_embeddings,
                         fields.get_int("max_position_embeddings", 1, kMaxConfigPositions));
  CAIRN_ASSIGN_OR_RETURN(const auto kv_heads, fields.find_int("num_key_value_heads", 1, kMaxHeads));
  config->num_key_value_heads = kv_heads.value_or(config->num_attention_heads);
  if (config->num_attention_heads % config->num_key_value_heads != 0) {
    return Status::invalid_argument(
        fmt::format("num_key_value_heads is {}; wanted a divisor of num_attention_heads, {}",
                    config->num_key_value_heads,
                    config->num_attention_heads));
  }
  return Status::ok();
}

Status parse_head_dim(const ConfigFields& fields, HfConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(const auto head_dim, fields.find_int("head_dim", 1, kMaxHeads));
  if (!head_dim && config->hidden_size % config->num_attention_heads != 0) {
    return Status::invalid_argument(fmt::format(
        "head_dim is missing and hidden_size {} is no multiple of num_attention_heads {}",
        config->hidden_size,
        config->num_attention_heads));
  }
  config->head_dim = head_dim.value_or(config->hidden_size / config->num_attention_heads);
  if (!head_dim) {
    config->notes.push_back(fmt::format(
        "head_dim is missing: hidden_size / num_attention_heads = {}", config->head_dim));
  }
  if (config->head_dim % 2 == 0) return Status::ok();
  return Status::invalid_argument(fmt::format(
      "head_dim is {}; wanted an even number, since rope turns pairs", config->head_dim));
}

Status parse_norm_eps(const ConfigFields& fields, HfConfig* config) {
  for (const std::string_view key :
       {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"}) {
    CAIRN_ASSIGN_OR_RETURN(const std::optional<double> eps, fields.find_number(key, 0.0, 1.0));
    if (!eps) continue;
    config->rms_norm_eps = *eps;
    return Status::ok();
  }
  config->notes.push_back("rms_norm_eps is missing: 1e-6");
  return Status::ok();
}

bool tied_by_default(std::string_view model_type) {
  for (const std::string_view prefix : kTiedPrefixes) {
    if (model_type.substr(0, prefix.size()) == prefix) return true;
  }
  return false;
}

Status parse_switches(const Sources& sources, HfConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(const auto attention_bias, sources.text.find_bool("attention_bias"));
  config->attention_bias = attention_bias.value_or(false);
  CAIRN_ASSIGN_OR_RETURN(const auto mlp_bias, sources.text.find_bool("mlp_bias"));
  config->mlp_bias = mlp_bias.value_or(false);
  CAIRN_ASSIGN_OR_RETURN(std::optional<bool> tied, sources.text.find_bool("tie_word_embeddings"));
  if (!tied) {
    CAIRN_ASSIGN_OR_RETURN(tied, sources.outer.find_bool("tie_word_embeddings"));
  }
  if (!tied) {
    tied = tied_by_default(config->model_type);
    config->notes.push_back(fmt::format("tie_word_embeddings is missing: {}", *tied));
  }
  config->tie_word_embeddings = *tied;
  CAIRN_ASSIGN_OR_RETURN(std::optional<std::string> act, sources.text.find_string("hidden_act"));
  if (!act) {
    CAIRN_ASSIGN_OR_RETURN(act, sources.text.find_string("hidden_activation"));
  }
  config->hidden_act = act.value_or("silu");
  return Status::ok();
}

Status parse_special_tokens(const Sources& sources, HfConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(config->eos_token_ids, sources.text.find_ids("eos_token_id"));
  CAIRN_ASSIGN_OR_RETURN(config->bos_token_id, sources.text.find_id("bos_token_id"));
  if (config->eos_token_ids.empty()) {
    CAIRN_ASSIGN_OR_RETURN(config->eos_token_ids, sources.outer.find_ids("eos_token_id"));
  }
  if (!config->bos_token_id) {
    CAIRN_ASSIGN_OR_RETURN(config->bos_token_id, sources.outer.find_id("bos_token_id"));
  }
  return Status::ok();
}

void describe_quantization(const Sources& sources, HfConfig* config) {
  constexpr size_t kMaxShown = 200;
  for (const ConfigFields* fields : {&sources.outer, &sources.text}) {
    for (const std::string_view key : {"quantization", "quantization_config"}) {
      const Json* value = fields->find(key);
      if (value == nullptr || !config->quantization.empty()) continue;
      std::string text = dump_json(*value);
      if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
      config->quantization = fmt::format("{}: {}", key, text);
    }
  }
}

Status parse_all(const Sources& sources, HfConfig* config) {
  CAIRN_RETURN_IF_ERROR(parse_dims(sources.text, config));
  CAIRN_RETURN_IF_ERROR(parse_head_dim(sources.text, config));
  CAIRN_RETURN_IF_ERROR(parse_norm_eps(sources.text, config));
  CAIRN_RETURN_IF_ERROR(parse_switches(sources, config));
  CAIRN_RETURN_IF_ERROR(parse_layer_types(sources.text, config));
  CAIRN_RETURN_IF_ERROR(parse_rope(sources.text, config));
  return parse_special_tokens(sources, config);
}

}  // namespace

bool HfConfig::same_model(const HfConfig& other) const {
  const auto key = [](const HfConfig& c) {
    return std::tie(c.architecture,
                    c.model_type,
                    c.hidden_size,
                    c.intermediate_size,
                    c.num_hidden_layers,
                    c.num_attention_heads,
                    c.num_key_value_heads,
                    c.head_dim,
                    c.vocab_size,
                    c.max_position_embeddings,
                    c.rms_norm_eps,
                    c.attention_bias,
                    c.mlp_bias,
                    c.tie_word_embeddings,
                    c.hidden_act,
                    c.rope,
                    c.sliding_rope,
                    c.layer_types,
                    c.sliding_window,
                    c.use_sliding_window,
                    c.max_window_layers,
                    c.eos_token_ids,
                    c.bos_token_id,
                    c.quantization,
                    c.affine);
  };
  return key(*this) == key(other);
}

Result<HfConfig> parse_hf_config(std::string_view json) {
  CAIRN_ASSIGN_OR_RETURN(const Json root, parse_json(json, "model configuration", true));
  CAIRN_ASSIGN_OR_RETURN(const Sources sources, find_sources(root));
  HfConfig config;
  CAIRN_RETURN_IF_ERROR(parse_names(sources, &config));
  describe_quantization(sources, &config);
  CAIRN_RETURN_IF_ERROR(parse_affine(sources.outer, &config));
  const Status status = parse_all(sources, &config);
  // A family that Cairn does not run may lack what is wanted here, so the family is named too.
  if (!status.is_ok()) {
    const bool named = !config.architecture.empty();
    return status.with_prefix(fmt::format(
        "{:?} model",
        std::string_view(named ? config.architecture : config.model_type).substr(0, 80)));
  }
  return config;
}

Result<HfConfig> load_hf_config(const std::string& model_dir) {
  const std::string path = (std::filesystem::path(model_dir) / "config.json").string();
  CAIRN_ASSIGN_OR_RETURN(const std::string text,
                         read_text_file(posix_file_system(), path, kMaxConfigBytes));
  Result<HfConfig> config = parse_hf_config(text);
  if (!config.is_ok()) return config.status().with_prefix(path);
  return config;
}

}  // namespace cairn
