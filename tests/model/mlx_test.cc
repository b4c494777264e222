// Folders quantised by MLX against reference logits of their dequantised weights (CAIRN_ORACLES).
#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"
#include "model/oracle_reference.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

class Mlx : public ::testing::TestWithParam<const char*> {};

TEST_P(Mlx, F32LogitsAndGreedyIdsAreTheReferences) {
  const std::string dir = mlx_dir(GetParam());
  if (dir.empty()) GTEST_SKIP() << "CAIRN_ORACLES is unset";
  const Reference reference(dir);
  const auto backend = make_backend(supported_isas().back(), Precision::kF32);
  auto model = Model::load(dir, *backend, {});
  ASSERT_TRUE(model.is_ok()) << model.status().message();
  const CacheGeometry geometry = (*model)->spec().cache_geometry(RowEncoding::kF32);
  for (const Prompt& prompt : reference.prompts()) {
    const auto logits = score_ids(**model, geometry, prompt.ids, 64);
    expect_f32(reference, prompt, (*model)->spec().vocab_size, logits);
    expect_greedy(reference, prompt, **model, geometry);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Mlx, ::testing::ValuesIn(kMlxFolders), [](const auto& param) {
  return test_name(param.param);
});

// Loads qwen3/mlx-mixed with a changed config.
Status load_mixed(const ConfigEdit& edit) {
  const TempDir dir;
  copy_model(mlx_dir("qwen3/mlx-mixed"), dir.path(), [&](Json& config) {
    config.erase("quantization_config");
    edit(config["quantization"]);
  });
  const auto backend = make_backend(supported_isas().back(), Precision::kF32);
  return Model::load(dir.path(), *backend, {}).status();
}

TEST(MlxConfig, WhatDoesNotFitTheWeightsIsRefusedByModule) {
  if (mlx_dir("").empty()) GTEST_SKIP() << "CAIRN_ORACLES is unset";
  EXPECT_TRUE(load_mixed([](Json&) {}).is_ok());
  const Status bits = load_mixed([](Json& q) { q["model.layers.1.mlp.down_proj"]["bits"] = 6; });
  EXPECT_EQ(bits.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(bits.message().find("model.layers.1.mlp.down_proj.weight"), std::string::npos)
      << bits.message();
  const Status group = load_mixed([](Json& q) { q["group_size"] = 32; });
  EXPECT_EQ(group.code(), StatusCode::kInvalidArgument) << group.message();
  const Status denied = load_mixed([](Json& q) { q["model.layers.0.mlp.up_proj"] = false; });
  EXPECT_EQ(denied.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(denied.message().find("model.layers.0.mlp.up_proj.scales"), std::string::npos)
      << denied.message();
  const Status mode = load_mixed([](Json& q) { q["mode"] = "mxfp4"; });
  EXPECT_EQ(mode.code(), StatusCode::kUnsupported);
  const Status odd = load_mixed([](Json& q) { q["bits"] = 7; });
  EXPECT_EQ(odd.code(), StatusCode::kUnsupported) << odd.message();
}

}  // namespace
}  // namespace cairn
