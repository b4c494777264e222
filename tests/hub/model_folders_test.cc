#include "hub/model_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_folder.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

const std::string kFirstCommit(40, '1');
const std::string kSecondCommit(40, '2');

class ModelFoldersTest : public ::testing::Test {
 protected:
  ModelFoldersTest() {
    places_.models_dir = folder_.file("models");
    places_.hub_cache_dir = folder_.file("hub");
  }

  void add(const std::string& path, size_t n_bytes = 10) {
    const std::filesystem::path file = folder_.file(path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << std::string(n_bytes, 'x');
  }

  void add_ref(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.file(path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  Result<std::string> find(const std::string& name) {
    return find_model(*parse_model_name(name), places_);
  }

  TempFolder folder_;
  ModelPlaces places_;
};

TEST_F(ModelFoldersTest, OursGoBeforeTheCacheOfOthers) {
  add("hub/models--a--b/snapshots/" + kFirstCommit + "/model.safetensors");
  add_ref("hub/models--a--b/refs/main", kFirstCommit);
  EXPECT_EQ(*find("a/b"), folder_.file("hub/models--a--b/snapshots/" + kFirstCommit));
  add("models/a/b/model.safetensors");
  EXPECT_EQ(*find("a/b"), folder_.file("models/a/b"));
}

TEST_F(ModelFoldersTest, ReadsTheCacheOfOtherPrograms) {
  const std::string base = "hub/models--a--b/snapshots/" + kSecondCommit;
  add("hub/models--a--b/blobs/abc", 77);
  std::filesystem::create_directories(folder_.file(base));
  std::filesystem::create_symlink("../../blobs/abc", folder_.file(base + "/m-Q8_0.gguf"));
  add_ref("hub/models--a--b/refs/main", kSecondCommit + "\n");
  add_ref("hub/models--a--b/refs/pr/1", kFirstCommit);
  const std::string file = folder_.file(base + "/m-Q8_0.gguf");
  EXPECT_EQ(*find("a/b"), file);
  EXPECT_EQ(*find("a/b:q8_0"), file);
  EXPECT_EQ(*find("a/b@" + kSecondCommit), file);
  EXPECT_FALSE(find("a/b@pr/1").is_ok());
  EXPECT_FALSE(find("a/b:Q4_0").is_ok());
  const auto models = list_models(places_);
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].name, "a/b/m-Q8_0.gguf");
  EXPECT_EQ(models[0].size_bytes, 77U);
  EXPECT_FALSE(models[0].is_ours);
}

TEST_F(ModelFoldersTest, ARefThatIsNoCommitIsNotFollowed) {
  add("secret/model.safetensors");
  std::filesystem::create_directories(folder_.file("hub/models--a--b/snapshots"));
  add_ref("hub/models--a--b/refs/main", "../../../secret");
  EXPECT_EQ(find("a/b").status().code(), StatusCode::kNotFound);
}

TEST_F(ModelFoldersTest, SeveralGgufsNeedAChoice) {
  add("models/a/b/m-Q2_K.gguf");
  add("models/a/b/m-Q8_0.gguf");
  EXPECT_EQ(find("a/b").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(*find("a/b:Q8_0"), folder_.file("models/a/b/m-Q8_0.gguf"));
  EXPECT_EQ(*find("a/b/m-Q2_K.gguf"), folder_.file("models/a/b/m-Q2_K.gguf"));
  add("models/a/b/m-Q4_K_M.gguf");
  EXPECT_EQ(*find("a/b"), folder_.file("models/a/b/m-Q4_K_M.gguf"));
  add("models/a/b/model.safetensors");
  EXPECT_EQ(*find("a/b"), folder_.file("models/a/b"));
}

TEST_F(ModelFoldersTest, WhatIsMissingIsNamedWithTheWayToGetIt) {
  const Status nothing = find("a/b@v1:Q8_0").status();
  EXPECT_EQ(nothing.code(), StatusCode::kNotFound);
  for (const std::string& part : {std::string("a/b@v1:Q8_0"),
                                  places_.models_dir + "/a/b",
                                  places_.hub_cache_dir,
                                  std::string("cairn pull a/b@v1:Q8_0")}) {
    EXPECT_THAT(nothing.message(), HasSubstr(part));
  }
  add("models/a/b/m-Q8_0.gguf");
  const Status other = find("a/b:Q4_0").status();
  EXPECT_THAT(other.message(), HasSubstr("m-Q8_0.gguf"));
  EXPECT_THAT(other.message(), HasSubstr("cairn pull a/b:Q4_0"));
  add("models/c/d/m-00001-of-00002.gguf");
  EXPECT_EQ(find("c/d").status().code(), StatusCode::kCorruption);
}

TEST_F(ModelFoldersTest, ListsWhatIsThereWithSizes) {
  EXPECT_TRUE(list_models(places_).empty());
  add("models/z/y/config.json", 3);
  add("models/z/y/model.safetensors", 100);
  add("models/z/y/m-Q8_0.gguf", 50);
  add("models/a/b/Q4/m-Q4_0-00001-of-00002.gguf", 5);
  add("models/a/b/Q4/m-Q4_0-00002-of-00002.gguf", 6);
  add("models/a/b/mmproj-f16.gguf", 1000);
  add("models/not a name/x/model.safetensors");
  add("models/stray.txt");
  const auto models = list_models(places_);
  ASSERT_EQ(models.size(), 3U);
  EXPECT_EQ(models[0].name, "a/b/Q4/m-Q4_0-00001-of-00002.gguf");
  EXPECT_EQ(models[0].size_bytes, 11U);
  EXPECT_EQ(models[1].name, "z/y");
  EXPECT_EQ(models[1].size_bytes, 103U);
  EXPECT_EQ(models[2].name, "z/y/m-Q8_0.gguf");
  for (const StoredModel& model : models) {
    EXPECT_EQ(*find(model.name), model.path);
    EXPECT_TRUE(model.is_complete && model.is_ours);
  }
}

}  // namespace
}  // namespace cairn
