// Renderings of real chat templates and of the bundled model, byte for byte.
#include <gtest/gtest.h>

#include <ctime>

#include "text/chat_format.h"
#include "text/oracle_files.h"
#include "text/tokenizer.h"

namespace cairn {
namespace {

// The clock of the goldens, 2024-07-26 12:34:56.
constexpr int64_t kClock = 1'721'997'296;

const std::string kDemo = std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo";

TemplateInputs inputs_of(const Json& row) {
  TemplateInputs inputs;
  inputs.messages = row.at("messages");
  inputs.tools = row.value("tools", Json());
  inputs.add_generation_prompt = row.value("add_generation_prompt", true);
  inputs.kwargs = row.value("kwargs", Json::object());
  inputs.now_unix = kClock;
  return inputs;
}

TEST(ChatGoldens, DemoPrompts) {
  auto format = ChatFormat::load(kDemo);
  ASSERT_TRUE(format.is_ok()) << format.status().to_string();
  auto tokenizer = Tokenizer::load(kDemo);
  ASSERT_TRUE(tokenizer.is_ok()) << tokenizer.status().to_string();
  const Json goldens = read_json_or_die(kDemo + "/demo_goldens.json");
  size_t n = 0;
  for (const Json& row : goldens["conversations"]) {
    auto prompt = format->render(inputs_of(row));
    ASSERT_TRUE(prompt.is_ok()) << prompt.status().to_string();
    EXPECT_EQ(*prompt, row["prompt"].get<std::string>());
    EXPECT_EQ((*tokenizer)->encode(*prompt, false), row["prompt_ids"].get<std::vector<TokenId>>());
    ++n;
  }
  EXPECT_GT(n, 0U);
}

class TemplateGoldens : public testing::TestWithParam<const char*> {};

TEST_P(TemplateGoldens, RenderAndRefuse) {
  const std::string name = GetParam();
  const auto oracles = oracle_folder();
  if (!oracles) GTEST_SKIP() << name << ": set CAIRN_ORACLES";
  const Json manifest = read_json_or_die(*oracles + "/templates/manifest.json");
  SpecialTokens tokens;
  for (const auto& [key, text] : manifest.at(name).at("special_tokens").items()) {
    tokens.emplace_back(key, text.get<std::string>());
  }
  auto chat = ChatTemplate::parse(
      read_file_or_die(*oracles + "/templates/" + name + ".jinja"), name, tokens);
  ASSERT_TRUE(chat.is_ok()) << chat.status().to_string();
  size_t n = 0;
  for (const Json& row : read_jsonl_gz_or_die(*oracles + "/data/templates/" + name + ".jsonl.gz")) {
    SCOPED_TRACE(name + " " + row["id"].get<std::string>());
    RenderError error;
    const auto rendered = chat->render(inputs_of(row), &error);
    ++n;
    if (row.contains("rendered")) {
      ASSERT_TRUE(rendered.is_ok()) << rendered.status().to_string();
      EXPECT_EQ(*rendered, row["rendered"].get<std::string>());
      continue;
    }
    EXPECT_FALSE(rendered.is_ok()) << "want " << row["error"] << ", rendered " << *rendered;
    EXPECT_EQ(error.is_raised, row["raised"].get<bool>()) << error.message << " / " << row["error"];
    if (row["raised"].get<bool>()) {
      EXPECT_EQ(error.message, row["error"].get<std::string>());
    }
  }
  EXPECT_EQ(n, 51U);
}

INSTANTIATE_TEST_SUITE_P(Templates,
                         TemplateGoldens,
                         testing::Values("apertus",
                                         "apriel1_5",
                                         "deepseek-r1-distill",
                                         "deepseek-v3_1",
                                         "deepseek-v3_2",
                                         "deepseek_v3",
                                         "devstral-small",
                                         "functionary3_2",
                                         "gemma2",
                                         "gemma3",
                                         "gemma4",
                                         "glm-4_6",
                                         "gpt-oss",
                                         "granite3_3",
                                         "hermes3-tools",
                                         "kimi-k2-thinking",
                                         "lfm2_5",
                                         "llama3",
                                         "llama3_1-plain",
                                         "llama3_1-tools",
                                         "llama3_2-tools",
                                         "ministral-3",
                                         "mirothinker",
                                         "mistral-nemo",
                                         "mistral-small-3_2",
                                         "nemotron3-nano",
                                         "phi3_5",
                                         "qwen2_5",
                                         "qwen3",
                                         "qwen3-coder",
                                         "qwen3_5",
                                         "qwq",
                                         "seed-oss",
                                         "smollm3"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace cairn
