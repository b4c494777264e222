#include "hub/model_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn {
namespace {

using ::testing::HasSubstr;

TEST(ModelName, TakesEveryPartOfEveryForm) {
  const ModelName plain = *parse_model_name("meta-llama/Llama-3.2-1B");
  EXPECT_EQ(plain.org, "meta-llama");
  EXPECT_EQ(plain.repo, "Llama-3.2-1B");
  EXPECT_EQ(plain.repo_id(), "meta-llama/Llama-3.2-1B");
  EXPECT_EQ(plain.revision + plain.quant + plain.file, "");
  EXPECT_EQ(parse_model_name("a/b:Q4_K_M")->quant, "Q4_K_M");
  EXPECT_EQ(parse_model_name("a/b@refs/pr/3")->revision, "refs/pr/3");
  const ModelName both = *parse_model_name("a/b@v1.0:UD-Q4_K_XL");
  EXPECT_EQ(both.revision, "v1.0");
  EXPECT_EQ(both.quant, "UD-Q4_K_XL");
  const ModelName file = *parse_model_name("a/b/Q8_0/b-00001-of-00002.gguf@main");
  EXPECT_EQ(file.file, "Q8_0/b-00001-of-00002.gguf");
  EXPECT_EQ(file.revision, "main");
}

TEST(ModelName, IsWrittenAsItIsRead) {
  for (const char* text : {"a/b", "a/b:Q8_0", "a/b@v1:Q8_0", "a/b/c/d.gguf@v1", "A.1/b_-c"}) {
    EXPECT_EQ(parse_model_name(text)->text(), text);
  }
}

TEST(ModelName, RefusesWhatCouldLeaveAFolderOrAnAddress) {
  for (const char* text : {"",
                           "a",
                           "a/",
                           "/b",
                           "a/b/",
                           "../b",
                           "a/..",
                           ".a/b",
                           "a/.b",
                           "-a/b",
                           "a/b--c",
                           "a b/c",
                           "a/b?x=1",
                           "a/b#c",
                           "a%2e/b",
                           "a/b:",
                           "a/b:../x",
                           "a/b@",
                           "a/b@../x",
                           "a/b@x//y",
                           "a/b@-x",
                           "a/b/c.bin",
                           "a/b/../c.gguf",
                           "a/b/c\\d.gguf",
                           "a/b/.gguf:Q8_0",
                           "https://huggingface.co/a/b",
                           "a/b\n"}) {
    const auto name = parse_model_name(text);
    ASSERT_FALSE(name.is_ok()) << text;
    EXPECT_EQ(name.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(name.status().message(), HasSubstr("ORG/REPO")) << text;
  }
  EXPECT_FALSE(parse_model_name(std::string(97, 'a') + "/b").is_ok());
}

TEST(RepoPath, AcceptsWhatRepositoriesHold) {
  for (const char* path :
       {"config.json", "a/b/c.gguf", "..a/b..", "Modèle 1.gguf", "日本/語.json"}) {
    EXPECT_TRUE(check_repo_path(path).is_ok()) << path;
  }
  EXPECT_TRUE(check_repo_path(std::string(240, 'x')).is_ok());
}

TEST(RepoPath, RefusesWhatHostileHubsSend) {
  const std::string nul = std::string("a") + '\0' + "b";
  for (const std::string& path : {std::string(),
                                  nul,
                                  std::string("/etc/passwd"),
                                  std::string("../x"),
                                  std::string("a/../x"),
                                  std::string("a/.."),
                                  std::string("."),
                                  std::string("a//b"),
                                  std::string("a/"),
                                  std::string("a\\b"),
                                  std::string("a\nb"),
                                  std::string("\x1b[2J"),
                                  std::string("\x7f"),
                                  std::string("\xff.json"),
                                  std::string("\xc0\xaf"),
                                  std::string("\xe0\x80\xaf"),
                                  std::string("\xed\xa0\x80"),
                                  std::string("\xf4\x90\x80\x80"),
                                  std::string("\xe6\x97"),
                                  std::string(241, 'x'),
                                  std::string(1023, 'x').replace(200, 1, "/")}) {
    EXPECT_EQ(check_repo_path(path).code(), StatusCode::kCorruption) << path;
  }
  std::string deep;
  while (deep.size() < 1024) deep += "abc/";
  EXPECT_FALSE(check_repo_path(deep + "x").is_ok());
  EXPECT_THAT(check_repo_path("a/../x").message(), HasSubstr("a/../x"));
}

TEST(Printable, KeepsTerminalsSafeAndLinesShort) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc"), "a [2Jb c");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

}  // namespace
}  // namespace cairn
