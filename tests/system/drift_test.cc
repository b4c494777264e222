// What clients do to their histories: everything up to the first real difference is reused, the
// reason is told, and no reply tells what the cache held.
//
// The test knows the exact ids of every prompt and reply (checked against prompt_ids_hash), so it
// knows to the token what a right cache reuses, and asks a server with an empty store for the same
// ids.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

#include "cache/key.h"
#include "system/program.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

using IdList = std::vector<TokenId>;

size_t n_shared(const IdList& a, const IdList& b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first -
      a.begin());
}

struct Sampling {
  double temperature = 0;
  int seed = 1;
  int max_tokens = 24;
};

class DriftTest : public ::testing::Test {
 protected:
  struct Turn {
    std::string text;
    Json miss;
    size_t cached = 0;
    size_t n_prompt = 0;
    size_t anchored = 0;
  };

  DriftTest() { start(); }

  void start() {
    server_ = std::make_unique<ServerProcess>(
        Words{"--model", "demo", "--store", folder_.file("store"), "--restore", "always"});
  }

  // Everything is durable, then the power fails.
  void restart() {
    EXPECT_EQ(server_->post("/v1/cache/flush", Json::object()).status, 200);
    server_->kill_now();
    start();
  }

  static Json said(const std::string& role, const std::string& text) {
    return {{"role", role}, {"content", text}};
  }

  std::string rendered(const Json& messages, const Json& tools) const {
    TemplateInputs inputs;
    inputs.messages = messages;
    inputs.tools = tools;
    inputs.add_generation_prompt = true;
    return chat_.render(inputs).value();
  }

  // As an empty mind would do it: the longest known text, then the tokenizer.
  IdList ids_of(const std::string& text, size_t* n_anchored) const {
    IdList ids;
    size_t n_text = 0;
    for (const auto& [known, known_ids] : texts_) {
      if (known.size() <= n_text || !text.starts_with(known)) continue;
      n_text = known.size();
      ids = known_ids;
    }
    *n_anchored = ids.size();
    const IdList rest = tokenizer_->encode(text.substr(n_text), false);
    ids.insert(ids.end(), rest.begin(), rest.end());
    return ids;
  }

  size_t expected_reuse(const IdList& prompt) const {
    size_t n = 0;
    for (const IdList& timeline : computed_) n = std::max(n, n_shared(timeline, prompt));
    return std::min(n, prompt.size() - 1);
  }

  // Sends the messages and checks all that can be known about the answer.
  Turn ask(const Json& messages, const Sampling& sampling = {}, const Json& tools = nullptr) {
    const std::string text = rendered(messages, tools);
    Turn turn;
    const IdList prompt = ids_of(text, &turn.anchored);
    Json body = {{"messages", messages},
                 {"temperature", sampling.temperature},
                 {"seed", sampling.seed},
                 {"max_tokens", sampling.max_tokens},
                 {"logprobs", true}};
    if (!tools.is_null()) body["tools"] = tools;
    const HttpReply explained = server_->post("/v1/cache/explain", body);
    EXPECT_EQ(explained.status, 200) << explained.body;
    const HttpReply reply = server_->post("/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    const Json answer = reply.json();
    const Json& usage = answer.at("usage");
    turn.text = answer.at("choices")[0].at("message").at("content").get<std::string>();
    turn.cached = usage.at("prompt_tokens_details").at("cached_tokens").get<size_t>();
    turn.n_prompt = prompt.size();
    turn.miss = usage.at("cairn").at("miss");
    EXPECT_EQ(usage.at("cairn").at("prompt_ids_hash"), prompt_ids_hash(prompt));
    EXPECT_EQ(usage.at("cairn").at("anchored_tokens"), turn.anchored);
    EXPECT_EQ(turn.cached, expected_reuse(prompt)) << text;
    EXPECT_EQ(explained.json().at("cached_tokens"), turn.cached);
    EXPECT_EQ(explained.json().at("miss").at("reason"), turn.miss.at("reason"));
    explained_ = explained.json().at("miss");
    expect_right(prompt, sampling, turn.text);
    learn(text, prompt, answer.at("choices")[0]);
    return turn;
  }

  // The reply of a server with an empty store to the same ids.
  void expect_right(const IdList& prompt, const Sampling& sampling, const std::string& text) {
    const ServerProcess empty({"--model", "demo", "--store", "none"});
    const HttpReply reply = empty.post("/v1/completions",
                                       {{"prompt", prompt},
                                        {"temperature", sampling.temperature},
                                        {"seed", sampling.seed},
                                        {"max_tokens", sampling.max_tokens}});
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.json().at("choices")[0].at("text"), text);
  }

  void learn(const std::string& text, const IdList& prompt, const Json& choice) {
    IdList ids = prompt;
    std::string reply;
    for (const Json& token : choice.at("logprobs").at("content")) {
      std::string bytes;
      for (const Json& byte : token.at("bytes")) bytes += static_cast<char>(byte.get<int>());
      const auto id = tokenizer_->find_token(bytes);
      ASSERT_TRUE(id.has_value()) << dump_json(token);
      ids.push_back(*id);
      reply += bytes;
    }
    // The last id of a reply that was cut is never fed back.
    const bool is_cut = choice.at("finish_reason") == "length";
    computed_.emplace_back(ids.begin(), ids.end() - (is_cut ? 1 : 0));
    ids.push_back(*tokenizer_->find_token("<|im_end|>"));
    texts_[text + reply + "<|im_end|>"] = ids;
  }

  std::string cause() const { return explained_.value("cause", "none"); }

  const TempFolder folder_;
  std::shared_ptr<const Tokenizer> tokenizer_ = Tokenizer::load(demo_folder()).value();
  ChatFormat chat_ = ChatFormat::load(demo_folder()).value();
  std::unique_ptr<ServerProcess> server_;
  std::map<std::string, IdList> texts_;
  std::vector<IdList> computed_;
  Json explained_;
};

std::string long_rules(const std::string& head) {
  std::string text = head;
  for (int i = 0; i < 30; ++i) text += " Rule " + std::to_string(i) + ": be brief and kind.";
  return text;
}

TEST_F(DriftTest, AppendingReusesTheWholeConversation) {
  Json messages = Json::array({said("system", long_rules("You help.")), said("user", "Hello!")});
  for (int turn = 0; turn < 3; ++turn) {
    const Turn answer = ask(messages);
    EXPECT_THAT(answer.miss.at("reason").get<std::string>(), ::testing::AnyOf("empty", "ended"));
    EXPECT_GE(answer.cached, turn > 0 ? 200U : 0U);
    messages.push_back(said("assistant", answer.text));
    messages.push_back(said("user", "What is " + std::to_string(turn) + " plus 4?"));
    if (turn == 1) restart();
  }
}

TEST_F(DriftTest, AReplyThatTokenisesOtherwiseIsReusedAndSoAfterARestart) {
  Json messages = Json::array({said("user", "Tell me about Paris.")});
  bool differs = false;
  for (int seed = 0; seed < 5; ++seed) {
    const Turn answer = ask(messages, {.temperature = 2.5, .seed = 40 + seed});
    const auto known = std::find_if(texts_.begin(), texts_.end(), [&](const auto& text) {
      return text.first.find(answer.text) != std::string::npos &&
             tokenizer_->encode(text.first, false) != text.second;
    });
    differs = differs || known != texts_.end();
    messages.push_back(said("assistant", answer.text));
    messages.push_back(said("user", "Go on."));
    if (seed == 2) restart();
  }
  EXPECT_TRUE(differs) << "no reply of this test tokenises to anything but itself";
}

TEST_F(DriftTest, WithAnchorsOffTheTextAloneCounts) {
  const Json first = Json::array({said("user", "Tell me about Paris.")});
  const Turn answer = ask(first, {.temperature = 2.5, .seed = 40});
  Json messages = first;
  messages.push_back(said("assistant", answer.text));
  messages.push_back(said("user", "Go on."));
  const Json body = {{"messages", messages},
                     {"temperature", 0},
                     {"max_tokens", 24},
                     {"cairn", {{"anchors", false}}}};
  const ServerProcess empty({"--model", "demo", "--store", "none"});
  const Json here = server_->post("/v1/chat/completions", body).json();
  const Json there = empty.post("/v1/chat/completions", body).json();
  EXPECT_EQ(here.at("choices"), there.at("choices"));
  EXPECT_EQ(here.at("usage").at("cairn").at("anchored_tokens"), 0);
  EXPECT_EQ(here.at("usage").at("cairn").at("prompt_ids_hash"),
            there.at("usage").at("cairn").at("prompt_ids_hash"));
}

TEST_F(DriftTest, ReasoningThatDoesNotComeBack) {
  Json messages = Json::array({said("user", "Hello!"),
                               said("assistant", "<think>\nA greeting.\n</think>\n\nHi there."),
                               said("user", "Who are you?")});
  ask(messages);
  messages[1]["content"] = "Hi there.";
  const Turn answer = ask(messages);
  EXPECT_EQ(answer.miss.at("reason"), "diverged");
  EXPECT_EQ(cause(), "reasoning_dropped");
  EXPECT_GT(answer.cached, 4U);
}

TEST_F(DriftTest, ToolsInAnotherOrder) {
  const auto tool = [](const std::string& name) {
    return Json{{"type", "function"},
                {"function",
                 {{"name", name},
                  {"description", "Does what " + name + " does."},
                  {"parameters", {{"type", "object"}, {"properties", Json::object()}}}}}};
  };
  const Json messages = Json::array({said("user", "What's the date today?")});
  ask(messages, {}, Json::array({tool("current_date"), tool("list_files"), tool("send_mail")}));
  ask(messages, {}, Json::array({tool("list_files"), tool("current_date"), tool("send_mail")}));
  EXPECT_EQ(cause(), "tools_reordered");
}

TEST_F(DriftTest, AClockAtTheHead) {
  const auto at = [](const std::string& time) {
    return Json::array(
        {said("system", long_rules("You help. It is " + time + " now.")), said("user", "Hello!")});
  };
  ask(at("2026-12-01 09:15:03"));
  const Turn answer = ask(at("2026-12-01 09:16:41"));
  EXPECT_EQ(answer.miss.at("reason"), "diverged");
  EXPECT_EQ(answer.miss.at("at").at("message"), 0);
  EXPECT_EQ(answer.miss.at("cause"), "clock");
  EXPECT_THAT(answer.miss.at("advice").get<std::string>(), ::testing::HasSubstr("messages[0]"));
  EXPECT_LT(answer.cached, 40U);
}

TEST_F(DriftTest, AnEarlyEdit) {
  Json messages = Json::array({said("system", "You help."),
                               said("user", "My name is Otto and I live in Ghent."),
                               said("assistant", "I see."),
                               said("user", "What is my name?")});
  ask(messages);
  messages[1]["content"] = "My name is Otto and I live in Turin.";
  const Turn answer = ask(messages);
  EXPECT_EQ(answer.miss.at("at").at("message"), 1);
  EXPECT_EQ(cause(), "edited_message");
  EXPECT_THAT(answer.miss.at("given").get<std::string>(), ::testing::HasSubstr("Turin"));
  EXPECT_THAT(answer.miss.at("known").get<std::string>(), ::testing::HasSubstr("Ghent"));
}

TEST_F(DriftTest, RegeneratingAndOtherSamplingReuseThePrompt) {
  const Json messages = Json::array({said("user", "Give me an adventure story.")});
  ask(messages, {.temperature = 1, .seed = 1});
  for (const Sampling& other :
       {Sampling{.temperature = 1, .seed = 2}, Sampling{.temperature = 0}}) {
    const Turn answer = ask(messages, other);
    EXPECT_EQ(answer.miss.at("reason"), "none");
    EXPECT_EQ(answer.cached, answer.n_prompt - 1);
  }
}

TEST_F(DriftTest, AnotherReplyInTheHistory) {
  Json messages = Json::array({said("user", "Hello!")});
  ask(messages);
  messages.push_back(said("assistant", "Zebras are striped."));
  messages.push_back(said("user", "Thanks."));
  const Turn answer = ask(messages);
  EXPECT_EQ(answer.miss.at("reason"), "diverged");
  EXPECT_EQ(cause(), "other_reply");
}

TEST_F(DriftTest, ForksAtEveryTurn) {
  Json messages = Json::array({said("system", "You help.")});
  std::vector<Json> forks;
  for (int turn = 0; turn < 3; ++turn) {
    messages.push_back(said("user", "What is 4 plus " + std::to_string(turn) + "?"));
    const Turn answer = ask(messages);
    messages.push_back(said("assistant", answer.text));
    forks.push_back(messages);
  }
  restart();
  for (Json& fork : forks) {
    fork.push_back(said("user", "Please say who you are."));
    EXPECT_GT(ask(fork).cached, 10U);
  }
}

TEST_F(DriftTest, ForksInTheMiddleOfAPage) {
  const std::string rules = long_rules("You help.");
  ask(Json::array({said("system", rules + " Speak of cats."), said("user", "Hello!")}));
  restart();
  for (const size_t n : {40U, 190U, 333U, 600U}) {
    ask(Json::array(
        {said("system", rules.substr(0, n) + " Speak of dogs."), said("user", "Hello!")}));
  }
}

TEST_F(DriftTest, AReplyThatWasCutGoesOn) {
  Json messages = Json::array({said("user", "Give me an adventure story.")});
  const Turn cut = ask(messages, {.temperature = 1, .seed = 3, .max_tokens = 5});
  messages.push_back(said("assistant", cut.text));
  messages.push_back(said("user", "Go on."));
  const Turn answer = ask(messages);
  EXPECT_EQ(answer.miss.at("reason"), "ended");
  EXPECT_EQ(answer.anchored, cut.n_prompt + 5 + 1);
}

TEST_F(DriftTest, AShortenedHistory) {
  Json messages = Json::array({said("system", "You help."),
                               said("user", "What is the capital of France, which I forgot?"),
                               said("assistant", "Paris."),
                               said("user", "How many letters does the word purple have, please?"),
                               said("assistant", "Six."),
                               said("user", "Thanks.")});
  ask(messages);
  messages.erase(1);
  messages.erase(1);
  const Turn answer = ask(messages);
  EXPECT_EQ(answer.miss.at("reason"), "diverged");
  EXPECT_EQ(cause(), "messages_removed");
  EXPECT_GT(answer.cached, 5U);
}

TEST_F(DriftTest, InterleavedConversations) {
  std::vector<Json> conversations = {Json::array({said("user", "Hello!")}),
                                     Json::array({said("user", "Count down from 12 by 2.")}),
                                     Json::array({said("user", "Please say who you are.")})};
  for (int turn = 0; turn < 3; ++turn) {
    for (Json& messages : conversations) {
      const Turn answer = ask(messages);
      EXPECT_EQ(answer.miss.at("reason") == "ended", turn > 0);
      messages.push_back(said("assistant", answer.text));
      messages.push_back(said("user", "And then?"));
    }
  }
}

}  // namespace
}  // namespace cairn
