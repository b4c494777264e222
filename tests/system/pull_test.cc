// `cairn pull` and models by name, against a hub in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <future>
#include <thread>

#include "hub/fake_hub.h"
#include "system/program.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

// A hub that has the demo model, and a cache folder of its own for the program.
class PullCommand : public ::testing::Test {
 protected:
  PullCommand() {
    for (const auto& entry : fs::directory_iterator(demo_folder())) {
      if (!entry.is_regular_file()) continue;
      const std::string name = entry.path().filename();
      hub_.put(name, read_file(entry.path()), name.ends_with(".safetensors"));
    }
    options_.environment = {{"HF_ENDPOINT", hub_.url()},
                            {"HF_HOME", folder_.file("hf")},
                            {"HF_TOKEN", ""},
                            {"HF_TOKEN_PATH", ""},
                            {"HF_HUB_CACHE", ""},
                            {"no_proxy", "*"},
                            {"XDG_CACHE_HOME", folder_.file("cache")}};
  }

  Outcome run(const Words& arguments) { return run_cairn(arguments, options_); }

  std::string at(const std::string& name) const {
    return folder_.file("cache/cairn/models/org/demo/" + name);
  }

  TempFolder folder_;
  FakeHub hub_;
  RunOptions options_;
};

TEST_F(PullCommand, WhatWasPulledAnswersByItsName) {
  const Outcome pulled = run({"pull", "org/demo"});
  ASSERT_EQ(pulled.status, 0) << pulled.err;
  EXPECT_THAT(pulled.out, HasSubstr("cairn serve --model org/demo"));
  EXPECT_THAT(pulled.err, HasSubstr("model.safetensors"));
  EXPECT_THAT(pulled.err, Not(HasSubstr("\r")));  // no terminal, no line that is written over
  EXPECT_EQ(read_file(at("model.safetensors")), read_file(demo_folder() + "/model.safetensors"));
  const Words prompt = {"--prompt", "What is the capital of France?", "--store", "none"};
  const auto reply_of = [&](const std::string& model) {
    Words words = {"run", "--model", model, "--temperature", "0"};
    words.insert(words.end(), prompt.begin(), prompt.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_THAT(reply_of("org/demo"), HasSubstr("Paris"));
  EXPECT_EQ(reply_of("org/demo"), reply_of("demo"));
  EXPECT_EQ(run({"inspect", "org/demo"}).status, 0);
  ServerProcess server({"--model", "org/demo"}, options_);
  EXPECT_EQ(server.get("/v1/models").json()["data"][0]["id"], "org/demo");
}

TEST_F(PullCommand, SaysAsJsonWhatItDidAndWhatIsThere) {
  const Json first = run_json({"pull", "org/demo", "--json"}, options_);
  EXPECT_EQ(first["folder"], at("").substr(0, at("").size() - 1));
  EXPECT_EQ(first["commit"], hub_.commit());
  EXPECT_EQ(first["received"], first["bytes"]);
  EXPECT_GE(first["files"].size(), 4U);
  const Json second = run_json({"pull", "org/demo", "--json"}, options_);
  EXPECT_EQ(second["received"], 0);
  for (const Json& file : second["files"]) EXPECT_EQ(file["fetched"], false);
  const Json list = run_json({"pull", "--list", "--json"}, options_);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0]["name"], "org/demo");
  EXPECT_EQ(list[0]["bytes"], first["bytes"]);
  EXPECT_THAT(run({"pull", "--list"}).out, HasSubstr("org/demo"));
}

TEST_F(PullCommand, AnInterruptedPullGoesOnWhereItStopped) {
  // Shared with the child, which writes its id there: it is to be interrupted in the middle.
  auto* const pid = static_cast<std::atomic<pid_t>*>(::mmap(nullptr,
                                                            sizeof(std::atomic<pid_t>),
                                                            PROT_READ | PROT_WRITE,
                                                            MAP_SHARED | MAP_ANONYMOUS,
                                                            -1,
                                                            0));
  ASSERT_NE(pid, MAP_FAILED);
  constexpr size_t kCut = 100'000;
  std::promise<void> is_over;
  std::shared_future<void> over = is_over.get_future().share();
  hub_.intercept([&, over](const HubRequest& request) -> std::optional<HubReply> {
    if (request.target.find("/model.safetensors") == std::string::npos) return std::nullopt;
    HubReply reply = hub_.usual(request);
    reply.cut_after = kCut;
    reply.before_cut = [pid, over] {
      ::kill(pid->load(), SIGINT);
      over.wait();
    };
    return reply;
  });
  RunOptions interrupted = options_;
  interrupted.in_child = [pid] { pid->store(::getpid()); };
  const Outcome stopped = run_cairn({"pull", "org/demo"}, interrupted);
  is_over.set_value();
  EXPECT_EQ(stopped.status, 1);
  EXPECT_THAT(stopped.err, HasSubstr("cairn pull org/demo"));
  EXPECT_EQ(fs::file_size(at("model.safetensors.part")), kCut);
  const Outcome half = run({"run", "--model", "org/demo", "--prompt", "x"});
  EXPECT_EQ(half.status, 1);
  EXPECT_THAT(half.err, HasSubstr("only partly here"));
  EXPECT_THAT(run({"pull", "--list"}).out, HasSubstr("only partly here"));

  hub_.intercept(nullptr);
  hub_.forget_requests();
  EXPECT_EQ(run({"pull", "org/demo"}).status, 0);
  EXPECT_EQ(hub_.file_requests().back().headers.at("range"), "bytes=100000-");
  EXPECT_EQ(read_file(at("model.safetensors")), read_file(demo_folder() + "/model.safetensors"));
  ::munmap(pid, sizeof(std::atomic<pid_t>));
}

TEST_F(PullCommand, TheTokenComesFromItsFileAndIsNeverShown) {
  fs::create_directories(folder_.file("hf"));
  write_file(folder_.file("hf/token"), "hf_secret\n");
  const Outcome outcome = run({"pull", "org/demo"});
  EXPECT_EQ(outcome.status, 0);
  for (const HubRequest& request : hub_.requests()) {
    EXPECT_EQ(request.headers.at("authorization"), "Bearer hf_secret");
  }
  EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("hf_secret")));
  options_.environment["HF_TOKEN"] = "hf_other";
  hub_.forget_requests();
  EXPECT_EQ(run({"pull", "org/demo"}).status, 0);
  EXPECT_EQ(hub_.requests().front().headers.at("authorization"), "Bearer hf_other");
  options_.environment["HF_TOKEN"] = "hf_bad\nX: y";
  EXPECT_THAT(run({"pull", "org/demo"}).err, HasSubstr("control character"));
}

TEST_F(PullCommand, MistakesAreUsageErrorsAndFailuresNameTheWayOut) {
  for (const Words& words : {Words{"pull"},
                             Words{"pull", "demo"},
                             Words{"pull", "../x/y"},
                             Words{"pull", "org/demo", "--list"},
                             Words{"pull", "org/demo", "--quick"}}) {
    EXPECT_EQ(run(words).status, 2) << words.back();
  }
  EXPECT_THAT(run({"pull", "demo"}).err, HasSubstr("ORG/REPO"));
  const Outcome absent = run({"run", "--model", "org/none:Q8_0", "--prompt", "x"});
  EXPECT_EQ(absent.status, 1);
  EXPECT_THAT(absent.err, HasSubstr("cairn pull org/none:Q8_0"));
  const Outcome no_gguf = run({"pull", "org/demo:Q8_0"});
  EXPECT_EQ(no_gguf.status, 1);
  EXPECT_THAT(no_gguf.err, HasSubstr("org/demo has no GGUF file"));
  hub_.intercept([](const HubRequest&) { return HubReply{.status = 401}; });
  const Outcome refused = run({"pull", "org/demo"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("HF_TOKEN"));
  EXPECT_EQ(refused.out, "");
  options_.environment["HF_ENDPOINT"] = "ftp://example.org";
  EXPECT_THAT(run({"pull", "org/demo"}).err, HasSubstr("HF_ENDPOINT"));
}

}  // namespace
}  // namespace cairn
