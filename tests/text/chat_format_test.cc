#include "text/chat_format.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace cairn {
namespace {

// A model folder of its own, gone at the end.
class ChatFormatTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "cairn_chat_format_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }

  void TearDown() override { std::filesystem::remove_all(dir_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/" + name) << text;
  }

  std::string dir_;
};

TemplateInputs hello() {
  TemplateInputs inputs;
  inputs.messages = Json::array({{{"role", "user"}, {"content", "Hi"}}});
  return inputs;
}

TEST_F(ChatFormatTest, TemplateAndTokensFromTokenizerConfig) {
  write(
      "tokenizer_config.json",
      R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>", "pad_token": null,
            "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}"})");
  auto format = ChatFormat::load(dir_);
  ASSERT_TRUE(format.is_ok()) << format.status().to_string();
  EXPECT_EQ(*format->render(hello()), "<s>Hi</s>");
  EXPECT_EQ(format->special_tokens(), (SpecialTokens{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
}

TEST_F(ChatFormatTest, AFileOfItsOwnWins) {
  write("tokenizer_config.json", R"({"chat_template": "config", "eos_token": "E"})");
  write("special_tokens_map.json", R"({"bos_token": "B", "eos_token": "not this one"})");
  write("chat_template.jinja", "file {{ bos_token }}{{ eos_token }}\n");
  auto format = ChatFormat::load(dir_);
  ASSERT_TRUE(format.is_ok()) << format.status().to_string();
  EXPECT_EQ(*format->render(hello()), "file BE");
}

TEST_F(ChatFormatTest, AGivenTemplateReplacesTheModels) {
  write("tokenizer_config.json", R"({"chat_template": "{{ broken", "eos_token": "E"})");
  write("mine.jinja", "mine {{ eos_token }}");
  auto format = ChatFormat::load(dir_, dir_ + "/mine.jinja");
  ASSERT_TRUE(format.is_ok()) << format.status().to_string();
  EXPECT_EQ(*format->render(hello()), "mine E");
  EXPECT_EQ(ChatFormat::load(dir_, dir_ + "/other.jinja").status().code(), StatusCode::kNotFound);
}

TEST_F(ChatFormatTest, NamedTemplatesAreChosenByTools) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "plain"},
                              {"name": "rag", "template": "{{ not even parsed"},
                              {"name": "tool_use", "template": "tools {{ tools|length }}"}]})");
  auto format = ChatFormat::load(dir_);
  ASSERT_TRUE(format.is_ok()) << format.status().to_string();
  TemplateInputs inputs = hello();
  EXPECT_EQ(*format->render(inputs), "plain");
  inputs.tools = Json::array();
  EXPECT_EQ(*format->render(inputs), "plain");
  inputs.tools.push_back({{"type", "function"}});
  EXPECT_EQ(*format->render(inputs), "tools 1");
}

TEST_F(ChatFormatTest, SaysWhatIsMissingOrWrong) {
  EXPECT_EQ(ChatFormat::load(dir_).status().code(), StatusCode::kNotFound);
  EXPECT_NE(ChatFormat::load(dir_).status().message().find("--template"), std::string::npos);
  const auto expect = [&](const char* config, const char* named) {
    write("tokenizer_config.json", config);
    const Status status = ChatFormat::load(dir_).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << config;
    EXPECT_NE(status.message().find(named), std::string::npos) << status.message();
  };
  expect("{", "tokenizer_config.json");
  expect("[]", "not a mapping");
  expect(R"({"chat_template": 3})", "neither text nor a list");
  expect(R"({"chat_template": [{"name": "x"}]})", "{name, template}");
  expect(R"({"chat_template": [{"name": "x", "template": "y"}]})", "\"default\"");
  expect(R"({"chat_template": "{% if %}"})", "line 1");
}

TEST_F(ChatFormatTest, VariablesAreAMapping) {
  write("chat_template.jinja", "{{ extra }}{{ tools is none }}{{ add_generation_prompt }}");
  auto format = ChatFormat::load(dir_);
  ASSERT_TRUE(format.is_ok());
  TemplateInputs inputs = hello();
  inputs.kwargs["extra"] = "x";
  EXPECT_EQ(*format->render(inputs), "xTrueFalse");
  inputs.kwargs = Json::array({1});
  EXPECT_EQ(format->render(inputs).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn
