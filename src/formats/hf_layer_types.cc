// Which layers slide: written out, given as a pattern, or known from the family.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "formats/hf_config_parts.h"

namespace cairn {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 31;
constexpr int64_t kDefaultWindowLayers = 28;  // of the Qwen families' configuration classes

// How a family without layer_types places its sliding layers.
enum class Rule {
  kNone,             // reads no sliding_window
  kEveryLayer,       // all, if a window is given
  kFromWindowLayer,  // layers >= max_window_layers, if use_sliding_window
  kEvenLayers,       // 0, 2, 4, ...
  kAllButEveryNth,   // layer i is full when (i + 1) % n == 0
};

struct Family {
  std::string_view model_type;
  Rule rule;
  int64_t n = 0;  // kAllButEveryNth: the family's default
};

constexpr std::array<Family, 15> kFamilies = {{{"mistral", Rule::kEveryLayer},
                                               {"mixtral", Rule::kEveryLayer},
                                               {"phi3", Rule::kEveryLayer},
                                               {"starcoder2", Rule::kEveryLayer},
                                               {"qwen2", Rule::kFromWindowLayer},
                                               {"qwen2_moe", Rule::kFromWindowLayer},
                                               {"qwen3", Rule::kFromWindowLayer},
                                               {"qwen3_moe", Rule::kFromWindowLayer},
                                               {"gemma2", Rule::kEvenLayers},
                                               {"gpt_oss", Rule::kEvenLayers},
                                               {"gemma3_text", Rule::kAllButEveryNth, 6},
                                               {"gemma3n_text", Rule::kAllButEveryNth, 5},
                                               {"gemma4_text", Rule::kAllButEveryNth, 6},
                                               {"olmo3", Rule::kAllButEveryNth, 4},
                                               {"cohere2", Rule::kAllButEveryNth, 4}}};

Family family_of(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return family;
  }
  return {model_type, Rule::kNone};
}

bool slides(const Family& family, const HfConfig& config, int64_t layer_idx) {
  switch (family.rule) {
    case Rule::kNone:
      return false;
    case Rule::kEveryLayer:
      return true;
    case Rule::kFromWindowLayer:
      return layer_idx >= config.max_window_layers;
    case Rule::kEvenLayers:
      return layer_idx % 2 == 0;
    case Rule::kAllButEveryNth:
      return (layer_idx + 1) % family.n != 0;
  }
  return false;
}

// Granite's hybrid files say attention and mamba for what others call full and linear attention.
std::string normalised(const std::string& word) {
  if (word == "attention") return std::string(kFullAttention);
  if (word == "mamba") return std::string(kLinearAttention);
  return word;
}

Status take_written(std::vector<std::string> written, HfConfig* config) {
  if (written.size() != static_cast<size_t>(config->num_hidden_layers)) {
    return Status::invalid_argument(
        fmt::format("layer_types has {} entries; wanted num_hidden_layers, {}",
                    written.size(),
                    config->num_hidden_layers));
  }
  for (const std::string& word : written) config->layer_types.push_back(normalised(word));
  return Status::ok();
}

Status derive(const ConfigFields& fields, bool has_window, HfConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> interval,
                         fields.find_int("full_attention_interval", 1, 4096));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> pattern,
                         fields.find_int("sliding_window_pattern", 1, 4096));
  Family family = family_of(config->model_type);
  if (pattern) family = {config->model_type, Rule::kAllButEveryNth, *pattern};
  if (has_window && family.rule == Rule::kNone && !interval) {
    config->notes.push_back(fmt::format("sliding_window is passed over: {:?} models do not read it",
                                        config->model_type));
  }
  for (int64_t i = 0; i < config->num_hidden_layers; ++i) {
    if (interval) {
      config->layer_types.emplace_back((i + 1) % *interval == 0 ? kFullAttention
                                                                : kLinearAttention);
    } else {
      config->layer_types.emplace_back(has_window && slides(family, *config, i) ? kSlidingAttention
                                                                                : kFullAttention);
    }
  }
  return Status::ok();
}

}  // namespace

Status parse_layer_types(const ConfigFields& fields, HfConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> window,
                         fields.find_int("sliding_window", 1, kMaxWindow));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<bool> flag, fields.find_bool("use_sliding_window"));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> first,
                         fields.find_int("max_window_layers", 0, 1 << 20));
  // The flag is the Qwen families' own and false there when missing; others have a window or none.
  const bool has_flag = family_of(config->model_type).rule == Rule::kFromWindowLayer;
  const bool has_window = window.has_value() && flag.value_or(!has_flag);
  config->max_window_layers = first.value_or(has_flag ? kDefaultWindowLayers : 0);
  CAIRN_ASSIGN_OR_RETURN(std::optional<std::vector<std::string>> written,
                         fields.find_strings("layer_types"));
  if (written) {
    CAIRN_RETURN_IF_ERROR(take_written(std::move(*written), config));
  } else {
    CAIRN_RETURN_IF_ERROR(derive(fields, has_window, config));
  }
  const auto& types = config->layer_types;
  const bool any = std::find(types.begin(), types.end(), kSlidingAttention) != types.end();
  if (any && !has_window) {
    return Status::invalid_argument(
        "layer_types has sliding_attention, but sliding_window is missing or switched off");
  }
  if (any) config->sliding_window = window;
  config->use_sliding_window = any;
  return Status::ok();
}

}  // namespace cairn
