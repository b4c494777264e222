// A config.json for a converted model, whatever its source said it in.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/json.h"
#include "formats/convert_parts.h"
#include "formats/gguf_from_hf.h"

namespace cairn {
namespace {

constexpr double kLow = 1.0;
constexpr double kHigh = 4.0;

Json rope_scaling_json(const RopeConfig& rope) {
  if (rope.type == RopeConfig::Type::kDefault) return nullptr;
  Json json;
  json["rope_type"] = to_string(rope.type);
  json["factor"] = rope.factor;
  if (rope.type == RopeConfig::Type::kLinear) return json;
  json["original_max_position_embeddings"] = rope.original_max_position;
  if (rope.type == RopeConfig::Type::kLlama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
    return json;
  }
  json["beta_fast"] = rope.beta_fast;
  json["beta_slow"] = rope.beta_slow;
  if (rope.attention_factor) json["attention_factor"] = *rope.attention_factor;
  if (rope.mscale) json["mscale"] = *rope.mscale;
  if (rope.mscale_all_dim) json["mscale_all_dim"] = *rope.mscale_all_dim;
  if (!rope.truncate) json["truncate"] = false;
  return json;
}

bool gives(const RopeConfig& rope, std::span<const double> divisors) {
  HfConfig probe;
  probe.head_dim = static_cast<int64_t>(2 * divisors.size());
  probe.rope = rope;
  const std::vector<float> found = gguf_rope_divisors(probe);
  for (size_t i = 0; i < divisors.size(); ++i) {
    if (std::abs(static_cast<double>(found[i]) / divisors[i] - 1.0) > 1e-4) return false;
  }
  return true;
}

void add_windows(const HfConfig& config, Json* json) {
  if (!config.sliding_window) return;
  (*json)["sliding_window"] = *config.sliding_window;
  (*json)["layer_types"] = config.layer_types;
  if (config.model_type != "mistral") (*json)["use_sliding_window"] = true;
}

}  // namespace

std::optional<RopeConfig> llama3_of_divisors(std::span<const double> divisors, double theta) {
  if (divisors.empty()) return std::nullopt;
  RopeConfig rope;
  rope.type = RopeConfig::Type::kLlama3;
  rope.theta = theta;
  rope.low_freq_factor = kLow;
  rope.high_freq_factor = kHigh;
  rope.factor = *std::max_element(divisors.begin(), divisors.end());
  // A blended pair tells the original length; without one a power of two has to fit.
  for (size_t i = 0; i < divisors.size(); ++i) {
    if (divisors[i] <= 1.0 || divisors[i] >= rope.factor) continue;
    const double share = (1 / divisors[i] - 1 / rope.factor) / (1 - 1 / rope.factor);
    const double exponent = static_cast<double>(i) / static_cast<double>(divisors.size());
    const double wave = 2.0 * std::numbers::pi * std::pow(theta, exponent);
    rope.original_max_position = std::llround(wave * (kLow + share * (kHigh - kLow)));
    if (rope.original_max_position > 0 && gives(rope, divisors)) return rope;
    return std::nullopt;
  }
  for (int64_t original = 32; original <= 1 << 24; original *= 2) {
    rope.original_max_position = original;
    if (gives(rope, divisors)) return rope;
  }
  return std::nullopt;
}

Result<std::string> hf_config_json(const HfConfig& config, DType dtype) {
  RopeConfig rope = config.rope;
  if (!rope.frequency_divisors.empty()) {
    const auto llama3 = llama3_of_divisors(rope.frequency_divisors, rope.theta);
    if (!llama3 || rope.type != RopeConfig::Type::kDefault || rope.partial_rotary_factor != 1.0) {
      return Status::unsupported(
          "rope_freqs.weight holds divisors that no llama3 setting gives; a config.json has no "
          "place for them");
    }
    rope = *llama3;
  }
  Json json;
  json["architectures"] = Json::array({config.architecture});
  json["model_type"] = config.model_type;
  json["hidden_size"] = config.hidden_size;
  json["intermediate_size"] = config.intermediate_size;
  json["num_hidden_layers"] = config.num_hidden_layers;
  json["num_attention_heads"] = config.num_attention_heads;
  json["num_key_value_heads"] = config.num_key_value_heads;
  json["head_dim"] = config.head_dim;
  json["vocab_size"] = config.vocab_size;
  json["max_position_embeddings"] = config.max_position_embeddings;
  json["rms_norm_eps"] = config.rms_norm_eps;
  json["attention_bias"] = config.attention_bias;
  json["mlp_bias"] = config.mlp_bias;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["hidden_act"] = config.hidden_act;
  json["rope_theta"] = rope.theta;
  json["rope_scaling"] = rope_scaling_json(rope);
  if (rope.partial_rotary_factor != 1.0) json["partial_rotary_factor"] = rope.partial_rotary_factor;
  add_windows(config, &json);
  if (!config.eos_token_ids.empty()) json["eos_token_id"] = config.eos_token_ids;
  if (config.bos_token_id) json["bos_token_id"] = *config.bos_token_id;
  json["torch_dtype"] = dtype == DType::kF32   ? "float32"
                        : dtype == DType::kF16 ? "float16"
                                               : "bfloat16";
  return json.dump(2) + "\n";
}

}  // namespace cairn
