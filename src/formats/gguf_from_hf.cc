#include "formats/gguf_from_hf.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace cairn {
namespace {

// Yarn's own factor on cos and sin, which GGUF files multiply and config.json files replace.
double yarn_factor(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double attention_factor(const RopeConfig& rope) {
  const double own = yarn_factor(rope.factor, 1.0);
  if (rope.attention_factor) return *rope.attention_factor / own;
  const double mscale = rope.mscale.value_or(0.0);
  const double all_dim = rope.mscale_all_dim.value_or(0.0);
  if (mscale == 0.0 || all_dim == 0.0) return 1.0;
  return yarn_factor(rope.factor, mscale) / yarn_factor(rope.factor, all_dim) / own;
}

class ConfigWriter {
 public:
  ConfigWriter(const HfConfig& config, std::string architecture, GgufMetadataBuilder* metadata)
      : config_(config), architecture_(std::move(architecture)), metadata_(metadata) {}

  Status run() {
    metadata_->add_string("general.architecture", architecture_);
    add("block_count", config_.num_hidden_layers);
    add("context_length", config_.max_position_embeddings);
    add("embedding_length", config_.hidden_size);
    add("feed_forward_length", config_.intermediate_size);
    add("attention.head_count", config_.num_attention_heads);
    add("attention.head_count_kv", config_.num_key_value_heads);
    add("attention.key_length", config_.head_dim);
    add("attention.value_length", config_.head_dim);
    add("attention.layer_norm_rms_epsilon", config_.rms_norm_eps);
    add("vocab_size", config_.vocab_size);
    add("rope.freq_base", config_.rope.theta);
    add("rope.dimension_count", rope_dim(config_));
    add_windows();
    return add_scaling();
  }

  static int64_t rope_dim(const HfConfig& config) {
    return static_cast<int64_t>(static_cast<double>(config.head_dim) *
                                config.rope.partial_rotary_factor);
  }

 private:
  // The config's numbers are range-checked far below 2^32.
  void add(std::string_view setting, int64_t value) {
    metadata_->add_u32(key(setting), static_cast<uint32_t>(value));
  }

  void add(std::string_view setting, double value) {
    metadata_->add_f32(key(setting), static_cast<float>(value));
  }

  std::string key(std::string_view setting) const {
    return fmt::format("{}.{}", architecture_, setting);
  }

  void add_windows() {
    if (!config_.sliding_window) return;
    add("attention.sliding_window", *config_.sliding_window);
    std::vector<bool> pattern;
    for (const std::string& type : config_.layer_types)
      pattern.push_back(type == kSlidingAttention);
    metadata_->add_bools(key("attention.sliding_window_pattern"), pattern);
  }

  Status add_scaling() {
    const RopeConfig& rope = config_.rope;
    if (config_.sliding_rope) {
      return Status::unsupported("rope settings of their own for sliding layers");
    }
    if (rope.type == RopeConfig::Type::kDefault || rope.type == RopeConfig::Type::kLlama3) {
      return Status::ok();
    }
    metadata_->add_string(key("rope.scaling.type"), to_string(rope.type));
    add("rope.scaling.factor", rope.factor);
    if (rope.type == RopeConfig::Type::kLinear) return Status::ok();
    if (!rope.truncate) {
      return Status::unsupported("yarn without truncation, for which GGUF files have no setting");
    }
    add("rope.scaling.original_context_length", rope.original_max_position);
    add("rope.scaling.yarn_beta_fast", rope.beta_fast);
    add("rope.scaling.yarn_beta_slow", rope.beta_slow);
    add("rope.scaling.attn_factor", attention_factor(rope));
    return Status::ok();
  }

  const HfConfig& config_;
  const std::string architecture_;
  GgufMetadataBuilder* metadata_;
};

}  // namespace

Result<std::string> gguf_architecture(const HfConfig& config) {
  const std::string& name = config.architecture;
  const std::string& type = config.model_type;
  if (name == "LlamaForCausalLM" || (name.empty() && type == "llama")) return std::string("llama");
  if (name == "MistralForCausalLM" || (name.empty() && type == "mistral")) {
    return std::string("llama");
  }
  if (name == "Qwen2ForCausalLM" || (name.empty() && type == "qwen2")) return std::string("qwen2");
  if (name == "Qwen3ForCausalLM" || (name.empty() && type == "qwen3")) return std::string("qwen3");
  return Status::unsupported(
      fmt::format("architecture {:?}; this version writes Llama, Mistral, Qwen2 and Qwen3 as GGUF",
                  (name.empty() ? type : name).substr(0, 80)));
}

Status add_gguf_config(const HfConfig& config, GgufMetadataBuilder* metadata) {
  CAIRN_ASSIGN_OR_RETURN(std::string architecture, gguf_architecture(config));
  return ConfigWriter(config, std::move(architecture), metadata).run();
}

// Long waves are stretched by the factor, short ones left alone, those between blended; a divisor
// is the old frequency over the new one. Source: Meta's llama3 scaling, as in model/rope.cc.
std::vector<float> gguf_rope_divisors(const HfConfig& config) {
  const RopeConfig& rope = config.rope;
  std::vector<float> divisors;
  if (rope.type != RopeConfig::Type::kLlama3) return divisors;
  const int64_t n_dims = ConfigWriter::rope_dim(config);
  const auto original = static_cast<double>(rope.original_max_position);
  for (int64_t i = 0; i < n_dims / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(n_dims);
    const double wave = 2.0 * std::numbers::pi * std::pow(rope.theta, exponent);
    double divisor = 1.0;
    if (wave > original / rope.low_freq_factor) {
      divisor = rope.factor;
    } else if (wave >= original / rope.high_freq_factor) {
      const double s =
          (original / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      divisor = 1.0 / ((1.0 - s) / rope.factor + s);
    }
    divisors.push_back(static_cast<float>(divisor));
  }
  return divisors;
}

}  // namespace cairn
