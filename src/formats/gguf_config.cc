#include "formats/gguf_config.h"

#include <fmt/format.h>

#include <cmath>

#include "formats/config_limits.h"
#include "formats/tensor_info.h"

namespace cairn {
namespace {

// As for config.json: far above every published model, far below what overflows.

class ConfigReader {
 public:
  ConfigReader(const GgufMetadata& metadata, const GgufTensorFacts& facts, std::string architecture)
      : metadata_(metadata), facts_(facts), architecture_(std::move(architecture)) {}

  Result<HfConfig> run() {
    CAIRN_RETURN_IF_ERROR(read_dims());
    CAIRN_RETURN_IF_ERROR(read_head_dim());
    CAIRN_RETURN_IF_ERROR(read_windows());
    CAIRN_RETURN_IF_ERROR(read_rope());
    CAIRN_RETURN_IF_ERROR(name_family());
    config_.tie_word_embeddings = !facts_.has_output;
    config_.attention_bias = facts_.has_attention_bias;
    config_.mlp_bias = facts_.has_ffn_bias;
    CAIRN_ASSIGN_OR_RETURN(const GenerationConfig generation,
                           parse_gguf_generation_config(metadata_));
    config_.eos_token_ids = generation.eos_token_ids;
    config_.bos_token_id = generation.bos_token_id;
    return std::move(config_);
  }

 private:
  std::string key(std::string_view setting) const {
    return fmt::format("{}.{}", architecture_, setting);
  }

  Status read_dims() {
    CAIRN_ASSIGN_OR_RETURN(config_.hidden_size,
                           metadata_.get_int(key("embedding_length"), 1, kMaxDim));
    CAIRN_ASSIGN_OR_RETURN(config_.intermediate_size,
                           metadata_.get_int(key("feed_forward_length"), 1, kMaxDim));
    CAIRN_ASSIGN_OR_RETURN(config_.num_hidden_layers,
                           metadata_.get_int(key("block_count"), 1, kMaxLayers));
    CAIRN_ASSIGN_OR_RETURN(config_.num_attention_heads,
                           metadata_.get_int(key("attention.head_count"), 1, kMaxHeads));
    CAIRN_ASSIGN_OR_RETURN(config_.max_position_embeddings,
                           metadata_.get_int(key("context_length"), 1, kMaxConfigPositions));
    CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> kv_heads,
                           metadata_.find_int(key("attention.head_count_kv"), 1, kMaxHeads));
    config_.num_key_value_heads = kv_heads.value_or(config_.num_attention_heads);
    if (config_.num_attention_heads % config_.num_key_value_heads != 0) {
      return Status::invalid_argument(
          fmt::format("metadata {} is {}; wanted a divisor of the {} heads",
                      key("attention.head_count_kv"),
                      config_.num_key_value_heads,
                      config_.num_attention_heads));
    }
    if (facts_.n_vocab_rows < 1 || facts_.n_vocab_rows > kMaxVocab) {
      return Status::invalid_argument(
          fmt::format("token_embd.weight has {} rows; wanted 1 to {}: the file lacks its embedding",
                      facts_.n_vocab_rows,
                      kMaxVocab));
    }
    config_.vocab_size = facts_.n_vocab_rows;
    CAIRN_ASSIGN_OR_RETURN(
        const std::optional<double> eps,
        metadata_.find_number(key("attention.layer_norm_rms_epsilon"), 0.0, 1.0));
    if (!eps) {
      return Status::invalid_argument(
          fmt::format("metadata {} is missing", key("attention.layer_norm_rms_epsilon")));
    }
    config_.rms_norm_eps = shortest(*eps);
    return Status::ok();
  }

  // Metadata holds f32; 1e-6 in a config.json is meant by the f32 nearest to it, so that the same
  // model has one identity in either form.
  static double shortest(double value) {
    return std::stod(fmt::format("{}", static_cast<float>(value)));
  }

  Status read_head_dim() {
    const int64_t heads = config_.num_attention_heads;
    CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> length,
                           metadata_.find_int(key("attention.key_length"), 2, kMaxHeads));
    CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> value_length,
                           metadata_.find_int(key("attention.value_length"), 2, kMaxHeads));
    if (!length && config_.hidden_size % heads != 0) {
      return Status::invalid_argument(
          fmt::format("metadata {} is missing, and {} dimensions do not divide into {} heads",
                      key("attention.key_length"),
                      config_.hidden_size,
                      heads));
    }
    config_.head_dim = length.value_or(config_.hidden_size / heads);
    if (config_.head_dim % 2 != 0 || value_length.value_or(config_.head_dim) != config_.head_dim) {
      return Status::unsupported(
          fmt::format("heads of {} key and {} value dimensions; this version runs equal, even ones",
                      config_.head_dim,
                      value_length.value_or(config_.head_dim)));
    }
    return Status::ok();
  }

  // The pattern has one entry a layer, true where it slides. Without one, every layer of a llama
  // file slides (that is Mistral) and none of a Qwen file does, as llama.cpp has it.
  Status read_windows() {
    CAIRN_ASSIGN_OR_RETURN(
        const std::optional<int64_t> window,
        metadata_.find_int(key("attention.sliding_window"), 0, kMaxConfigPositions));
    CAIRN_ASSIGN_OR_RETURN(
        const std::vector<double> pattern,
        metadata_.find_numbers(key("attention.sliding_window_pattern"), kMaxLayers));
    const auto n_layers = static_cast<size_t>(config_.num_hidden_layers);
    if (!pattern.empty() && pattern.size() != n_layers) {
      return Status::invalid_argument(
          fmt::format("metadata {} has {} entries; wanted one a layer, {}",
                      key("attention.sliding_window_pattern"),
                      pattern.size(),
                      n_layers));
    }
    const bool has_window = window.value_or(0) > 0;
    if (has_window && pattern.empty() && architecture_ != "llama") {
      config_.notes.push_back("attention.sliding_window is passed over: no layer is said to slide");
    }
    for (size_t i = 0; i < n_layers; ++i) {
      const bool slides =
          has_window && (pattern.empty() ? architecture_ == "llama" : pattern[i] != 0.0);
      config_.layer_types.emplace_back(slides ? kSlidingAttention : kFullAttention);
      if (slides) config_.sliding_window = window;
    }
    config_.use_sliding_window = config_.sliding_window.has_value();
    return Status::ok();
  }

  Status read_rope() {
    RopeConfig& rope = config_.rope;
    CAIRN_ASSIGN_OR_RETURN(const std::optional<double> base,
                           metadata_.find_number(key("rope.freq_base"), 1.0 + 1e-9, kMaxTheta));
    if (base) rope.theta = shortest(*base);
    if (!base) config_.notes.push_back("rope.freq_base is missing: 10000");
    CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> n_dims,
                           metadata_.find_int(key("rope.dimension_count"), 2, config_.head_dim));
    rope.partial_rotary_factor = static_cast<double>(n_dims.value_or(config_.head_dim)) /
                                 static_cast<double>(config_.head_dim);
    rope.frequency_divisors = facts_.rope_divisors;
    const auto n_pairs = static_cast<size_t>(n_dims.value_or(config_.head_dim) / 2);
    if (!rope.frequency_divisors.empty() && rope.frequency_divisors.size() != n_pairs) {
      return Status::invalid_argument(
          fmt::format("rope_freqs.weight has {} values; wanted one for each of {} rotary pairs",
                      rope.frequency_divisors.size(),
                      n_pairs));
    }
    for (const double divisor : rope.frequency_divisors) {
      if (divisor >= 1.0 / kMaxFactor && divisor <= kMaxFactor) continue;
      return Status::invalid_argument(
          fmt::format("rope_freqs.weight holds {}; wanted values above 0", divisor));
    }
    return read_rope_scaling();
  }

  Status read_rope_scaling() {
    RopeConfig& rope = config_.rope;
    CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> type,
                           metadata_.find_string(key("rope.scaling.type")));
    CAIRN_ASSIGN_OR_RETURN(std::optional<double> factor,
                           metadata_.find_number(key("rope.scaling.factor"), 0.0, kMaxFactor));
    if (!factor) {
      CAIRN_ASSIGN_OR_RETURN(factor,
                             metadata_.find_number(key("rope.scale_linear"), 0.0, kMaxFactor));
    }
    const std::string name = type.value_or("linear");
    if (name != "none" && name != "linear" && name != "yarn") {
      return Status::unsupported(fmt::format(
          "rope scaling {}; this version supports none, linear and yarn", in_quotes(name)));
    }
    // A missing or zero factor means that nothing is stretched.
    if (name == "none" || factor.value_or(0.0) == 0.0) return Status::ok();
    rope.factor = shortest(*factor);
    if (name == "yarn") return read_yarn();
    if (rope.factor != 1.0) rope.type = RopeConfig::Type::kLinear;
    return Status::ok();
  }

  Status read_yarn() {
    RopeConfig& rope = config_.rope;
    rope.type = RopeConfig::Type::kYarn;
    CAIRN_ASSIGN_OR_RETURN(
        const std::optional<int64_t> original,
        metadata_.find_int(key("rope.scaling.original_context_length"), 1, kMaxConfigPositions));
    rope.original_max_position = original.value_or(config_.max_position_embeddings);
    CAIRN_RETURN_IF_ERROR(read_yarn_number("rope.scaling.yarn_beta_fast", &rope.beta_fast));
    CAIRN_RETURN_IF_ERROR(read_yarn_number("rope.scaling.yarn_beta_slow", &rope.beta_slow));
    double attention_factor = 1.0;
    CAIRN_RETURN_IF_ERROR(read_yarn_number("rope.scaling.attn_factor", &attention_factor));
    // In a file this multiplies the factor that yarn prescribes; in a config.json it replaces it.
    if (attention_factor != 1.0) {
      const double own = rope.factor <= 1.0 ? 1.0 : 0.1 * std::log(rope.factor) + 1.0;
      rope.attention_factor = attention_factor * own;
    }
    if (rope.beta_fast > rope.beta_slow) return Status::ok();
    return Status::invalid_argument(fmt::format(
        "rope yarn_beta_fast {} must be above yarn_beta_slow {}", rope.beta_fast, rope.beta_slow));
  }

  Status read_yarn_number(std::string_view setting, double* out) {
    CAIRN_ASSIGN_OR_RETURN(const std::optional<double> value,
                           metadata_.find_number(key(setting), 1.0 / kMaxFactor, kMaxFactor));
    if (value) *out = shortest(*value);
    return Status::ok();
  }

  Status name_family() {
    if (architecture_ == "qwen2") {
      config_.architecture = "Qwen2ForCausalLM";
      config_.model_type = "qwen2";
    } else if (architecture_ == "qwen3") {
      config_.architecture = "Qwen3ForCausalLM";
      config_.model_type = "qwen3";
    } else {
      config_.architecture = config_.sliding_window ? "MistralForCausalLM" : "LlamaForCausalLM";
      config_.model_type = config_.sliding_window ? "mistral" : "llama";
    }
    CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> n_experts,
                           metadata_.find_int(key("expert_count"), 0, kMaxLayers));
    if (n_experts.value_or(0) == 0) return Status::ok();
    return Status::unsupported(fmt::format(
        "a {} file with {} experts; this version runs dense models", architecture_, *n_experts));
  }

  const GgufMetadata& metadata_;
  const GgufTensorFacts& facts_;
  const std::string architecture_;
  HfConfig config_;
};

}  // namespace

Result<HfConfig> parse_gguf_config(const GgufMetadata& metadata, const GgufTensorFacts& facts) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> architecture,
                         metadata.find_string("general.architecture"));
  if (!architecture) {
    return Status::invalid_argument("metadata general.architecture is missing");
  }
  if (*architecture != "llama" && *architecture != "qwen2" && *architecture != "qwen3") {
    return Status::unsupported(
        fmt::format("architecture {}; this version runs llama, qwen2 and qwen3 files",
                    in_quotes(*architecture)));
  }
  return ConfigReader(metadata, facts, *architecture).run();
}

}  // namespace cairn
