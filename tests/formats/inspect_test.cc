#include "formats/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/test_files.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Inspect, SummarisesAModelFolder) {
  const auto report = inspect_checkpoint(std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo");
  ASSERT_TRUE(report.is_ok()) << report.status().to_string();
  ASSERT_EQ(report->files.size(), 1U);
  EXPECT_EQ(report->files[0].tensors.size(), report->n_tensors);
  // Bytes of the tensors and the header make the file.
  EXPECT_LT(report->n_bytes, report->files[0].size_bytes);
  EXPECT_EQ(report->files[0].tensors.front().offset + report->n_bytes, report->files[0].size_bytes);
  ASSERT_TRUE(report->dtypes.contains("bf16"));
  EXPECT_EQ(report->dtypes.at("bf16").n_bytes, 2 * report->dtypes.at("bf16").n_elements);
  ASSERT_TRUE(report->config.has_value());
  EXPECT_EQ(report->config->architecture, "Qwen3ForCausalLM");
  EXPECT_THAT(report->config_error, IsEmpty());
  EXPECT_EQ(report->generation.max_new_tokens, 256);
}

TEST(Inspect, ARefusedConfigurationIsReportedNotFatal) {
  const TempFolder folder;
  write_u8_tensors(folder / "model.safetensors", {{"a", "xyz"}});
  const auto bare = inspect_checkpoint(folder.path());
  ASSERT_TRUE(bare.is_ok());
  EXPECT_FALSE(bare->config.has_value());
  EXPECT_THAT(bare->config_error, HasSubstr("config.json"));
  write_text(folder / "config.json", R"({"model_type":"mamba2"})");
  write_text(folder / "generation_config.json", R"({"top_p":7})");
  const auto refused = inspect_checkpoint(folder.path());
  ASSERT_TRUE(refused.is_ok());
  EXPECT_THAT(refused->config_error, HasSubstr("mamba2"));
  EXPECT_THAT(refused->generation_error, HasSubstr("top_p is 7"));
  EXPECT_EQ(refused->n_elements, 3U);
}

TEST(Inspect, ALoneFileHasNoConfiguration) {
  const auto report = inspect_checkpoint(oracle_folder("llama") + "/ref.safetensors");
  ASSERT_TRUE(report.is_ok()) << report.status().to_string();
  EXPECT_FALSE(report->config.has_value());
  EXPECT_THAT(report->config_error, IsEmpty());
  EXPECT_TRUE(report->dtypes.contains("i16"));
  EXPECT_TRUE(report->dtypes.contains("f32"));
}

TEST(Inspect, NothingThereIsAnError) {
  const TempFolder folder;
  EXPECT_EQ(inspect_checkpoint(folder.path()).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace cairn
