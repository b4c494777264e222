#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/hf_config.h"
#include "formats/test_files.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(GenerationConfig, ReadsEveryField) {
  const auto config = parse_generation_config(
      R"({"eos_token_id":[4,5],"bos_token_id":1,"pad_token_id":0,"do_sample":true,
          "temperature":0.6,"top_p":0.95,"min_p":0.05,"top_k":20,"repetition_penalty":1.05,
          "max_new_tokens":256,"transformers_version":"4.51.0"})");
  ASSERT_TRUE(config.is_ok()) << config.status().to_string();
  EXPECT_THAT(config->eos_token_ids, ElementsAre(4, 5));
  EXPECT_EQ(config->bos_token_id, 1U);
  EXPECT_EQ(config->pad_token_id, 0U);
  EXPECT_EQ(config->do_sample, true);
  EXPECT_EQ(config->temperature, 0.6F);
  EXPECT_EQ(config->top_p, 0.95F);
  EXPECT_EQ(config->min_p, 0.05F);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_EQ(config->repetition_penalty, 1.05F);
  EXPECT_EQ(config->max_new_tokens, 256);
}

TEST(GenerationConfig, RefusesBadValuesByName) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"temperature":-1})", "temperature is -1"},
      {R"({"temperature":"warm"})", "temperature"},
      {R"({"top_p":1.5})", "top_p is 1.5"},
      {R"({"min_p":-0.1})", "min_p"},
      {R"({"top_k":-2})", "top_k is -2"},
      {R"({"repetition_penalty":0})", "repetition_penalty is 0"},
      {R"({"max_new_tokens":0})", "max_new_tokens is 0"},
      {R"({"do_sample":1})", "do_sample is 1"},
      {R"({"eos_token_id":"x"})", "eos_token_id"},
      {R"([])", "no JSON object"},
      {R"({)", "not JSON"}};
  for (const auto& [text, message] : cases) {
    const auto config = parse_generation_config(text);
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(config.status().message(), HasSubstr(std::string(message)));
  }
}

TEST(GenerationConfig, MinusOneMeansNoPadding) {
  const auto config = parse_generation_config(R"({"pad_token_id":-1})");
  ASSERT_TRUE(config.is_ok()) << config.status().to_string();
  EXPECT_FALSE(config->pad_token_id.has_value());
}

TEST(GenerationConfig, AnEmptyFolderGivesAnEmptyOne) {
  const TempFolder folder;
  const auto config = load_generation_config(folder.path());
  ASSERT_TRUE(config.is_ok()) << config.status().to_string();
  EXPECT_THAT(config->eos_token_ids, IsEmpty());
  EXPECT_FALSE(config->temperature.has_value());
}

TEST(GenerationConfig, SpecialTokensFallBackToTheModelsConfig) {
  const TempFolder folder;
  write_text(folder / "config.json",
             R"({"eos_token_id":[7],"bos_token_id":1,"whatever":Infinity})");
  const auto without = load_generation_config(folder.path());
  ASSERT_TRUE(without.is_ok()) << without.status().to_string();
  EXPECT_THAT(without->eos_token_ids, ElementsAre(7));
  write_text(folder / "generation_config.json", R"({"eos_token_id":9,"top_k":3})");
  const auto with = load_generation_config(folder.path());
  ASSERT_TRUE(with.is_ok()) << with.status().to_string();
  EXPECT_THAT(with->eos_token_ids, ElementsAre(9));
  EXPECT_EQ(with->bos_token_id, 1U);
  EXPECT_EQ(with->top_k, 3);
  write_text(folder / "config.json", R"({"text_config":{"eos_token_id":5},"bos_token_id":6})");
  write_text(folder / "generation_config.json", "{}");
  const auto nested = load_generation_config(folder.path());
  ASSERT_TRUE(nested.is_ok()) << nested.status().to_string();
  EXPECT_THAT(nested->eos_token_ids, ElementsAre(5));
  EXPECT_EQ(nested->bos_token_id, 6U);
}

TEST(GenerationConfig, LoadingNamesTheFile) {
  const TempFolder folder;
  write_text(folder / "generation_config.json", "{]");
  EXPECT_THAT(load_generation_config(folder.path()).status().message(),
              HasSubstr("generation_config.json"));
}

TEST(GenerationConfig, TheDemoModelsOwn) {
  const auto config = load_generation_config(std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo");
  ASSERT_TRUE(config.is_ok()) << config.status().to_string();
  EXPECT_THAT(config->eos_token_ids, ElementsAre(4091, 4089));
  EXPECT_EQ(config->do_sample, false);
  EXPECT_EQ(config->max_new_tokens, 256);
}

}  // namespace
}  // namespace cairn
