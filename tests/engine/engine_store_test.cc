// The engine with a disk: restart, kill, damage, no_store; and many requests at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine_fixture.h"
#include "engine/sampler.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

EngineSetup with_store(const TempDir& folder) {
  EngineSetup setup = default_setup();
  setup.store = folder.path();
  return setup;
}

GenerationRequest next_turn(const GenerationRequest& request, const Heard& heard) {
  GenerationRequest next = request;
  next.prompt.insert(next.prompt.end(), heard.ids.begin(), heard.ids.end());
  const std::vector<TokenId> question = some_ids(21, 77);
  next.prompt.insert(next.prompt.end(), question.begin(), question.end());
  return next;
}

TEST(EngineStore, ARestartContinuesToTheTokenWithTheSameBits) {
  const TempDir folder;
  const GenerationRequest request = sampled_request(some_ids(300, 1), 50, 3);
  Heard first;
  {
    EngineSetup setup = with_store(folder);
    setup.engine.cache.leaf_delay = std::chrono::hours(1);  // only the flush writes it
    TestEngine test(setup);
    first = test.run(request);
    const FlushReport report =
        test.engine().drain_and_stop(milliseconds(10'000), milliseconds(10'000));
    ASSERT_TRUE(report.status.is_ok()) << report.status.to_string();
    EXPECT_GE(report.n_objects, 1U);  // the leaf; full pages may have gone out before
  }
  const GenerationRequest next = next_turn(request, first);
  TestEngine restarted(with_store(folder));
  const Heard again = restarted.run(request);
  expect_same_answer(again, first);
  EXPECT_GE(again.usage.reuse.disk_tokens, 256U);
  EXPECT_EQ(again.usage.reuse.disk_tokens + again.usage.reuse.device_tokens, 299U);
  EXPECT_EQ(again.usage.computed_tokens, 1U);
  EXPECT_GT(again.usage.restore_ms, 0.0);
  const Heard turn = restarted.run(next);
  EXPECT_EQ(turn.usage.reuse.disk_tokens + turn.usage.reuse.device_tokens, 349U);
  TestEngine empty;
  expect_same_answer(turn, empty.run(next));
}

TEST(EngineStore, AFlushBeforeAKillLosesNothing) {
  const TempDir folder;
  const GenerationRequest request = greedy_request(some_ids(200, 2), 30);
  Heard first;
  {
    TestEngine test(with_store(folder));
    first = test.run(request);
    EXPECT_TRUE(test.flush().status.is_ok());
    test.engine().stop();
  }
  TestEngine restarted(with_store(folder));
  const GenerationRequest next = next_turn(request, first);
  const Heard turn = restarted.run(next);
  EXPECT_GE(turn.usage.reuse.disk_tokens, 192U);
  EXPECT_EQ(turn.usage.reuse.disk_tokens + turn.usage.reuse.device_tokens, 229U);
  TestEngine empty;
  expect_same_answer(turn, empty.run(next));
}

// Killed at once, a store holds anything from nothing to everything; the answer is the same.
TEST(EngineStore, AKillAtAnyTimeLosesOnlyTime) {
  const TempDir folder;
  const GenerationRequest request = greedy_request(some_ids(260, 4), 20);
  TestEngine reference;
  const Heard wanted = reference.run(request);
  for (int round = 0; round < 4; ++round) {
    TestEngine test(with_store(folder));
    const auto recorder = test.submit(request);
    if (round % 2 == 0) {
      expect_same_answer(recorder->wait_ended(), wanted);
    } else {
      recorder->wait_tokens(5);
    }
    test.engine().stop();
  }
  TestEngine last(with_store(folder));
  expect_same_answer(last.run(request), wanted);
}

TEST(EngineStore, DamageIsAMissAndTheAnswerIsRight) {
  const TempDir folder;
  const GenerationRequest request = greedy_request(some_ids(300, 5), 10);
  Heard first;
  {
    TestEngine test(with_store(folder));
    first = test.run(request);
    EXPECT_TRUE(test.flush().status.is_ok());
  }
  int n_spoiled = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (entry.path().extension() != ".run") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(entry.file_size() / 2);
    file.seekg(middle);
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(middle);
    file.put(byte);
    ++n_spoiled;
  }
  ASSERT_GE(n_spoiled, 1);
  TestEngine restarted(with_store(folder));
  const Heard again = restarted.run(request);
  expect_same_answer(again, first);
  EXPECT_LT(again.usage.reuse.disk_tokens, 299U);
  EXPECT_EQ(
      again.usage.reuse.disk_tokens + again.usage.reuse.device_tokens + again.usage.computed_tokens,
      300U);
  EXPECT_GE(restarted.stats().cache.quarantined, 1U);
}

TEST(EngineStore, NoStoreLeavesNothingOnDisk) {
  const TempDir folder;
  {
    TestEngine test(with_store(folder));
    GenerationRequest request = greedy_request(some_ids(200, 6), 10);
    request.no_store = true;
    test.run(request);
    EXPECT_TRUE(test.flush().status.is_ok());
    EXPECT_EQ(test.stats().cache.objects_written, 0U);
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    EXPECT_NE(entry.path().extension(), ".run");
    EXPECT_NE(entry.path().extension(), ".leaf");
  }
}

TEST(EngineStore, NoStoreLeavesNothingInMemoryForOthers) {
  TestEngine test;
  GenerationRequest request = greedy_request(some_ids(200, 6), 10);
  request.no_store = true;
  const Heard first = test.run(request);
  const Heard second = test.run(request);
  expect_same_answer(first, second);
  EXPECT_EQ(second.usage.computed_tokens, 200U);
  EXPECT_EQ(test.stats().cache.nodes, 0U);
}

TEST(EngineStore, NamespacesNeverShareAndFindTheirCacheAgain) {
  const TempDir folder;
  GenerationRequest request = greedy_request(some_ids(200, 6), 10);
  Heard answer;
  {
    TestEngine test(with_store(folder));
    for (const char* name : {"", "a", "b"}) {
      request.key_namespace = name;
      answer = test.run(request);
      EXPECT_EQ(answer.usage.computed_tokens, 200U) << name;
      EXPECT_EQ(test.run(request).usage.computed_tokens, 1U) << name;
    }
    EXPECT_TRUE(test.flush().status.is_ok());
  }
  TestEngine restarted(with_store(folder));
  request.key_namespace = "c";
  EXPECT_EQ(restarted.run(request).usage.computed_tokens, 200U);
  request.key_namespace = "a";
  const Heard again = restarted.run(request);
  EXPECT_EQ(again.usage.computed_tokens, 1U);
  expect_same_answer(again, answer);
  request.key_namespace = std::string(257, 'x');
  EXPECT_EQ(restarted.engine().submit(request, std::make_shared<Recorder>()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(EngineStore, AStoreThatCannotOpenCostsOnlyTheDisk) {
  const TempDir folder;
  TestEngine owner(with_store(folder));
  EngineSetup setup = default_setup();
  setup.start = false;
  TestEngine second(setup);
  StoreOptions store;
  store.directory = folder.path() + "/file/below";
  std::ofstream(folder.path() + "/file") << "not a folder";
  EXPECT_FALSE(second.engine().attach_disk(posix_file_system(), store).is_ok());
  second.engine().start();
  EXPECT_EQ(second.run(greedy_request(some_ids(20, 1), 3)).ids.size(), 3U);
  const EngineStats stats = second.stats();
  EXPECT_FALSE(stats.cache.disk_enabled);
  EXPECT_FALSE(stats.cache.disk_disabled_reason.empty());
}

// Threads submit, cancel, flush and ask while a small memory evicts, spills and restores. Everybody
// hears one end; who was not cancelled hears the right answer.
TEST(EngineStore, ManyRequestsAtOnce) {
  const TempDir folder;
  constexpr uint32_t kKinds = 6;
  const int n_threads = 3;
  const int n_rounds = kIsSanitized ? 10 : 60;
  std::vector<GenerationRequest> requests;
  for (uint32_t i = 0; i < kKinds; ++i) {
    GenerationRequest request = sampled_request(some_ids(100, i % 2), 12, i);  // two shared fronts
    const std::vector<TokenId> end = some_ids(10 + 30 * i, 20 + i);
    request.prompt.insert(request.prompt.end(), end.begin(), end.end());
    requests.push_back(request);
  }
  std::vector<Heard> wanted;
  {
    TestEngine reference;
    for (const GenerationRequest& request : requests) wanted.push_back(reference.run(request));
  }
  EngineSetup setup = with_store(folder);
  setup.engine.cache.ram_budget_bytes = size_t{32} << 20;
  setup.engine.max_batch = 4;
  setup.n_threads = 2;
  TestEngine test(setup);
  std::atomic<int> n_cancelled = 0;
  const auto client = [&](uint32_t thread_idx) {
    for (int round = 0; round < n_rounds; ++round) {
      const double u = counter_uniform(thread_idx, 0, static_cast<uint64_t>(round), 0);
      const auto kind = static_cast<size_t>(u * kKinds);
      auto recorder = std::make_shared<Recorder>();
      const auto id = test.engine().submit(requests[kind], recorder);
      if (!id.is_ok()) {
        ADD_FAILURE() << id.status().to_string();
        return;
      }
      if (round % 5 == 4) {
        recorder->wait_tokens(static_cast<size_t>(round % 3));
        test.engine().cancel(*id);
      }
      const Heard heard = recorder->wait_ended();
      EXPECT_EQ(heard.n_ended, 1);
      if (heard.reason == FinishReason::kCancelled) {
        ++n_cancelled;
        continue;
      }
      expect_same_answer(heard, wanted[kind]);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (uint32_t i = 0; i < static_cast<uint32_t>(n_threads); ++i) threads.emplace_back(client, i);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(test.flush().status.is_ok());
      EXPECT_LE(test.stats().running, 4U);
    }
  }
  const EngineStats stats = test.stats();
  EXPECT_EQ(stats.requests_finished + stats.requests_cancelled,
            static_cast<uint64_t>(n_threads * n_rounds));
  EXPECT_EQ(stats.requests_cancelled, static_cast<uint64_t>(n_cancelled.load()));
  EXPECT_EQ(stats.running + stats.waiting, 0U);
  EXPECT_TRUE(
      test.engine().drain_and_stop(milliseconds(10'000), milliseconds(10'000)).status.is_ok());
}

}  // namespace
}  // namespace cairn
