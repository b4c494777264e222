#include "hub/hub_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "hub/hub_fixture.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Sets variables for one test and puts back what was there.
class HubSettingsTest : public ::testing::Test {
 protected:
  HubSettingsTest() {
    for (const char* name : {"HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE"}) {
      set(name, "");
    }
    set("HF_HOME", folder_.file("hf"));
    set("XDG_CACHE_HOME", folder_.file("cache"));
  }

  ~HubSettingsTest() override {
    for (const auto& [name, value] : before_) {
      if (value) ::setenv(name.c_str(), value->c_str(), 1);
      if (!value) ::unsetenv(name.c_str());
    }
  }

  void set(const std::string& name, const std::string& value) {
    const char* const old = std::getenv(name.c_str());
    before_.try_emplace(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    ::setenv(name.c_str(), value.c_str(), 1);
  }

  TempFolder folder_;
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(HubSettingsTest, WithoutAnyVariableItIsHuggingFaceWithoutAToken) {
  const auto settings = hub_settings_from_environment();
  ASSERT_TRUE(settings.is_ok());
  EXPECT_EQ(settings->endpoint, "https://huggingface.co");
  EXPECT_EQ(settings->http.token + settings->warning, "");
}

TEST_F(HubSettingsTest, AMirrorIsTakenAndAWrongAddressNamed) {
  set("HF_ENDPOINT", "https://mirror.example:8443/hf//");
  EXPECT_EQ(hub_settings_from_environment()->endpoint, "https://mirror.example:8443/hf");
  for (const char* wrong :
       {"mirror.example", "ftp://x", "https://", "https://me:secret@x", "https://x/?a", "a b"}) {
    set("HF_ENDPOINT", wrong);
    const auto settings = hub_settings_from_environment();
    ASSERT_FALSE(settings.is_ok()) << wrong;
    EXPECT_THAT(settings.status().message(), HasSubstr("HF_ENDPOINT")) << wrong;
    EXPECT_THAT(settings.status().message(), Not(HasSubstr("secret"))) << wrong;
  }
}

TEST_F(HubSettingsTest, TheTokenIsThatOfTheVariableElseOfTheFile) {
  std::filesystem::create_directories(folder_.file("hf"));
  testing::write_bytes(folder_.file("hf/token"), " hf_file\n");
  testing::write_bytes(folder_.file("other"), "hf_other");
  EXPECT_EQ(hub_settings_from_environment()->http.token, "hf_file");
  set("HF_TOKEN_PATH", folder_.file("other"));
  EXPECT_EQ(hub_settings_from_environment()->http.token, "hf_other");
  set("HF_TOKEN", "hf_variable");
  EXPECT_EQ(hub_settings_from_environment()->http.token, "hf_variable");
  EXPECT_EQ(hub_settings_from_environment()->http.token_origin, "https://huggingface.co");
  set("HF_TOKEN", "hf_a\r\nX-Evil: 1");
  const auto settings = hub_settings_from_environment();
  ASSERT_FALSE(settings.is_ok());
  EXPECT_THAT(settings.status().message(), Not(HasSubstr("hf_a")));
}

TEST_F(HubSettingsTest, ATokenIsNotSentWhereOthersCanReadIt) {
  set("HF_TOKEN", "hf_x");
  set("HF_ENDPOINT", "http://hub.example");
  EXPECT_EQ(hub_settings_from_environment()->http.token, "");
  EXPECT_THAT(hub_settings_from_environment()->warning, HasSubstr("http://hub.example"));
  set("HF_ENDPOINT", "http://localhost:8080");
  EXPECT_EQ(hub_settings_from_environment()->http.token, "hf_x");
}

TEST_F(HubSettingsTest, FoldersAreWhereOtherProgramsHaveThem) {
  EXPECT_EQ(model_places_from_environment().models_dir, folder_.file("cache/cairn/models"));
  EXPECT_EQ(model_places_from_environment().hub_cache_dir, folder_.file("hf/hub"));
  set("HF_HUB_CACHE", "/somewhere");
  EXPECT_EQ(model_places_from_environment().hub_cache_dir, "/somewhere");
  set("HF_HUB_CACHE", "");
  set("HF_HOME", "");
  EXPECT_EQ(model_places_from_environment().hub_cache_dir, folder_.file("cache/huggingface/hub"));
}

}  // namespace
}  // namespace cairn
