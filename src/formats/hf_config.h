// Hugging Face config.json and generation_config.json, both spellings as one struct.
//
// Checkpoints published until 2025 write rope_theta, rope_scaling and a family's own keys for its
// sliding layers; transformers 5 writes rope_parameters and layer_types. What comes out of here is
// the same for both. Which architectures Cairn can run is the model layer's business: it reads
// `architecture`, `model_type` and `quantization` and refuses what it does not know.
// Thread: any; no state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn {

// Rotary position settings; formulas in the model layer. Source of names: transformers
// modeling_rope_utils.
struct RopeConfig {
  enum class Type { kDefault, kLinear, kLlama3, kYarn };

  Type type = Type::kDefault;
  double theta = 10000.0;              // base, > 1
  double factor = 1.0;                 // context stretch; 1 for kDefault
  double partial_rotary_factor = 1.0;  // share of head_dim that turns, (0, 1]
  // Empty, or one for each rotary pair, by which its frequency is divided before any scaling (how
  // GGUF files carry llama3 scaling).
  std::vector<double> frequency_divisors;

  // kLlama3 and kYarn: the context length of pretraining, in tokens; 0 for the others.
  int64_t original_max_position = 0;

  double low_freq_factor = 1.0;  // kLlama3
  double high_freq_factor = 4.0;

  double beta_fast = 32.0;  // kYarn
  double beta_slow = 1.0;
  bool truncate = true;  // floor and ceil the ramp's ends
  std::optional<double>
      attention_factor;  // on cos and sin; default from factor, or from the mscales
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

std::string_view to_string(RopeConfig::Type type);  // "default", "linear", "llama3", "yarn"

// Context lengths that a config may name.
inline constexpr int64_t kMaxConfigPositions = int64_t{1} << 31;

inline constexpr std::string_view kFullAttention = "full_attention";
inline constexpr std::string_view kSlidingAttention = "sliding_attention";
inline constexpr std::string_view kLinearAttention = "linear_attention";

// MLX's affine groups (kernels: AffineGroups).
struct AffineFormat {
  uint32_t bits = 0;        // 2, 3, 4, 5, 6 or 8
  uint32_t group_size = 0;  // 32, 64 or 128

  friend bool operator==(const AffineFormat&, const AffineFormat&) = default;
};

struct AffineQuantization {
  AffineFormat usual;
  // By module ("model.layers.0.mlp.down_proj"); nullopt: not quantised.
  std::map<std::string, std::optional<AffineFormat>, std::less<>> exceptions;

  // Nullopt when the config says that the module is not quantised.
  std::optional<AffineFormat> of(std::string_view module) const;

  friend bool operator==(const AffineQuantization&, const AffineQuantization&) = default;
};

struct HfConfig {
  std::string architecture;  // architectures[0], for example "Qwen3ForCausalLM"; may be empty
  std::string model_type;    // of the language model; one of the two is given

  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // divides num_attention_heads; missing: equal to it
  int64_t head_dim = 0;             // even; missing: hidden_size / num_attention_heads
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  bool attention_bias = false;  // as written; Qwen2 has q, k and v biases without saying so
  bool mlp_bias = false;
  bool tie_word_embeddings = false;  // missing: true for the families whose default it is
  std::string hidden_act = "silu";

  RopeConfig rope;
  std::optional<RopeConfig> sliding_rope;  // where sliding layers have settings of their own

  // One entry a layer, kFullAttention, kSlidingAttention or the family's own word. Derived from
  // sliding_window_pattern, full_attention_interval, use_sliding_window with max_window_layers, or
  // the family's rule where the file has no layer_types.
  std::vector<std::string> layer_types;
  // Keys that a query of a sliding layer sees, itself included; set exactly when a layer slides.
  std::optional<int64_t> sliding_window;
  bool use_sliding_window = false;  // sliding_window.has_value()
  int64_t max_window_layers = 0;    // as written or the family's default; layer_types counts

  std::vector<uint32_t> eos_token_ids;
  std::optional<uint32_t> bos_token_id;

  // Empty, or what quantization or quantization_config says, as one line of JSON.
  std::string quantization;
  // The same, understood: only for MLX's affine mode.
  std::optional<AffineQuantization> affine;

  // Sentences about defaults taken and keys passed over, for `inspect` and logs.
  std::vector<std::string> notes;

  // All fields but the notes, which tell the spellings apart.
  bool same_model(const HfConfig& other) const;
};

// Errors: kInvalidArgument naming the key, its value and what is wanted; kUnsupported for a rope
// type that Cairn does not know (the message lists those it does).
Result<HfConfig> parse_hf_config(std::string_view json);
// The same from <model_dir>/config.json, with the path in front of messages; kNotFound without one.
Result<HfConfig> load_hf_config(const std::string& model_dir);

// Defaults for sampling and stopping that a model's authors give.
struct GenerationConfig {
  std::vector<uint32_t> eos_token_ids;
  std::optional<uint32_t> bos_token_id;
  std::optional<uint32_t> pad_token_id;
  std::optional<bool> do_sample;
  std::optional<float> temperature;         // >= 0
  std::optional<float> top_p;               // [0, 1]
  std::optional<float> min_p;               // [0, 1]
  std::optional<int> top_k;                 // 0 or less: off
  std::optional<float> repetition_penalty;  // > 0; 1 is off
  std::optional<int64_t> max_new_tokens;    // > 0
};

// Errors: kInvalidArgument as parse_hf_config.
Result<GenerationConfig> parse_generation_config(std::string_view json);
// From <model_dir>/generation_config.json; a missing file gives an empty one. End and begin tokens
// that it does not name are taken from config.json, if that is there.
Result<GenerationConfig> load_generation_config(const std::string& model_dir);

}  // namespace cairn
