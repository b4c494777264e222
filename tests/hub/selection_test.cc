#include "hub/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "hub/gguf_choice.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Listing listing_with(std::initializer_list<const char*> names) {
  Listing listing;
  for (const char* name : names) listing.files.push_back({name, {}, {}});
  return listing;
}

std::vector<std::string> selected(const Listing& listing, const std::string& name) {
  const auto selection = select_files(listing, *parse_model_name(name));
  if (!selection.is_ok()) return {selection.status().to_string()};
  std::vector<std::string> names;
  for (const RepoFile& file : selection->files) names.push_back(file.name);
  return names;
}

std::string refused(const Listing& listing, const std::string& name) {
  const auto selection = select_files(listing, *parse_model_name(name));
  return selection.is_ok() ? "" : selection.status().to_string();
}

TEST(Selection, TakesWeightsAndTheSmallFilesBesideThem) {
  const Listing listing = listing_with({".gitattributes",
                                        "README.md",
                                        "config.json",
                                        "generation_config.json",
                                        "model.safetensors",
                                        "onnx/model.onnx",
                                        "original/consolidated.safetensors",
                                        "pytorch_model.bin",
                                        "logo.png",
                                        "sub/config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "chat_template.jinja"});
  EXPECT_THAT(selected(listing, "a/b"),
              ElementsAre("config.json",
                          "generation_config.json",
                          "tokenizer.json",
                          "tokenizer_config.json",
                          "chat_template.jinja",
                          "model.safetensors"));
}

TEST(Selection, TakesTheShardsOfAnIndexAndNoSecondCopyOfThem) {
  const Listing shards = listing_with({"config.json",
                                       "consolidated.safetensors",
                                       "adapter_model.safetensors",
                                       "model-00001-of-00002.safetensors",
                                       "model-00002-of-00002.safetensors",
                                       "model.safetensors.index.json",
                                       "mtp.safetensors"});
  EXPECT_THAT(selected(shards, "a/b"),
              ElementsAre("config.json",
                          "model.safetensors.index.json",
                          "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors"));
  const Listing single = listing_with(
      {"model.safetensors", "model.safetensors.index.json", "model-00001-of-00001.safetensors"});
  EXPECT_THAT(selected(single, "a/b"), ElementsAre("model.safetensors"));
  EXPECT_THAT(selected(listing_with({"weights.safetensors"}), "a/b"),
              ElementsAre("weights.safetensors"));
}

TEST(Selection, OneGgufIsTakenAloneAndNeedsNoChoice) {
  const Listing listing = listing_with({"README.md",
                                        "config.json",
                                        "m-Q8_0.gguf",
                                        "mmproj-f16.gguf",
                                        "m.imatrix.gguf",
                                        "imatrix_unsloth.gguf"});
  EXPECT_THAT(selected(listing, "a/b"), ElementsAre("m-Q8_0.gguf"));
  EXPECT_EQ(select_files(listing, *parse_model_name("a/b"))->gguf, "m-Q8_0.gguf");
  EXPECT_EQ(select_files(listing, *parse_model_name("a/b"))->note, "");
}

TEST(Selection, ATypePicksItsGgufWithAllParts) {
  const Listing listing = listing_with({"model.safetensors",
                                        "m-Q4_K_M.gguf",
                                        "m-Q4_K_S.gguf",
                                        "m-IQ4_XS.gguf",
                                        "m.q5_0.gguf",
                                        "BF16/m-00001-of-00002.gguf",
                                        "BF16/m-00002-of-00002.gguf"});
  EXPECT_THAT(selected(listing, "a/b:Q4_K_M"), ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_THAT(selected(listing, "a/b:q4_k_s"), ElementsAre("m-Q4_K_S.gguf"));
  EXPECT_THAT(selected(listing, "a/b:Q5_0"), ElementsAre("m.q5_0.gguf"));
  EXPECT_THAT(selected(listing, "a/b:BF16"),
              ElementsAre("BF16/m-00001-of-00002.gguf", "BF16/m-00002-of-00002.gguf"));
  EXPECT_THAT(selected(listing, "a/b/BF16/m-00002-of-00002.gguf"),
              ElementsAre("BF16/m-00001-of-00002.gguf", "BF16/m-00002-of-00002.gguf"));
  EXPECT_THAT(selected(listing, "a/b"), ElementsAre("model.safetensors"));
  EXPECT_THAT(refused(listing, "a/b:Q4_K"), HasSubstr("m-Q4_K_M.gguf"));
  EXPECT_THAT(refused(listing, "a/b:Q4_XS"), HasSubstr("NOT_FOUND"));
  EXPECT_THAT(refused(listing, "a/b/x.gguf"), HasSubstr("m-Q4_K_M.gguf"));
}

TEST(Selection, WithoutAChoiceTheUsualTypeIsTakenAndSaidSo) {
  const Listing usual = listing_with({"m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf"});
  const auto selection = select_files(usual, *parse_model_name("a/b"));
  ASSERT_TRUE(selection.is_ok());
  EXPECT_EQ(selection->gguf, "m-Q4_K_M.gguf");
  EXPECT_THAT(selection->note, HasSubstr("m-Q4_K_M.gguf"));
  const std::string unusual = refused(listing_with({"m-Q2_K.gguf", "m-Q8_0.gguf"}), "a/b");
  for (const char* part : {"INVALID_ARGUMENT", "m-Q2_K.gguf", "m-Q8_0.gguf", "a/b:"}) {
    EXPECT_THAT(unusual, HasSubstr(part));
  }
  const std::string twice = refused(listing_with({"x-Q8_0.gguf", "UD-x-Q8_0.gguf"}), "a/b:Q8_0");
  EXPECT_THAT(twice, HasSubstr("UD-x-Q8_0.gguf"));
  EXPECT_THAT(twice, HasSubstr("a/b/"));
}

TEST(Selection, SaysWhatIsThereWhenNothingRuns) {
  const std::string said = refused(listing_with({"README.md", "pytorch_model.bin"}), "a/b");
  EXPECT_THAT(said, HasSubstr("pytorch_model.bin"));
  EXPECT_THAT(said, HasSubstr("safetensors"));
  EXPECT_THAT(refused(listing_with({"m-00001-of-00003.gguf", "m-00003-of-00003.gguf"}), "a/b"),
              HasSubstr("2 of the 3"));
}

TEST(GgufChoices, GroupPartsAndKeepOddNamesApart) {
  const std::vector<std::string> paths = {"b-00002-of-00002.gguf",
                                          "b-00001-of-00002.gguf",
                                          "b-00001-of-00003.gguf",
                                          "c-00000-of-00002.gguf",
                                          "d-00001-of-99999.gguf",
                                          "e-0x001-of-00002.gguf",
                                          ".gguf"};
  const auto choices = gguf_choices(paths);
  ASSERT_EQ(choices.size(), 5U);
  EXPECT_EQ(choices[0].parts.size(), 2U);
  EXPECT_TRUE(choices[0].is_whole());
  EXPECT_FALSE(choices[1].is_whole());
  for (size_t i = 2; i < choices.size(); ++i) EXPECT_EQ(choices[i].n_parts, 1U);
}

}  // namespace
}  // namespace cairn
