// P2 through the engine: ids and logprobs, bit for bit, whatever the batch, the chunks, the cache
// and the threads were.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "base/json.h"
#include "engine/engine_fixture.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

Json load_goldens() {
  const auto text =
      read_text_file(posix_file_system(),
                     std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo/demo_goldens.json",
                     1U << 24);
  EXPECT_TRUE(text.is_ok()) << text.status().to_string();
  auto json = parse_json(*text, "demo_goldens.json");
  EXPECT_TRUE(json.is_ok()) << json.status().to_string();
  return std::move(*json);
}

TEST(EngineGoldens, RepliesAreTheReferences) {
  const Json goldens = load_goldens();
  const Json& conversations = goldens["conversations"];
  ASSERT_GE(conversations.size(), 13U);
  EngineSetup setup = default_setup();
  setup.models = {kDemoModel};
  setup.precision = Precision::kF32;
  setup.kv = RowEncoding::kF32;
  TestEngine test(setup);
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (const Json& conversation : conversations) {
    GenerationRequest request =
        greedy_request(conversation["prompt_ids"].get<std::vector<TokenId>>(), 64);
    request.stop_ids = {goldens["eos_token_id"].get<TokenId>()};
    recorders.push_back(test.submit(request));
  }
  for (size_t i = 0; i < recorders.size(); ++i) {
    const Heard heard = recorders[i]->wait_ended();
    auto wanted = conversations[i]["ids"].get<std::vector<TokenId>>();
    const int stop_index = conversations[i]["stop_index"].get<int>();
    if (stop_index >= 0) wanted.resize(static_cast<size_t>(stop_index) + 1);
    EXPECT_EQ(heard.ids, wanted) << conversations[i]["skill"].get<std::string>();
    EXPECT_EQ(heard.reason, stop_index >= 0 ? FinishReason::kStop : FinishReason::kLength);
  }
}

std::vector<GenerationRequest> eight_requests() {
  std::vector<GenerationRequest> requests;
  for (uint32_t i = 0; i < 8; ++i) {
    const size_t n = 5 + 29 * i;  // 5 .. 208: less than a page, edges, several pages
    requests.push_back(i % 2 == 0 ? greedy_request(some_ids(n, i), 24)
                                  : sampled_request(some_ids(n, i), 24, i));
  }
  return requests;
}

std::vector<Heard> run_alone(const std::vector<GenerationRequest>& requests,
                             const EngineSetup& setup = default_setup()) {
  std::vector<Heard> answers;
  TestEngine test(setup);
  for (const GenerationRequest& request : requests) answers.push_back(test.run(request));
  return answers;
}

TEST(EngineSameBits, ABatchOfEightEqualsEachAlone) {
  const std::vector<GenerationRequest> requests = eight_requests();
  EngineSetup setup = default_setup();
  if (!kIsSanitized) setup.models = {kDemoModel};  // bf16 kernels at a head_dim of the field
  const std::vector<Heard> alone = run_alone(requests, setup);
  setup.start = false;
  TestEngine test(setup);
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (const GenerationRequest& request : requests) recorders.push_back(test.submit(request));
  test.engine().start();
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_answer(recorders[i]->wait_ended(), alone[i]);
  }
}

TEST(EngineSameBits, ChunksAndThreadsDoNotMatter) {
  const std::vector<GenerationRequest> requests = eight_requests();
  const std::vector<Heard> alone = run_alone(requests);
  for (const auto& [chunk, n_threads] : {std::pair{1U, 1U}, {7U, 2U}, {64U, 2U}}) {
    EngineSetup setup = default_setup();
    setup.engine.fixed_chunk_tokens = chunk;
    setup.n_threads = n_threads;
    setup.start = false;
    TestEngine test(setup);
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (const GenerationRequest& request : requests) recorders.push_back(test.submit(request));
    test.engine().start();
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "request " << i << " chunk " << chunk);
      expect_same_answer(recorders[i]->wait_ended(), alone[i]);
    }
  }
}

TEST(EngineSameBits, ReuseToTheTokenChangesNothing) {
  TestEngine test;
  const std::vector<TokenId> prompt = some_ids(150, 1);
  const Heard cold = test.run(sampled_request(prompt, 40, 9));
  EXPECT_EQ(cold.usage.computed_tokens, 150U);
  EXPECT_EQ(cold.usage.reuse.device_tokens, 0U);
  const Heard again = test.run(sampled_request(prompt, 40, 9));
  expect_same_answer(again, cold);
  EXPECT_EQ(again.usage.reuse.device_tokens, 149U);  // all but the last
  EXPECT_EQ(again.usage.computed_tokens, 1U);
  EXPECT_EQ(again.usage.prompt_tokens, 150U);

  // The next turn: the reply's rows are there except that of its last id, which was never fed.
  GenerationRequest next = greedy_request(prompt, 10);
  next.prompt.insert(next.prompt.end(), cold.ids.begin(), cold.ids.end());
  const std::vector<TokenId> question = some_ids(30, 2);
  next.prompt.insert(next.prompt.end(), question.begin(), question.end());
  const Heard turn = test.run(next);
  EXPECT_EQ(turn.usage.reuse.device_tokens, 150U + 39U);
  TestEngine empty;
  const Heard reference = empty.run(next);
  EXPECT_EQ(reference.usage.reuse.device_tokens, 0U);
  expect_same_answer(turn, reference);

  // Forks in the middle of pages.
  for (const size_t cut : {17U, 64U, 100U, 128U, 149U}) {
    GenerationRequest fork = sampled_request(prompt, 12, cut);
    fork.prompt.resize(cut);
    const std::vector<TokenId> other = some_ids(20, 100 + static_cast<uint32_t>(cut));
    fork.prompt.insert(fork.prompt.end(), other.begin(), other.end());
    const Heard forked = test.run(fork);
    EXPECT_GE(forked.usage.reuse.device_tokens, cut) << cut;
    expect_same_answer(forked, empty.run(fork));
  }
}

TEST(EngineSameBits, RequestsWithOneFrontComputeItOnce) {
  EngineSetup setup = default_setup();
  setup.start = false;
  setup.engine.max_chunk_tokens = 128;
  TestEngine test(setup);
  const std::vector<TokenId> front = some_ids(640, 1);
  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (uint32_t i = 0; i < 4; ++i) {
    GenerationRequest request = greedy_request(front, 8);
    const std::vector<TokenId> end = some_ids(10, 50 + i);
    request.prompt.insert(request.prompt.end(), end.begin(), end.end());
    requests.push_back(request);
    recorders.push_back(test.submit(request));
  }
  test.engine().start();
  uint64_t n_computed = 0;
  std::vector<Heard> answers;
  for (const auto& recorder : recorders) {
    answers.push_back(recorder->wait_ended());
    n_computed += answers.back().usage.computed_tokens;
    EXPECT_EQ(answers.back().usage.computed_tokens + answers.back().usage.reuse.device_tokens,
              650U);
  }
  EXPECT_EQ(n_computed, 640U + 4 * 10U);
  EXPECT_EQ(test.stats().prefilled_tokens, n_computed);
  for (size_t i = 0; i < requests.size(); ++i) {
    TestEngine alone;
    expect_same_answer(answers[i], alone.run(requests[i]));
  }
}

TEST(EngineSameBits, TwoModelsTakeTurns) {
  EngineSetup setup = default_setup();
  setup.models = {"tests/data/oracles/qwen3", kTinyModel};
  setup.context_tokens = 256;
  setup.start = false;
  TestEngine both(setup);
  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (uint32_t i = 0; i < 4; ++i) {
    GenerationRequest request = sampled_request(some_ids(30 + 20 * i, i), 16, i);
    request.model = i % 2;
    requests.push_back(request);
    recorders.push_back(both.submit(request));
  }
  both.engine().start();
  for (uint32_t i = 0; i < 4; ++i) {
    EngineSetup single = default_setup();
    single.models = {setup.models[i % 2]};
    single.context_tokens = 256;
    TestEngine alone(single);
    requests[i].model = 0;
    expect_same_answer(recorders[i]->wait_ended(), alone.run(requests[i]));
  }
}

}  // namespace
}  // namespace cairn
