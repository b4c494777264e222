#include "formats/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/json.h"
#include "formats/test_files.h"

namespace cairn {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A small configuration with `changes` merged into it (a null deletes).
HfConfig parsed(const Json& changes);

Result<HfConfig> parse_with(const Json& changes) {
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"hidden_size", 64},
                 {"intermediate_size", 96},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 4},
                 {"vocab_size", 320},
                 {"max_position_embeddings", 512}};
  config.merge_patch(changes);
  return parse_hf_config(dump_json(config));
}

HfConfig parsed(const Json& changes) {
  auto config = parse_with(changes);
  EXPECT_TRUE(config.is_ok()) << dump_json(changes) << ": " << config.status().to_string();
  return config.is_ok() ? std::move(config).value() : HfConfig{};
}

void expect_refused(const Json& changes, std::string_view message) {
  const auto config = parse_with(changes);
  ASSERT_FALSE(config.is_ok()) << dump_json(changes);
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument) << dump_json(changes);
  EXPECT_THAT(config.status().message(), HasSubstr(std::string(message)));
}

TEST(HfConfig, MissingKeysTakeTheirDefaults) {
  const HfConfig config = parsed(Json::object());
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.num_key_value_heads, 4);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.hidden_act, "silu");
  EXPECT_EQ(config.rope, RopeConfig{});
  EXPECT_FALSE(config.sliding_rope.has_value());
  EXPECT_THAT(config.layer_types, ElementsAre(kFullAttention, kFullAttention, kFullAttention));
  EXPECT_FALSE(config.sliding_window.has_value());
  EXPECT_THAT(config.eos_token_ids, IsEmpty());
  EXPECT_FALSE(config.bos_token_id.has_value());
  EXPECT_THAT(config.quantization, IsEmpty());
  EXPECT_THAT(config.notes, SizeIs(4));  // head_dim, eps, tie, theta
}

TEST(HfConfig, NullIsMissing) {
  EXPECT_TRUE(parse_hf_config(R"({"model_type":"llama","hidden_size":64,"intermediate_size":96,
      "num_hidden_layers":3,"num_attention_heads":4,"vocab_size":320,"head_dim":null,
      "max_position_embeddings":512,"rope_scaling":null,"sliding_window":null,
      "num_key_value_heads":null,"eos_token_id":null,"rope_parameters":null})")
                  .value()
                  .same_model([] {
                    HfConfig config = parsed(Json::object());
                    config.architecture.clear();
                    return config;
                  }()));
}

TEST(HfConfig, TiedEmbeddingsFollowTheFamily) {
  EXPECT_TRUE(parsed({{"model_type", "gemma2"}}).tie_word_embeddings);
  EXPECT_TRUE(parsed({{"model_type", "smollm3"}}).tie_word_embeddings);
  EXPECT_FALSE(parsed({{"model_type", "qwen3"}}).tie_word_embeddings);
  EXPECT_FALSE(
      parsed({{"model_type", "gemma2"}, {"tie_word_embeddings", false}}).tie_word_embeddings);
  EXPECT_TRUE(parsed({{"tie_word_embeddings", true}}).tie_word_embeddings);
}

TEST(HfConfig, EndTokensAreANumberOrAList) {
  EXPECT_THAT(parsed({{"eos_token_id", 2}}).eos_token_ids, ElementsAre(2));
  EXPECT_THAT(parsed({{"eos_token_id", {7, 2}}}).eos_token_ids, ElementsAre(7, 2));
  EXPECT_EQ(parsed({{"bos_token_id", 1}}).bos_token_id, 1U);
  expect_refused({{"eos_token_id", -1}}, "eos_token_id is -1");
  expect_refused({{"eos_token_id", {1, "x"}}}, "eos_token_id");
  expect_refused({{"bos_token_id", 4294967296}}, "bos_token_id");
}

TEST(HfConfig, IntegersMayBeSpeltAsFloats) {
  EXPECT_EQ(parsed({{"hidden_size", 64.0}}).hidden_size, 64);
  expect_refused({{"hidden_size", 64.5}}, "hidden_size is 64.5");
}

TEST(HfConfig, TheLanguageModelMayBeUnderTextConfig) {
  Json inner = {{"model_type", "qwen3"},
                {"hidden_size", 64},
                {"intermediate_size", 96},
                {"num_hidden_layers", 2},
                {"num_attention_heads", 4},
                {"head_dim", 32},
                {"vocab_size", 320},
                {"max_position_embeddings", 512},
                {"rope_theta", 1e6}};
  const Json outer = {{"architectures", {"SomeForConditionalGeneration"}},
                      {"model_type", "some_vl"},
                      {"tie_word_embeddings", true},
                      {"eos_token_id", 9},
                      {"vision_config", {{"hidden_size", 1}}},
                      {"text_config", inner}};
  const auto config = parse_hf_config(dump_json(outer));
  ASSERT_TRUE(config.is_ok()) << config.status().to_string();
  EXPECT_EQ(config->architecture, "SomeForConditionalGeneration");
  EXPECT_EQ(config->model_type, "qwen3");
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->head_dim, 32);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(9));
}

TEST(HfConfig, InfinityElsewhereIsNoError) {
  EXPECT_TRUE(parse_hf_config(R"({"time_step_limit":[0.0, Infinity],"model_type":"llama",
      "hidden_size":64,"intermediate_size":96,"num_hidden_layers":3,"num_attention_heads":4,
      "vocab_size":320,"max_position_embeddings":512})")
                  .is_ok());
  const auto infinite = parse_hf_config(R"({"rope_theta":Infinity,"model_type":"llama",
      "hidden_size":64,"intermediate_size":96,"num_hidden_layers":3,"num_attention_heads":4,
      "vocab_size":320,"max_position_embeddings":512})");
  EXPECT_EQ(infinite.status().code(), StatusCode::kInvalidArgument);
}

TEST(HfConfig, RefusesBadValuesByName) {
  expect_refused({{"hidden_size", nullptr}}, "hidden_size is missing");
  expect_refused({{"hidden_size", 0}}, "hidden_size is 0");
  expect_refused({{"hidden_size", -64}}, "hidden_size is -64");
  expect_refused({{"hidden_size", "64"}}, "hidden_size is \"64\"");
  expect_refused({{"hidden_size", (1 << 20) + 1}}, "hidden_size");
  expect_refused({{"hidden_size", 1e300}}, "hidden_size");
  expect_refused({{"num_hidden_layers", 4097}}, "num_hidden_layers is 4097");
  expect_refused({{"vocab_size", (1 << 24) + 1}}, "vocab_size");
  expect_refused({{"intermediate_size", true}}, "intermediate_size is true");
  expect_refused({{"max_position_embeddings", 0}}, "max_position_embeddings is 0");
  expect_refused({{"num_key_value_heads", 3}}, "num_key_value_heads is 3");
  expect_refused({{"num_key_value_heads", 8}}, "num_key_value_heads is 8");
  expect_refused({{"head_dim", 15}}, "head_dim is 15; wanted an even number");
  expect_refused({{"hidden_size", 66}}, "head_dim is missing");
  expect_refused({{"num_attention_heads", 64}}, "head_dim is 1;");
  expect_refused({{"rms_norm_eps", -1}}, "rms_norm_eps is -1");
  expect_refused({{"tie_word_embeddings", "yes"}}, "tie_word_embeddings");
  expect_refused({{"hidden_act", 3}}, "hidden_act is 3");
  expect_refused({{"architectures", "LlamaForCausalLM"}}, "architectures");
  expect_refused({{"text_config", "x"}}, "text_config");
  expect_refused({{"rope_theta", 1.0}}, "rope_theta");
  expect_refused({{"rope_theta", "1e4"}}, "rope_theta");
  expect_refused({{"partial_rotary_factor", 1.5}}, "partial_rotary_factor");
}

TEST(HfConfig, ErrorsNameTheFamily) {
  const auto config =
      parse_with({{"architectures", {"Mamba2ForCausalLM"}}, {"num_attention_heads", nullptr}});
  EXPECT_THAT(config.status().message(), HasSubstr("Mamba2ForCausalLM"));
  EXPECT_THAT(config.status().message(), HasSubstr("num_attention_heads is missing"));
  const auto nameless = parse_with({{"architectures", nullptr}, {"model_type", nullptr}});
  EXPECT_THAT(nameless.status().message(), HasSubstr("no model configuration"));
}

TEST(HfConfig, RefusesWhatIsNoObject) {
  for (const std::string_view text : {"", "[]", "1", "null", "{", "{\"a\":}"}) {
    EXPECT_EQ(parse_hf_config(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(HfConfig, QuantisationIsReported) {
  EXPECT_THAT(parsed({{"quantization", {{"bits", 4}, {"group_size", 32}}}}).quantization,
              HasSubstr(R"("bits":4)"));
  EXPECT_THAT(parsed({{"quantization_config", {{"quant_method", "fp8"}}}}).quantization,
              HasSubstr("quant_method"));
}

TEST(HfConfigRope, BothSpellingsOfEveryTypeAgree) {
  const Json scalings[] = {
      {{"rope_type", "linear"}, {"factor", 2.5}},
      {{"rope_type", "llama3"},
       {"factor", 8.0},
       {"low_freq_factor", 1.0},
       {"high_freq_factor", 4.0},
       {"original_max_position_embeddings", 64}},
      {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}},
      {{"rope_type", "yarn"},
       {"factor", 4.0},
       {"beta_fast", 16.0},
       {"beta_slow", 2.0},
       {"truncate", false},
       {"mscale", 0.707},
       {"mscale_all_dim", 1.0},
       {"attention_factor", 1.2}}};
  for (const Json& scaling : scalings) {
    Json parameters = scaling;
    parameters["rope_theta"] = 5000.0;
    const HfConfig published = parsed({{"rope_theta", 5000.0}, {"rope_scaling", scaling}});
    const HfConfig v5 = parsed({{"rope_parameters", parameters}});
    EXPECT_TRUE(published.same_model(v5)) << dump_json(scaling);
    EXPECT_EQ(to_string(published.rope.type), scaling["rope_type"].get<std::string>());
    EXPECT_EQ(published.rope.factor, scaling["factor"].get<double>());
    EXPECT_EQ(published.rope.theta, 5000.0);
  }
}

TEST(HfConfigRope, YarnReadsItsFields) {
  const RopeConfig rope = parsed({{"rope_scaling",
                                   {{"type", "yarn"},
                                    {"factor", 4},
                                    {"beta_fast", 16},
                                    {"beta_slow", 2},
                                    {"truncate", false},
                                    {"mscale", 0.707},
                                    {"mscale_all_dim", 1.0},
                                    {"attention_factor", 1.2}}}})
                              .rope;
  EXPECT_EQ(rope.type, RopeConfig::Type::kYarn);
  EXPECT_EQ(rope.original_max_position, 512);  // max_position_embeddings, as nothing else is said
  EXPECT_EQ(rope.beta_fast, 16.0);
  EXPECT_EQ(rope.beta_slow, 2.0);
  EXPECT_FALSE(rope.truncate);
  EXPECT_EQ(rope.mscale, 0.707);
  EXPECT_EQ(rope.mscale_all_dim, 1.0);
  EXPECT_EQ(rope.attention_factor, 1.2);
}

TEST(HfConfigRope, YarnWithoutFactorTakesTheRatioOfLengths) {
  const RopeConfig rope =
      parsed({{"rope_scaling", {{"type", "yarn"}, {"original_max_position_embeddings", 128}}}})
          .rope;
  EXPECT_EQ(rope.factor, 4.0);
}

TEST(HfConfigRope, PartialRotaryFactorInBothPlaces) {
  EXPECT_EQ(parsed({{"partial_rotary_factor", 0.5}}).rope.partial_rotary_factor, 0.5);
  EXPECT_EQ(parsed({{"rope_parameters", {{"partial_rotary_factor", 0.5}, {"rope_theta", 1e4}}}})
                .rope.partial_rotary_factor,
            0.5);
}

TEST(HfConfigRope, UnknownTypesNameTheKnownOnes) {
  for (const char* type : {"longrope", "dynamic", "proportional", "Linear", ""}) {
    const auto config = parse_with({{"rope_scaling", {{"rope_type", type}, {"factor", 2}}}});
    EXPECT_EQ(config.status().code(), StatusCode::kUnsupported) << type;
    EXPECT_THAT(config.status().message(), HasSubstr("default, linear, llama3, yarn"));
    EXPECT_THAT(config.status().message(), HasSubstr(type));
  }
}

TEST(HfConfigRope, RefusesSettingsThatMakeNoSense) {
  const auto refused = [](const Json& scaling, std::string_view message) {
    expect_refused({{"rope_scaling", scaling}}, message);
  };
  refused("yarn", "rope_scaling is \"yarn\"");
  refused({{"type", "linear"}}, "needs a factor");
  refused({{"type", "linear"}, {"factor", 0}}, "rope_scaling.factor is 0");
  refused({{"type", "linear"}, {"factor", "2"}}, "rope_scaling.factor");
  refused({{"type", "llama3"}, {"factor", 8}}, "original_max_position_embeddings is missing");
  refused({{"type", "llama3"},
           {"factor", 8},
           {"original_max_position_embeddings", 64},
           {"low_freq_factor", 4},
           {"high_freq_factor", 4}},
          "high_freq_factor 4 must be above");
  refused({{"type", "yarn"}, {"factor", 4}, {"beta_fast", 1}, {"beta_slow", 1}}, "beta_fast");
  refused({{"type", 3}}, "rope_scaling.type is 3");
}

TEST(HfConfigRope, KindsOfLayersMayDiffer) {
  const Json full = {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}};
  const Json sliding = {{"rope_type", "default"}, {"rope_theta", 1e4}};
  const HfConfig v5 =
      parsed({{"rope_parameters", {{"full_attention", full}, {"sliding_attention", sliding}}}});
  EXPECT_EQ(v5.rope.type, RopeConfig::Type::kLinear);
  EXPECT_EQ(v5.rope.theta, 1e6);
  ASSERT_TRUE(v5.sliding_rope.has_value());
  EXPECT_EQ(v5.sliding_rope->type, RopeConfig::Type::kDefault);
  const HfConfig published = parsed({{"rope_theta", 1e6},
                                     {"rope_local_base_freq", 1e4},
                                     {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}});
  EXPECT_TRUE(published.same_model(v5));
}

TEST(HfConfigWindow, MistralSlidesEverywhere) {
  const HfConfig config = parsed({{"model_type", "mistral"}, {"sliding_window", 32}});
  EXPECT_EQ(config.sliding_window, 32);
  EXPECT_TRUE(config.use_sliding_window);
  EXPECT_THAT(config.layer_types, Each(kSlidingAttention));
  EXPECT_FALSE(parsed({{"model_type", "mistral"}}).sliding_window.has_value());
}

TEST(HfConfigWindow, QwenSlidesFromMaxWindowLayersIfToldTo) {
  const Json base = {{"model_type", "qwen2"}, {"sliding_window", 32}, {"max_window_layers", 1}};
  const HfConfig silent = parsed(base);
  EXPECT_FALSE(silent.sliding_window.has_value());
  EXPECT_THAT(silent.layer_types, Each(kFullAttention));
  Json on = base;
  on["use_sliding_window"] = true;
  const HfConfig config = parsed(on);
  EXPECT_EQ(config.sliding_window, 32);
  EXPECT_THAT(config.layer_types,
              ElementsAre(kFullAttention, kSlidingAttention, kSlidingAttention));
  on["max_window_layers"] = 28;  // beyond the last layer: nothing slides
  EXPECT_FALSE(parsed(on).sliding_window.has_value());
}

TEST(HfConfigWindow, LlamaReadsNoWindow) {
  const HfConfig config = parsed({{"sliding_window", 32}});
  EXPECT_FALSE(config.sliding_window.has_value());
  EXPECT_TRUE(std::any_of(config.notes.begin(), config.notes.end(), [](const std::string& note) {
    return note.find("sliding_window is passed over") != std::string::npos;
  }));
}

TEST(HfConfigWindow, PatternsAndIntervals) {
  EXPECT_THAT(
      parsed({{"model_type", "gemma3_text"}, {"sliding_window", 8}, {"sliding_window_pattern", 3}})
          .layer_types,
      ElementsAre(kSlidingAttention, kSlidingAttention, kFullAttention));
  EXPECT_THAT(parsed({{"model_type", "gemma2"}, {"sliding_window", 8}}).layer_types,
              ElementsAre(kSlidingAttention, kFullAttention, kSlidingAttention));
  EXPECT_THAT(parsed({{"full_attention_interval", 2}}).layer_types,
              ElementsAre(kLinearAttention, kFullAttention, kLinearAttention));
}

TEST(HfConfigWindow, WrittenLayerTypesCount) {
  const Json types = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(parsed({{"layer_types", types}, {"sliding_window", 8}}).sliding_window, 8);
  expect_refused({{"layer_types", types}}, "sliding_window is missing");
  expect_refused({{"layer_types", {"full_attention"}}}, "layer_types has 1 entries");
  expect_refused({{"layer_types", {1, 2, 3}}}, "layer_types");
  expect_refused({{"sliding_window", 0}}, "sliding_window is 0");
  EXPECT_THAT(parsed({{"layer_types", {"mamba", "attention", "conv"}}}).layer_types,
              ElementsAre(kLinearAttention, kFullAttention, "conv"));
}

// ---- Configurations from elsewhere ----

class OracleConfig : public ::testing::TestWithParam<const char*> {};

TEST_P(OracleConfig, BothSpellingsParseEqual) {
  const std::string folder = oracle_folder(GetParam());
  const auto published = load_hf_config(folder);
  ASSERT_TRUE(published.is_ok()) << published.status().to_string();
  const auto v5 = parse_hf_config(read_all(folder + "/config.v5.json"));
  ASSERT_TRUE(v5.is_ok()) << v5.status().to_string();
  EXPECT_TRUE(published->same_model(*v5));
  EXPECT_EQ(published->vocab_size, 320);
  EXPECT_EQ(published->hidden_size, 64);
  EXPECT_EQ(published->max_position_embeddings, 512);
  EXPECT_THAT(published->eos_token_ids, ElementsAre(2));
  EXPECT_EQ(published->bos_token_id, 1U);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    OracleConfig,
    ::testing::Values("llama", "llama-linear", "llama-yarn", "mistral", "qwen2", "qwen3"),
    [](const auto& param_info) {
      std::string name = param_info.param;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

HfConfig oracle(const char* name) {
  auto config = load_hf_config(oracle_folder(name));
  EXPECT_TRUE(config.is_ok()) << config.status().to_string();
  return config.is_ok() ? std::move(config).value() : HfConfig{};
}

TEST(OracleConfigs, Llama) {
  const HfConfig llama = oracle("llama");
  EXPECT_EQ(llama.rope.type, RopeConfig::Type::kLlama3);
  EXPECT_EQ(llama.rope.factor, 8.0);
  EXPECT_EQ(llama.rope.original_max_position, 64);
  EXPECT_TRUE(llama.tie_word_embeddings);
  EXPECT_EQ(llama.rms_norm_eps, 1e-5);
  EXPECT_EQ(llama.head_dim, 16);
  const HfConfig linear = oracle("llama-linear");
  EXPECT_EQ(linear.rope.type, RopeConfig::Type::kLinear);
  EXPECT_EQ(linear.rope.factor, 2.5);
  EXPECT_EQ(linear.num_key_value_heads, 1);
  const HfConfig yarn = oracle("llama-yarn");
  EXPECT_EQ(yarn.rope.type, RopeConfig::Type::kYarn);
  EXPECT_EQ(yarn.rope.original_max_position, 128);
  EXPECT_EQ(yarn.rope.theta, 5000.0);
  EXPECT_EQ(yarn.head_dim, 24);
  EXPECT_TRUE(yarn.attention_bias);
  EXPECT_TRUE(yarn.mlp_bias);
  EXPECT_FALSE(yarn.tie_word_embeddings);
}

TEST(OracleConfigs, MistralAndQwen) {
  const HfConfig mistral = oracle("mistral");
  EXPECT_EQ(mistral.sliding_window, 32);
  EXPECT_THAT(mistral.layer_types, Each(kSlidingAttention));
  EXPECT_EQ(mistral.head_dim, 12);
  EXPECT_EQ(mistral.rope.type, RopeConfig::Type::kDefault);
  const HfConfig qwen2 = oracle("qwen2");
  EXPECT_EQ(qwen2.sliding_window, 32);
  EXPECT_THAT(qwen2.layer_types, ElementsAre(kFullAttention, kSlidingAttention, kSlidingAttention));
  const HfConfig qwen3 = oracle("qwen3");
  EXPECT_FALSE(qwen3.sliding_window.has_value());
  EXPECT_EQ(qwen3.head_dim, 32);
  EXPECT_EQ(qwen3.rope.theta, 1e6);
}

TEST(OracleConfigs, TheDemoModel) {
  const auto config = load_hf_config(std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo");
  ASSERT_TRUE(config.is_ok()) << config.status().to_string();
  EXPECT_EQ(config->architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(config->num_hidden_layers, 8);
  EXPECT_EQ(config->rope.theta, 100000.0);
  EXPECT_FALSE(config->bos_token_id.has_value());
}

// Architectures that later versions run: today each must parse alike in both spellings or be
// refused with its name, never crash.
TEST(OracleConfigs, EveryOtherArchitectureParsesAlikeOrIsRefusedByName) {
  const char* root = std::getenv("CAIRN_ORACLES");
  if (root == nullptr) GTEST_SKIP() << "CAIRN_ORACLES is unset";
  size_t n_parsed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(root) + "/models")) {
    const std::string folder = entry.path().string();
    if (!std::filesystem::exists(folder + "/config.v5.json")) continue;
    // These say which layers are of which kind in words that only their own adapters will know.
    const std::string name = entry.path().filename().string();
    if (name == "lfm2" || name == "deepseek_v32" || name == "glm_moe_dsa") continue;
    const auto published = load_hf_config(folder);
    const auto v5 = parse_hf_config(read_all(folder + "/config.v5.json"));
    if (published.is_ok() && v5.is_ok()) {
      ++n_parsed;
      EXPECT_TRUE(published->same_model(*v5)) << folder;
      continue;
    }
    for (const Status& status : {published.status(), v5.status()}) {
      if (status.is_ok()) continue;
      EXPECT_THAT(status.message(), HasSubstr(" model: ")) << folder;
    }
  }
  EXPECT_GE(n_parsed, 20U);
}

TEST(HfConfig, LoadingNamesTheFile) {
  const TempFolder folder;
  EXPECT_EQ(load_hf_config(folder.path()).status().code(), StatusCode::kNotFound);
  write_text(folder / "config.json", "{}");
  EXPECT_THAT(load_hf_config(folder.path()).status().message(), HasSubstr("config.json"));
}

}  // namespace
}  // namespace cairn
