#include "model/model_spec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "model/model_fixture.h"

namespace cairn {
namespace {

using ::cairn::testing::oracle_dir;
using ::cairn::testing::read_json;

ModelSpec spec_of(const Json& config) {
  return make_model_spec(parse_hf_config(dump_json(config)).value()).value();
}

Json oracle_config(const std::string& name) {
  return read_json(oracle_dir(name) + "/config.json");
}

Status refusal(const Json& config) {
  const auto parsed = parse_hf_config(dump_json(config));
  if (!parsed.is_ok()) return parsed.status();
  return make_model_spec(*parsed).status();
}

std::vector<uint32_t> windows(const ModelSpec& spec) {
  std::vector<uint32_t> out;
  for (const LayerSpec& layer : spec.layers) out.push_back(layer.attention.window);
  return out;
}

TEST(ModelSpec, BothSpellingsOfAConfigAreOneModel) {
  for (const char* name : {"llama", "llama-linear", "llama-yarn", "mistral", "qwen2", "qwen3"}) {
    const ModelSpec published = spec_of(oracle_config(name));
    const ModelSpec v5 = spec_of(read_json(oracle_dir(name) + "/config.v5.json"));
    EXPECT_EQ(published.digest(), v5.digest()) << name;
    EXPECT_EQ(published.family, v5.family) << name;
  }
}

TEST(ModelSpec, RefusesHeadsWiderThanTheKernels) {
  Json config = oracle_config("llama");
  config["head_dim"] = 512;
  EXPECT_TRUE(refusal(config).is_ok());
  config["head_dim"] = 514;
  EXPECT_EQ(refusal(config).code(), StatusCode::kUnsupported);
  EXPECT_NE(refusal(config).message().find("head_dim 514"), std::string::npos);
}

TEST(ModelSpec, LlamaTakesItsShapeFromTheConfig) {
  const ModelSpec spec = spec_of(oracle_config("llama"));
  EXPECT_EQ(spec.family, "llama");
  EXPECT_EQ(spec.vocab_size, 320U);
  EXPECT_EQ(spec.hidden_dim, 64U);
  EXPECT_EQ(spec.max_positions, 512U);
  EXPECT_TRUE(spec.tied_head);
  ASSERT_EQ(spec.layers.size(), 3U);
  const AttentionSpec& a = spec.layers[2].attention;
  EXPECT_EQ(a.n_heads, 4U);
  EXPECT_EQ(a.n_kv_heads, 2U);
  EXPECT_EQ(a.head_dim, 16U);
  EXPECT_EQ(a.scale, 0.25);
  EXPECT_FALSE(a.qkv_bias || a.out_bias || a.qk_norm);
  EXPECT_EQ(spec.layers[2].ffn.ffn_dim, 64U);
  EXPECT_EQ(spec.n_matmul_parameters(), 3U * 64 * (128 + 64 + 3 * 64));
}

TEST(ModelSpec, LlamaBiasesReachTheOutputProduct) {
  const ModelSpec spec = spec_of(oracle_config("llama-yarn"));
  EXPECT_TRUE(spec.layers[0].attention.qkv_bias);
  EXPECT_TRUE(spec.layers[0].attention.out_bias);
  EXPECT_TRUE(spec.layers[0].ffn.bias);
  EXPECT_FALSE(spec.tied_head);
  EXPECT_EQ(spec.rope.inv_freq.size(), 12U);
}

TEST(ModelSpec, MistralSlidesInEveryLayerWhenAWindowIsSet) {
  Json config = oracle_config("mistral");
  EXPECT_EQ(windows(spec_of(config)), (std::vector<uint32_t>{32, 32, 32}));
  config["sliding_window"] = nullptr;
  EXPECT_EQ(windows(spec_of(config)), (std::vector<uint32_t>{0, 0, 0}));
}

TEST(ModelSpec, Qwen2SlidesFromMaxWindowLayersIfSwitchedOn) {
  Json config = oracle_config("qwen2");
  EXPECT_EQ(windows(spec_of(config)), (std::vector<uint32_t>{0, 32, 32}));
  config["max_window_layers"] = 2;
  EXPECT_EQ(windows(spec_of(config)), (std::vector<uint32_t>{0, 0, 32}));
  config["use_sliding_window"] = false;
  EXPECT_EQ(windows(spec_of(config)), (std::vector<uint32_t>{0, 0, 0}));
}

TEST(ModelSpec, Qwen2HasBiasesOnQueryKeyValueAlone) {
  const AttentionSpec a = spec_of(oracle_config("qwen2")).layers[0].attention;
  EXPECT_TRUE(a.qkv_bias);
  EXPECT_FALSE(a.out_bias);
}

TEST(ModelSpec, Qwen3NormsHeadsAndTakesBiasesFromTheConfig) {
  Json config = oracle_config("qwen3");
  EXPECT_TRUE(spec_of(config).layers[0].attention.qk_norm);
  EXPECT_FALSE(spec_of(config).layers[0].attention.qkv_bias);
  config["attention_bias"] = true;
  EXPECT_TRUE(spec_of(config).layers[0].attention.qkv_bias);
}

TEST(ModelSpec, DigestChangesWithNumbersAndNotWithTheContextSize) {
  const Json config = oracle_config("llama");
  const Digest digest = spec_of(config).digest();
  Json longer = config;
  longer["max_position_embeddings"] = 4096;
  EXPECT_EQ(spec_of(longer).digest(), digest);
  const std::vector<std::pair<std::string, Json>> changes = {{"rope_theta", 20000.0},
                                                             {"rms_norm_eps", 1e-6},
                                                             {"attention_bias", true},
                                                             {"mlp_bias", true},
                                                             {"tie_word_embeddings", false},
                                                             {"num_key_value_heads", 4},
                                                             {"head_dim", 32},
                                                             {"num_hidden_layers", 2},
                                                             {"intermediate_size", 48}};
  for (const auto& [key, value] : changes) {
    Json changed = config;
    changed[key] = value;
    EXPECT_NE(spec_of(changed).digest(), digest) << key;
  }
  Json window = oracle_config("mistral");
  const Digest windowed = spec_of(window).digest();
  window["sliding_window"] = 33;
  EXPECT_NE(spec_of(window).digest(), windowed);
}

TEST(ModelSpec, GeometryIsOneFullGroupOverAllLayers) {
  const CacheGeometry geometry = spec_of(oracle_config("qwen2")).cache_geometry(RowEncoding::kBf16);
  ASSERT_EQ(geometry.groups.size(), 1U);
  EXPECT_EQ(geometry.groups[0].layers, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(geometry.groups[0].layout.payload_bytes(), 3U * 2 * 2 * 64 * 16 * 2);
  EXPECT_EQ(geometry.page_tokens, 64U);
}

struct Refused {
  const char* oracle;
  const char* key;
  Json value;
  const char* named;      // what the message must name: the value found
  const char* supported;  // and what is supported
};

TEST(ModelSpec, WhatCannotRunIsNamedWithWhatCan) {
  const std::vector<Refused> cases = {
      {"llama", "architectures", Json::array({"Gemma2ForCausalLM"}), "Gemma2ForCausalLM", "Qwen3"},
      {"llama",
       "architectures",
       Json::array({"LlamaForSequenceClassification"}),
       "LlamaForSequenceClassification",
       "LlamaForCausalLM"},
      {"llama", "hidden_act", "gelu", "gelu", "silu"},
      {"llama", "quantization_config", Json{{"quant_method", "awq"}}, "awq", "bf16"},
      {"llama",
       "rope_scaling",
       Json{{"rope_type", "longrope"}, {"factor", 4.0}},
       "longrope",
       "yarn"},
      {"llama", "rope_scaling", Json{{"type", "dynamic"}, {"factor", 4.0}}, "dynamic", "linear"},
      {"qwen3",
       "layer_types",
       Json::array({"full_attention", "linear_attention", "full_attention"}),
       "linear_attention",
       "sliding_attention"},
      {"llama", "partial_rotary_factor", 0.2, "0.2", "even"},
  };
  for (const Refused& c : cases) {
    Json config = oracle_config(c.oracle);
    config[c.key] = c.value;
    const Status status = refusal(config);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << c.key << ": " << status.to_string();
    EXPECT_NE(status.message().find(c.named), std::string::npos) << status.to_string();
    EXPECT_NE(status.message().find(c.supported), std::string::npos) << status.to_string();
  }
}

TEST(ModelSpec, AConfigWithoutArchitectureIsTakenByItsType) {
  Json config = oracle_config("qwen3");
  config.erase("architectures");
  EXPECT_EQ(spec_of(config).family, "qwen3");
}

}  // namespace
}  // namespace cairn
