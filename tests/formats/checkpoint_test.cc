#include "formats/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/test_files.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void write_index(const TempFolder& folder, std::string_view weight_map) {
  write_text(folder / "model.safetensors.index.json",
             R"({"metadata":{"total_size":6,"x":[1,{"y":null}]},"weight_map":)" +
                 std::string(weight_map) + "}");
}

// Two shards with an index, as published models have them.
void write_sharded(const TempFolder& folder) {
  write_u8_tensors(folder / "m-1-of-2.safetensors", {{"a", "aa"}, {"b", "b"}});
  write_u8_tensors(folder / "m-2-of-2.safetensors", {{"c", "ccc"}});
  write_index(
      folder,
      R"({"a":"m-1-of-2.safetensors","c":"m-2-of-2.safetensors","b":"m-1-of-2.safetensors"})");
}

TEST(Checkpoint, OpensASingleFile) {
  const auto checkpoint = Checkpoint::open(oracle_folder("llama"));
  ASSERT_TRUE(checkpoint.is_ok()) << checkpoint.status().to_string();
  EXPECT_TRUE((*checkpoint)->has("model.norm.weight"));
  EXPECT_FALSE((*checkpoint)->has("lm_head.weight"));
  EXPECT_EQ((*checkpoint)->names().size(), (*checkpoint)->n_tensors());
  ASSERT_EQ((*checkpoint)->files().size(), 1U);
  EXPECT_THAT((*checkpoint)->files()[0], HasSubstr("llama/model.safetensors"));
  const auto view = (*checkpoint)->find("model.layers.0.self_attn.k_proj.weight");
  ASSERT_TRUE(view.is_ok());
  EXPECT_EQ(view->shape, (std::vector<int64_t>{32, 64}));
}

TEST(Checkpoint, OpensShards) {
  const TempFolder folder;
  write_sharded(folder);
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.is_ok()) << checkpoint.status().to_string();
  EXPECT_THAT((*checkpoint)->names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(to_text(*(*checkpoint)->find("a")), "aa");
  EXPECT_EQ(to_text(*(*checkpoint)->find("b")), "b");
  EXPECT_EQ(to_text(*(*checkpoint)->find("c")), "ccc");
  EXPECT_EQ((*checkpoint)->total_bytes(), 6U);
  EXPECT_THAT((*checkpoint)->files(),
              ElementsAre(folder / "m-1-of-2.safetensors", folder / "m-2-of-2.safetensors"));
}

TEST(Checkpoint, OpensTheOnlyFileOfAFolderAndAFileByItsPath) {
  const TempFolder folder;
  write_u8_tensors(folder / "weights.safetensors", {{"a", "x"}});
  write_text(folder / "README.md", "text");
  const auto by_folder = Checkpoint::open(folder.path());
  ASSERT_TRUE(by_folder.is_ok()) << by_folder.status().to_string();
  const auto by_path = Checkpoint::open(folder / "weights.safetensors");
  ASSERT_TRUE(by_path.is_ok()) << by_path.status().to_string();
  EXPECT_EQ(to_text(*(*by_path)->find("a")), "x");
}

TEST(Checkpoint, PrefersTheSingleFileToTheIndex) {
  const TempFolder folder;
  write_sharded(folder);
  write_u8_tensors(folder / "model.safetensors", {{"single", "s"}});
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.is_ok());
  EXPECT_THAT((*checkpoint)->names(), ElementsAre("single"));
}

TEST(Checkpoint, SeveralFilesWithoutAnIndexAreRefused) {
  const TempFolder folder;
  write_u8_tensors(folder / "x.safetensors", {{"a", "x"}});
  write_u8_tensors(folder / "y.safetensors", {{"b", "y"}});
  const Status status = Checkpoint::open(folder.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("x.safetensors"));
  EXPECT_THAT(status.message(), HasSubstr("index"));
}

TEST(Checkpoint, SaysWhatIsMissing) {
  const TempFolder folder;
  const Status empty = Checkpoint::open(folder.path()).status();
  EXPECT_EQ(empty.code(), StatusCode::kNotFound);
  EXPECT_THAT(empty.message(), HasSubstr("model.safetensors"));
  EXPECT_EQ(Checkpoint::open(folder / "none").status().code(), StatusCode::kNotFound);
  write_text(folder / "pytorch_model.bin", "x");
  const Status other = Checkpoint::open(folder.path()).status();
  EXPECT_EQ(other.code(), StatusCode::kUnsupported);
  EXPECT_THAT(other.message(), HasSubstr("pytorch_model.bin"));
  EXPECT_EQ(Checkpoint::open(folder / "pytorch_model.bin").status().code(),
            StatusCode::kUnsupported);
}

TEST(Checkpoint, AMissingTensorNamesItsNeighbours) {
  const auto checkpoint = Checkpoint::open(oracle_folder("llama"));
  ASSERT_TRUE(checkpoint.is_ok());
  const auto view = (*checkpoint)->find("model.layers.1.self_attn.q_pro.weight");
  EXPECT_EQ(view.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(view.status().message(), HasSubstr("\"model.layers.1.self_attn.q_proj.weight\""));
}

TEST(Checkpoint, AMissingShardIsNamed) {
  const TempFolder folder;
  write_sharded(folder);
  std::filesystem::remove(folder / "m-2-of-2.safetensors");
  const Status status = Checkpoint::open(folder.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("m-2-of-2.safetensors"));
}

TEST(Checkpoint, AnIndexThatPutsATensorInTheWrongShardIsRefused) {
  const TempFolder folder;
  write_sharded(folder);
  write_index(
      folder,
      R"({"a":"m-1-of-2.safetensors","b":"m-2-of-2.safetensors","c":"m-2-of-2.safetensors"})");
  const Status status = Checkpoint::open(folder.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("\"b\""));
}

TEST(Checkpoint, AnIndexWithATensorThatNoShardHasIsRefused) {
  const TempFolder folder;
  write_sharded(folder);
  write_index(
      folder,
      R"({"a":"m-1-of-2.safetensors","z":"m-1-of-2.safetensors","c":"m-2-of-2.safetensors"})");
  const Status status = Checkpoint::open(folder.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("no shard"));
}

TEST(Checkpoint, ATensorInTwoShardsIsRefused) {
  const TempFolder folder;
  write_sharded(folder);
  write_u8_tensors(folder / "m-2-of-2.safetensors", {{"a", "zz"}, {"c", "ccc"}});
  const Status status = Checkpoint::open(folder.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("both in"));
}

TEST(SafetensorsIndex, ShardsAreNamedByPlainFileNames) {
  for (const std::string_view name : {"../x.safetensors",
                                      "/etc/passwd",
                                      "a/b.safetensors",
                                      "..",
                                      ".",
                                      "",
                                      "x\\u0000.safetensors"}) {
    const auto map =
        parse_safetensors_index(R"({"weight_map":{"a":")" + std::string(name) + "\"}}");
    EXPECT_EQ(map.status().code(), StatusCode::kCorruption) << name;
  }
  const auto map = parse_safetensors_index(R"({"weight_map":{"a":"x..safetensors"}})");
  ASSERT_TRUE(map.is_ok());
  EXPECT_EQ(map->at("a"), "x..safetensors");
}

TEST(SafetensorsIndex, RefusesWhatIsNoIndex) {
  for (const std::string_view text : {"",
                                      "[]",
                                      "{}",
                                      R"({"weight_map":[]})",
                                      R"({"weight_map":"x"})",
                                      R"({"other":{"weight_map":{"a":"x"}}})",
                                      R"({"weight_map":{"a":1}})",
                                      R"({"weight_map":{"a":null}})",
                                      R"({"weight_map":{"a":{}}})",
                                      R"({"weight_map":{"a":["x"]}})",
                                      R"({"weight_map":{"a":"x","a":"y"}})",
                                      R"({"weight_map":{"a":"x"},"weight_map":{"b":"y"}})"}) {
    EXPECT_FALSE(parse_safetensors_index(text).is_ok()) << text;
  }
}

TEST(SafetensorsIndex, AnEmptyMapIsRefusedAtOpen) {
  const TempFolder folder;
  write_index(folder, "{}");
  EXPECT_EQ(Checkpoint::open(folder.path()).status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace cairn
