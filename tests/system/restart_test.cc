// The served cache over the life and death of processes: kill -9, SIGTERM, stores that cannot be
// used. An answer must never tell what the cache held.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <thread>

#include "system/program.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

constexpr int kPageTokens = 64;

Words serve_words(const std::string& store, const Words& more = {}) {
  Words words = {"--model", "demo", "--store", store, "--restore", "always"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json message(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

// Some pages of text in front of the question.
Json conversation(const std::string& salt) {
  std::string rules = "You are a helpful assistant of group " + salt + ".";
  for (int i = 0; i < 40; ++i) rules += " Rule " + std::to_string(i) + ": be brief and kind.";
  return Json::array({message("system", rules), message("user", "Hello, who are you?")});
}

Json chat_request(const Json& messages, bool is_streamed) {
  Json request = {{"model", "demo"},
                  {"messages", messages},
                  {"max_tokens", 40},
                  {"logprobs", true},
                  {"top_logprobs", 3},
                  {"temperature", is_streamed ? 0.5 : 0.0},
                  {"seed", 7}};
  if (is_streamed) {
    request["stream"] = true;
    request["stream_options"] = {{"include_usage", true}};
  }
  return request;
}

struct Answer {
  std::string text;
  std::string seen;  // text, tokens, logprobs and finish reason as the client got them
  Json usage;

  int cached() const { return usage.at("prompt_tokens_details").at("cached_tokens").get<int>(); }
};

Answer ask(const ServerProcess& server, const Json& request) {
  const HttpReply reply = server.post("/v1/chat/completions", request);
  EXPECT_EQ(reply.status, 200) << reply.body;
  Answer answer;
  if (reply.status != 200) return answer;
  if (!request.contains("stream")) {
    const Json body = reply.json();
    answer.text = body.at("choices")[0].at("message").at("content").get<std::string>();
    answer.seen = dump_json(body.at("choices"));
    answer.usage = body.at("usage");
    return answer;
  }
  EXPECT_THAT(reply.body, HasSubstr("data: [DONE]"));
  Json tokens = Json::array();
  Json reason;
  for (const Json& event : reply.events()) {
    if (event.contains("usage") && event["usage"].is_object()) answer.usage = event["usage"];
    for (const Json& choice : event.at("choices")) {
      const Json& delta = choice.at("delta");
      if (delta.contains("content") && delta["content"].is_string())
        answer.text += delta["content"].get<std::string>();
      if (choice.contains("logprobs") && choice["logprobs"].is_object()) {
        for (const Json& token : choice["logprobs"].at("content")) tokens.push_back(token);
      }
      if (choice.contains("finish_reason") && choice["finish_reason"].is_string())
        reason = choice["finish_reason"];
    }
  }
  EXPECT_FALSE(tokens.empty());
  answer.seen = answer.text + dump_json(tokens) + dump_json(reason);
  return answer;
}

Json next_turn(Json messages, const Answer& answer) {
  messages.push_back(message("assistant", answer.text));
  messages.push_back(message("user", "Cool, thanks."));
  return messages;
}

TEST(Restart, KillNineLosesLessThanAPageAndChangesNothing) {
  const TempFolder folder;
  ServerProcess never_stopped(serve_words(folder.file("a")));
  auto killed = std::make_unique<ServerProcess>(serve_words(folder.file("b")));
  std::vector<Json> second;
  std::vector<int> shared;
  for (const bool is_streamed : {false, true}) {
    const Json messages = conversation(is_streamed ? "streams" : "plain");
    const Answer first = ask(*killed, chat_request(messages, is_streamed));
    EXPECT_EQ(ask(never_stopped, chat_request(messages, is_streamed)).seen, first.seen);
    second.push_back(chat_request(next_turn(messages, first), is_streamed));
    // All of the first turn is in the second turn's prompt, the end token perhaps not computed.
    shared.push_back(first.usage.at("total_tokens").get<int>() - 1);
  }
  std::this_thread::sleep_for(std::chrono::seconds(2));  // what the promise says
  killed->kill_now();
  killed = std::make_unique<ServerProcess>(serve_words(folder.file("b")));
  ServerProcess empty(serve_words(folder.file("c")));
  for (size_t i = 0; i < second.size(); ++i) {
    const Answer restored = ask(*killed, second[i]);
    const Answer remembered = ask(never_stopped, second[i]);
    const Answer computed = ask(empty, second[i]);
    EXPECT_GT(shared[i], 3 * kPageTokens);
    EXPECT_GT(restored.cached(), shared[i] - kPageTokens);
    EXPECT_GT(restored.usage.at("cairn").at("tokens").at("disk").get<int>(), 0);
    EXPECT_GE(remembered.cached(), shared[i] - 1);
    EXPECT_LT(computed.cached(), kPageTokens);  // two conversations share the first words alone
    EXPECT_EQ(restored.seen, computed.seen);
    EXPECT_EQ(remembered.seen, computed.seen);
  }
}

TEST(Restart, SigtermFlushesWhatWouldHaveWaited) {
  const TempFolder folder;
  const Json messages = conversation("terminated");
  ServerProcess first(serve_words(folder.file("s"), {"--leaf-delay", "1h"}));
  const Answer turn = ask(first, chat_request(messages, false));
  first.send_signal(SIGTERM);
  EXPECT_EQ(first.wait_ended(), 0) << first.log();
  ServerProcess second(serve_words(folder.file("s")));
  const Answer next = ask(second, chat_request(next_turn(messages, turn), false));
  EXPECT_GE(next.cached(), turn.usage.at("total_tokens").get<int>() - 1);
}

TEST(Restart, SigtermLetsAStreamEnd) {
  const TempFolder folder;
  ServerProcess server(serve_words(folder.file("s")));
  Json request = chat_request(conversation("draining"), true);
  const std::string wanted = ask(server, request).seen;
  const int fd = server.post_only("/v1/chat/completions", request);
  char first = 0;
  ASSERT_EQ(::recv(fd, &first, 1, MSG_PEEK), 1);  // it is being answered
  server.send_signal(SIGTERM);
  const HttpReply reply = ServerProcess::read_reply(fd);
  EXPECT_THAT(reply.body, HasSubstr("data: [DONE]"));
  EXPECT_EQ(server.wait_ended(), 0) << server.log();
  EXPECT_FALSE(wanted.empty());
}

// Streams, kill -9 at any moment, restart: the store stays sound and answers stay the same.
void kill_again_and_again(int n_rounds, uint32_t seed) {
  std::mt19937 random(seed);
  const TempFolder folder;
  const std::string store = folder.file("s");
  std::vector<Json> requests;
  std::vector<std::string> wanted;
  {
    ServerProcess reference(serve_words("none"));
    for (int i = 0; i < 4; ++i) {
      requests.push_back(chat_request(conversation(std::to_string(i)), true));
      wanted.push_back(ask(reference, requests.back()).seen);
    }
  }
  int n_disk_tokens = 0;
  for (int round = 0; round < n_rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round) + ", seed " + std::to_string(seed));
    ServerProcess server(serve_words(store, {"--leaf-delay", "20ms"}));
    const size_t checked = random() % requests.size();
    const Answer answer = ask(server, requests[checked]);
    ASSERT_EQ(answer.seen, wanted[checked]);
    n_disk_tokens += answer.usage.at("cairn").at("tokens").at("disk").get<int>();
    std::vector<int> streams;
    for (int i = 0; i < 3; ++i) {
      Json request = requests[random() % requests.size()];
      request["messages"].push_back(message("assistant", "Round " + std::to_string(random())));
      request["messages"].push_back(message("user", "Go on."));
      streams.push_back(server.post_only("/v1/chat/completions", request));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 200));
    server.kill_now();
    for (const int fd : streams) ::close(fd);
  }
  EXPECT_GT(n_disk_tokens, 0);
  const Json verified = run_json({"cache", "verify", "--store", store, "--json"});
  EXPECT_EQ(verified.at("bad"), 0) << dump_json(verified);
  EXPECT_GT(verified.at("ok").get<int>(), 0);
}

TEST(Restart, KillNineInTheMiddleOfStreams) {
  kill_again_and_again(10, 20);
}

TEST(SoakRestart, KillNineInTheMiddleOfStreams) {
  const char* rounds = std::getenv("CAIRN_SOAK_ROUNDS");
  const auto seed = static_cast<uint32_t>(std::random_device()());
  std::cout << "seed " << seed << "\n";
  kill_again_and_again(rounds != nullptr ? std::atoi(rounds) : 300, seed);
}

// ---- Stores that cannot be used --------------------------------------------------------------

// One warning, the metric, and right answers from memory alone.
void expect_serves_without_store(const ServerProcess& server, const std::string& said) {
  const std::string log = server.log();
  EXPECT_EQ(count_of(log, " warning "), 1U) << log;
  EXPECT_THAT(log, HasSubstr(said));
  EXPECT_THAT(server.get("/metrics").body, HasSubstr("cairn_store_enabled 0"));
  const Json request = chat_request(conversation("memory"), false);
  const Answer first = ask(server, request);
  const Answer second = ask(server, request);
  EXPECT_EQ(first.seen, second.seen);
  EXPECT_GT(second.cached(), 3 * kPageTokens);
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(UnusableStore, OwnedByAnotherServer) {
  const TempFolder folder;
  ServerProcess owner(serve_words(folder.file("s"), {"--leaf-delay", "10ms"}));
  const Answer told = ask(owner, chat_request(conversation("memory"), false));
  EXPECT_EQ(owner.post("/v1/cache/flush", Json::object()).json().at("durable"), true);
  ServerProcess second(serve_words(folder.file("s")));
  expect_serves_without_store(second, folder.file("s"));
  EXPECT_EQ(ask(second, chat_request(conversation("memory"), false)).seen, told.seen);
  EXPECT_THAT(owner.get("/metrics").body, HasSubstr("cairn_store_enabled 1"));

  // Tools that only read work beside the owner.
  const Json stat = run_json({"cache", "stat", "--store", folder.file("s"), "--json"});
  EXPECT_EQ(stat.at("roots")[0].at("model"), "demo");
  EXPECT_GT(stat.at("objects").get<int>(), 0);
  const Json list = run_json({"cache", "ls", "--store", folder.file("s"), "--json"});
  EXPECT_EQ(list.size(), stat.at("objects").get<size_t>());
  EXPECT_EQ(run_json({"cache", "verify", "--store", folder.file("s"), "--json"}).at("ok"),
            stat.at("objects"));
  EXPECT_EQ(ask(owner, chat_request(conversation("memory"), false)).seen, told.seen);
}

TEST(UnusableStore, NotAFolder) {
  const TempFolder folder;
  write_file(folder.file("file"), "x");
  const ServerProcess server(serve_words(folder.file("file") + "/store"));
  expect_serves_without_store(server, folder.file("file"));
}

TEST(UnusableStore, ReadOnly) {
  const TempFolder folder;
  const std::string store = folder.file("s");
  std::filesystem::create_directory(store);
  ASSERT_EQ(::chmod(store.c_str(), 0500), 0);
  // The superuser may write everywhere unless this right is taken away from the program.
  const RunOptions options{.in_child = [] { ::prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0); }};
  const ServerProcess server(serve_words(store), options);
  expect_serves_without_store(server, store);
}

TEST(UnusableStore, FullDiskCostsFutureHitsAlone) {
  const TempFolder folder;
  // No file may grow beyond 8 KiB: the store opens, its objects do not fit.
  const RunOptions options{.in_child = [] {
    const rlimit limit{8192, 8192};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }};
  ServerProcess server(serve_words(folder.file("s"), {"--leaf-delay", "10ms"}), options);
  const Json request = chat_request(conversation("full"), false);
  const Answer first = ask(server, request);
  server.post("/v1/cache/flush", Json::object());
  const Answer second = ask(server, request);
  EXPECT_EQ(first.seen, second.seen);
  EXPECT_GT(second.cached(), 3 * kPageTokens);
  EXPECT_EQ(server.get("/health").status, 200);
  const Json disk = server.get("/v1/cache/stats").json().at("disk");
  EXPECT_GT(disk.at("write_errors").get<int>(), 0) << dump_json(disk);
  EXPECT_EQ(count_of(server.log(), " warning "), 1U) << server.log();
  server.send_signal(SIGTERM);
  EXPECT_EQ(server.wait_ended(), 0);
}

}  // namespace
}  // namespace cairn
