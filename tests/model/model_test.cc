#include "model/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "model/model_fixture.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

std::unique_ptr<Backend> reference_backend() {
  return make_backend(supported_isas().back(), Precision::kF32);
}

// Loads a changed copy of an oracle and says how that failed, or ok.
Status load_changed(const std::string& oracle,
                    const ConfigEdit& edit_config,
                    const TensorEdit& edit_tensors) {
  const TempDir dir;
  copy_model(oracle_dir(oracle), dir.path(), edit_config, edit_tensors);
  const auto backend = reference_backend();
  return Model::load(dir.path(), *backend, {}).status();
}

void expect_message(const Status& status, StatusCode code, const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " in " << status.message();
  }
}

TensorEdit dropping(const std::string& name) {
  return [name](std::vector<RawTensor>& tensors) {
    CAIRN_CHECK(std::erase_if(tensors, [&](const RawTensor& t) { return t.info.name == name; }) ==
                1);
  };
}

TEST(ModelLoad, MissingTensorIsNamedWithItsShape) {
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  expect_message(
      load_changed("qwen2", {}, dropping(name)), StatusCode::kNotFound, {name, "[48, 64]"});
}

TEST(ModelLoad, EveryKindOfTensorIsMissed) {
  for (const char* name : {"model.embed_tokens.weight",
                           "model.norm.weight",
                           "lm_head.weight",
                           "model.layers.0.input_layernorm.weight",
                           "model.layers.1.post_attention_layernorm.weight",
                           "model.layers.0.self_attn.k_proj.bias",
                           "model.layers.0.self_attn.o_proj.bias",
                           "model.layers.1.mlp.down_proj.bias",
                           "model.layers.1.mlp.gate_proj.weight"}) {
    expect_message(load_changed("llama-yarn", {}, dropping(name)), StatusCode::kNotFound, {name});
  }
  const char* norm = "model.layers.2.self_attn.k_norm.weight";
  expect_message(load_changed("qwen3", {}, dropping(norm)), StatusCode::kNotFound, {norm, "[32]"});
}

TEST(ModelLoad, WrongShapeIsNamedWithBoth) {
  const auto narrower = [](Json& config) { config["intermediate_size"] = 32; };
  expect_message(load_changed("qwen2", narrower, {}),
                 StatusCode::kInvalidArgument,
                 {"model.layers.0.mlp.gate_proj.weight", "[48, 64]", "[32, 64]"});
  const auto transpose = [](std::vector<RawTensor>& tensors) {
    for (auto& [info, bytes] : tensors) {
      if (info.name.ends_with("0.mlp.down_proj.weight")) std::swap(info.shape[0], info.shape[1]);
    }
  };
  expect_message(load_changed("qwen2", {}, transpose),
                 StatusCode::kInvalidArgument,
                 {"model.layers.0.mlp.down_proj.weight", "[48, 64]", "[64, 48]"});
}

TEST(ModelLoad, IntegerWeightsAreRefusedByName) {
  const auto integers = [](std::vector<RawTensor>& tensors) {
    for (auto& [info, bytes] : tensors) {
      if (info.name == "model.layers.0.self_attn.q_proj.weight") info.dtype = DType::kU16;
    }
  };
  expect_message(load_changed("llama", {}, integers),
                 StatusCode::kUnsupported,
                 {"model.layers.0.self_attn.q_proj.weight", "u16", "bf16"});
}

// A bias that the config denies would be left out, and every answer would be slightly wrong.
TEST(ModelLoad, TensorWithoutAPlaceInALayerIsRefused) {
  const auto no_bias = [](Json& config) { config["attention_bias"] = false; };
  expect_message(load_changed("llama-yarn", no_bias, {}),
                 StatusCode::kUnsupported,
                 {"model.layers.0.self_attn", ".bias", "llama"});
}

TEST(ModelLoad, ALayerThatTheConfigForgotIsRefused) {
  const auto shorter = [](Json& config) { config["num_hidden_layers"] = 2; };
  expect_message(load_changed("llama", shorter, {}),
                 StatusCode::kInvalidArgument,
                 {"ordinary layer 2", "num_hidden_layers is 2"});
}

TEST(ModelLoad, UnsupportedConfigsNameTheFolderAndTheWayOut) {
  const auto gemma = [](Json& config) {
    config["architectures"] = Json::array({"Gemma2ForCausalLM"});
  };
  expect_message(load_changed("llama", gemma, {}),
                 StatusCode::kUnsupported,
                 {"Gemma2ForCausalLM", "LlamaForCausalLM", "cairn-model-"});
  const auto quantised = [](Json& config) {
    config["quantization_config"] = Json{{"bits", 4}, {"quant_method", "gptq"}};
  };
  expect_message(load_changed("llama", quantised, {}),
                 StatusCode::kUnsupported,
                 {"gptq", "MLX's affine groups", "GGUF"});
  const auto rope = [](Json& config) {
    config["rope_scaling"] = Json{{"rope_type", "su"}, {"factor", 2.0}};
  };
  expect_message(load_changed("llama", rope, {}), StatusCode::kUnsupported, {"su", "yarn"});
}

TEST(ModelLoad, MissingFolderIsNamed) {
  const auto backend = reference_backend();
  expect_message(Model::load("/no/such/model", *backend, {}).status(),
                 StatusCode::kNotFound,
                 {"/no/such/model"});
}

TEST(ModelLoad, TruncatedWeightsAreCorruption) {
  const TempDir dir;
  copy_model(oracle_dir("llama"), dir.path(), {});
  const std::string path = dir.path() + "/model.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 10);
  const auto backend = reference_backend();
  expect_message(Model::load(dir.path(), *backend, {}).status(),
                 StatusCode::kCorruption,
                 {"model.safetensors"});
}

constexpr TokenId kIds[] = {5, 9, 200, 31, 77, 2, 300};

std::vector<float> logits_of(const std::string& dir, Backend& backend) {
  const auto model = load_model(dir, backend);
  return score_ids(*model, model->spec().cache_geometry(RowEncoding::kF32), kIds, std::size(kIds));
}

std::vector<float> logits_of_changed(const std::string& oracle,
                                     const TensorEdit& edit,
                                     Backend& backend) {
  const TempDir dir;
  copy_model(oracle_dir(oracle), dir.path(), {}, edit);
  return logits_of(dir.path(), backend);
}

// Published files of the inner model alone have no "model." in front of names.
TEST(ModelLoad, NamesWithoutPrefixLoadToTheSameNumbers) {
  const auto backend = reference_backend();
  const auto shorten = [](std::vector<RawTensor>& tensors) {
    for (auto& [info, bytes] : tensors) {
      ASSERT_TRUE(info.name.starts_with("model."));
      info.name = info.name.substr(6);
    }
  };
  EXPECT_EQ(logits_of_changed("qwen3", shorten, *backend),
            logits_of(oracle_dir("qwen3"), *backend));
}

TEST(ModelLoad, ExtrasOfPublishedFilesArePassedOver) {
  const auto backend = reference_backend();
  const auto add = [](std::vector<RawTensor>& tensors) {
    for (const char* name : {"model.layers.0.self_attn.rotary_emb.inv_freq",
                             "model.layers.3.input_layernorm.weight",
                             "mtp.layers.0.mlp.up_proj.weight",
                             "lm_head.weight"}) {  // tied: not read
      tensors.push_back({{.name = name, .dtype = DType::kF32, .shape = {4}},
                         std::vector<std::byte>(16, std::byte{0x7f})});
    }
  };
  EXPECT_EQ(logits_of_changed("llama", add, *backend), logits_of(oracle_dir("llama"), *backend));
}

// A layer past num_hidden_layers that has all it needs is one that the config forgot.
TEST(ModelLoad, AWholeLayerThatTheConfigForgotIsRefused) {
  const auto shorter = [](Json& config) { config["num_hidden_layers"] = 2; };
  expect_message(load_changed("llama", shorter, {}),
                 StatusCode::kInvalidArgument,
                 {"ordinary layer 2", "num_hidden_layers is 2"});
}

// bf16 widens to f32 without loss and, at these sizes, to f16 with next to none.
TEST(ModelLoad, WeightTypesGiveTheSameModel) {
  const auto backend = reference_backend();
  const auto wanted = logits_of(oracle_dir("llama-yarn"), *backend);
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    const auto convert = [dtype](std::vector<RawTensor>& tensors) {
      for (auto& [info, bytes] : tensors) {
        ASSERT_EQ(info.dtype, DType::kBf16);
        std::vector<std::byte> out(bytes.size() / 2 * dtype_bytes(dtype));
        for (size_t i = 0; i < bytes.size() / 2; ++i) {
          Bf16 bits = 0;
          std::memcpy(&bits, bytes.data() + 2 * i, 2);
          const float wide = bf16_to_f32(bits);
          const F16 half = f32_to_f16(wide);
          const void* from = &wide;
          if (dtype == DType::kF16) from = &half;
          std::memcpy(out.data() + i * dtype_bytes(dtype), from, dtype_bytes(dtype));
        }
        info.dtype = dtype;
        bytes = std::move(out);
      }
    };
    const auto logits = logits_of_changed("llama-yarn", convert, *backend);
    ASSERT_EQ(logits.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(logits[i], wanted[i], 1e-3) << to_string(dtype) << " " << i;
    }
  }
}

TEST(ModelLoad, ProgressRisesToOne) {
  const auto backend = reference_backend();
  std::vector<double> shares;
  LoadOptions options;
  options.progress = [&](double share, std::string_view what) {
    EXPECT_FALSE(what.empty());
    shares.push_back(share);
  };
  const auto model = Model::load(oracle_dir("llama"), *backend, options).value();
  EXPECT_GE(shares.size(), 3U);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.back(), 1.0);
  EXPECT_GT(model->weight_bytes(), 2 * model->spec().n_matmul_parameters());
}

Digest identity_of_changed(const ConfigEdit& edit_config, const TensorEdit& edit_tensors) {
  const TempDir dir;
  copy_model(oracle_dir("llama"), dir.path(), edit_config, edit_tensors);
  const auto backend = reference_backend();
  return load_model(dir.path(), *backend)->identity();
}

TEST(ModelIdentity, FollowsContentAndNumbersAndNothingElse) {
  const Digest identity = identity_of_changed({}, {});
  EXPECT_EQ(identity_of_changed({}, {}), identity);  // another folder
  EXPECT_EQ(identity_of_changed([](Json& c) { c["max_position_embeddings"] = 64; }, {}), identity);
  EXPECT_NE(identity_of_changed([](Json& c) { c["rope_theta"] = 10001.0; }, {}), identity);
  const auto flip = [](std::vector<RawTensor>& tensors) {
    tensors.back().bytes.back() ^= std::byte{1};
  };
  EXPECT_NE(identity_of_changed({}, flip), identity);
}

TEST(ModelForward, TokenOutsideTheVocabularyIsAnError) {
  const auto backend = reference_backend();
  const auto model = load_model(oracle_dir("llama"), *backend);
  const CacheGeometry geometry = model->spec().cache_geometry(RowEncoding::kF32);
  Timeline timeline(*backend, geometry);
  const std::vector<TokenId> ids = {1, 320};
  const StepRows rows = timeline.next(ids, LogitRows::kLast);
  expect_message(model->forward(std::span(&rows, 1), geometry).status(),
                 StatusCode::kInvalidArgument,
                 {"320"});
}

TEST(ModelForward, NothingToDoGivesNothing) {
  const auto backend = reference_backend();
  const auto model = load_model(oracle_dir("llama"), *backend);
  const CacheGeometry geometry = model->spec().cache_geometry(RowEncoding::kF32);
  EXPECT_EQ(model->forward({}, geometry).value().n_rows, 0U);
}

}  // namespace
}  // namespace cairn
