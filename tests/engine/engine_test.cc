// What requests are refused, how they end, and who waits for whom.

#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "cache/page_pool.h"
#include "engine/engine_fixture.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// --- ids past the tokenizer's last

TEST(Engine, RowsOfTheHeadWithoutATokenAreNeitherDrawnNorCounted) {
  const std::vector<TokenId> prompt = some_ids(20, 3, 100);
  TestEngine whole;
  GenerationRequest request = greedy_request(prompt, 1);
  request.top_logprobs = 20;
  const Heard all = whole.run(request);
  // The best id of the whole head is beyond the limit: the best below it wins, and what was taken
  // away is missing from the sum of probabilities.
  EngineSetup setup = default_setup();
  setup.n_ids = all.ids.at(0);
  ASSERT_GT(setup.n_ids, 100U);
  TestEngine cut(setup);
  const Heard heard = cut.run(request);
  EXPECT_LT(heard.ids.at(0), setup.n_ids);
  double total = 0;
  for (const TokenLogprob& top : heard.tokens.at(0).top) {
    EXPECT_LT(top.id, setup.n_ids);
    total += std::exp(static_cast<double>(top.logprob));
  }
  EXPECT_LE(total, 1.0 + 1e-5);
  const auto kept = std::find_if(
      all.tokens.at(0).top.begin(), all.tokens.at(0).top.end(), [&](const TokenLogprob& top) {
        return top.id == heard.ids.at(0);
      });
  ASSERT_NE(kept, all.tokens.at(0).top.end());
  EXPECT_GT(heard.logprobs.at(0), kept->logprob);
  const auto refused = std::make_shared<Recorder>();
  const auto id = cut.engine().submit(greedy_request({1, setup.n_ids}, 1), refused);
  EXPECT_THAT(id.status().message(), HasSubstr("prompt token 1 is id"));
}

// --- refused at once

TEST(Engine, RefusesWhatCannotRun) {
  EngineSetup setup = default_setup();
  setup.context_tokens = 100;
  TestEngine test(setup);
  const auto refusal = [&](const GenerationRequest& request) {
    auto recorder = std::make_shared<Recorder>();
    const auto id = test.engine().submit(request, recorder);
    EXPECT_FALSE(id.is_ok());
    EXPECT_FALSE(recorder->has_ended());  // the return value is the whole answer
    return id.status();
  };
  EXPECT_THAT(refusal(greedy_request({}, 1)).message(), HasSubstr("no tokens"));
  EXPECT_THAT(refusal(greedy_request({1, 2, 320}, 1)).message(),
              HasSubstr("prompt token 2 is id 320; this model has ids 0 to 319"));
  EXPECT_THAT(refusal(greedy_request(some_ids(100, 1), 1)).message(),
              AllOf(HasSubstr("has 100 tokens"), HasSubstr("holds 100")));
  GenerationRequest request = greedy_request({1}, 1);
  request.top_logprobs = 21;
  EXPECT_THAT(refusal(request).message(), HasSubstr("top_logprobs is 21"));
  request = greedy_request({1}, 1);
  request.sampling.top_p = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal(request).message(), HasSubstr("top_p is nan"));
  request = greedy_request({1}, 1);
  request.model = 1;
  EXPECT_THAT(refusal(request).message(), HasSubstr("no model has index 1; 1 are loaded"));
  EXPECT_EQ(refusal(request).code(), StatusCode::kInvalidArgument);
}

TEST(Engine, RefusesMoreThanTheQueueHolds) {
  EngineSetup setup = default_setup();
  setup.engine.max_waiting = 2;
  setup.start = false;
  TestEngine test(setup);
  const auto first = test.submit(greedy_request({1, 2, 3}, 1));
  const auto second = test.submit(greedy_request({1, 2, 4}, 1));
  auto third = std::make_shared<Recorder>();
  const auto id = test.engine().submit(greedy_request({1, 2, 5}, 1), third);
  EXPECT_EQ(id.status().code(), StatusCode::kOverloaded);
  EXPECT_THAT(id.status().message(), HasSubstr("the queue holds 2"));
  test.engine().start();
  EXPECT_EQ(first->wait_ended().reason, FinishReason::kLength);
  EXPECT_EQ(second->wait_ended().reason, FinishReason::kLength);
  EXPECT_TRUE(test.engine().submit(greedy_request({1, 2, 5}, 1), third).is_ok());
  third->wait_ended();
}

// The smallest memory there is: one chunk of 32 MiB.
EngineSetup one_chunk_of_memory() {
  EngineSetup setup = default_setup();
  setup.engine.cache.ram_budget_bytes = PagePool::kChunkBytes;
  setup.context_tokens = 1'000'000;
  return setup;
}

uint32_t rows_in_one_chunk(const Engine& engine) {
  const CacheGeometry geometry = engine.model(0).spec().cache_geometry(RowEncoding::kBf16);
  return static_cast<uint32_t>(PagePool::kChunkBytes / geometry.page_bytes() * kPageTokens);
}

TEST(Engine, FailsWhatCanNeverFitWithBothNumbers) {
  TestEngine test(one_chunk_of_memory());
  const uint32_t n_rows = rows_in_one_chunk(test.engine());
  const Heard heard = test.submit(greedy_request(some_ids(100, 1), n_rows))->wait_ended();
  ASSERT_TRUE(heard.failure.has_value());
  EXPECT_EQ(heard.failure->code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(heard.failure->message(),
              AllOf(HasSubstr(std::to_string(n_rows + 100)), HasSubstr(std::to_string(n_rows))));
  EXPECT_EQ(heard.n_started, 0);
  // The next one is none the worse.
  EXPECT_EQ(test.run(greedy_request(some_ids(100, 1), 2)).ids.size(), 2U);
}

TEST(Engine, WaitsForRoom) {
  EngineSetup setup = one_chunk_of_memory();
  setup.start = false;
  TestEngine test(setup);
  // Each reserves more than half of the memory, so they run one after another, in order.
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (uint32_t i = 0; i < 3; ++i) {
    GenerationRequest request =
        greedy_request(some_ids(20, i), rows_in_one_chunk(test.engine()) / 5 * 3);
    for (TokenId id = 0; id < kTinyVocab; ++id) request.stop_ids.push_back(id);  // any ends it
    recorders.push_back(test.submit(request));
  }
  test.engine().start();
  for (const auto& recorder : recorders) {
    EXPECT_EQ(recorder->wait_ended().reason, FinishReason::kStop);
  }
}

// --- how a reply ends

TEST(Engine, StopIdsEndTheReplyAndCount) {
  TestEngine test;
  GenerationRequest request = greedy_request(some_ids(40, 3), 12);
  const Heard free_run = test.run(request);
  ASSERT_EQ(free_run.ids.size(), 12U);
  EXPECT_EQ(free_run.reason, FinishReason::kLength);
  // The first place where its id is new: a stop there cannot act earlier.
  size_t place = 5;
  const auto is_new = [&](size_t i) {
    return std::find(free_run.ids.begin(),
                     free_run.ids.begin() + static_cast<std::ptrdiff_t>(i),
                     free_run.ids[i]) == free_run.ids.begin() + static_cast<std::ptrdiff_t>(i);
  };
  while (place > 0 && !is_new(place)) --place;
  request.stop_ids = {free_run.ids[place]};
  const Heard stopped = test.run(request);
  EXPECT_EQ(stopped.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.ids.size(), place + 1);
  EXPECT_TRUE(stopped.tokens.back().is_stop);
  EXPECT_EQ(stopped.usage.completion_tokens, place + 1);
  request.ignore_stop_ids = true;
  const Heard ignoring = test.run(request);
  expect_same_answer(ignoring, free_run);
  EXPECT_FALSE(ignoring.tokens[place].is_stop);
}

TEST(Engine, TheContextsEndIsALength) {
  EngineSetup setup = default_setup();
  setup.context_tokens = 50;
  TestEngine test(setup);
  EXPECT_EQ(test.run(greedy_request(some_ids(47, 1), 1000)).ids.size(), 3U);
  GenerationRequest request = greedy_request(some_ids(49, 2), 1);
  request.max_tokens.reset();
  const Heard heard = test.run(request);
  EXPECT_EQ(heard.ids.size(), 1U);
  EXPECT_EQ(heard.reason, FinishReason::kLength);
}

TEST(Engine, ZeroTokensOnlyPrefill) {
  EngineSetup setup = default_setup();
  setup.context_tokens = 50;
  TestEngine test(setup);
  const Heard heard = test.run(greedy_request(some_ids(50, 1), 0));
  EXPECT_TRUE(heard.ids.empty());
  EXPECT_EQ(heard.reason, FinishReason::kLength);
  EXPECT_EQ(heard.usage.computed_tokens, 50U);
}

TEST(Engine, DrawsAndReportsASeed) {
  TestEngine test;
  GenerationRequest request = sampled_request(some_ids(10, 1), 10, 0);
  request.sampling.seed.reset();
  const Heard first = test.run(request);
  const Heard second = test.run(request);
  EXPECT_NE(first.usage.seed, second.usage.seed);
  request.sampling.seed = first.usage.seed;
  expect_same_answer(test.run(request), first);
  request.choice = 1;
  EXPECT_NE(test.run(request).ids, first.ids);
}

// --- log probabilities

TEST(Engine, PromptLogprobsAreThoseOfTheReply) {
  TestEngine test;
  GenerationRequest request = greedy_request(some_ids(70, 5), 70);
  request.top_logprobs = 3;
  const Heard reply = test.run(request);
  GenerationRequest echo = greedy_request(request.prompt, 0);
  echo.prompt.insert(echo.prompt.end(), reply.ids.begin(), reply.ids.end());
  echo.prompt_logprobs = true;
  echo.top_logprobs = 3;
  const Heard scored = test.run(echo);
  ASSERT_EQ(scored.prompt_logprobs.size(), 140U);
  EXPECT_EQ(scored.prompt_logprobs[0].id, request.prompt[0]);
  EXPECT_EQ(scored.prompt_logprobs[0].logprob, 0.0F);
  for (size_t i = 0; i < 70; ++i) {
    const GeneratedToken& prompt = scored.prompt_logprobs[70 + i];
    EXPECT_EQ(prompt.id, reply.ids[i]);
    EXPECT_EQ(prompt.logprob, reply.logprobs[i]) << i;
    ASSERT_EQ(prompt.top.size(), 3U);
    EXPECT_EQ(prompt.top[0].id, reply.ids[i]);
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(prompt.top[rank].id, reply.tokens[i].top[rank].id);
      EXPECT_EQ(prompt.top[rank].logprob, reply.tokens[i].top[rank].logprob);
    }
  }
  EXPECT_EQ(scored.usage.reuse.device_tokens, 0U);
  EXPECT_EQ(scored.usage.computed_tokens, 140U);
}

// The row is not read back when only the best id is needed; the number must be the same.
TEST(Engine, LogprobsDoNotDependOnWhatElseIsAsked) {
  TestEngine test;
  GenerationRequest request = greedy_request(some_ids(30, 6), 20);
  const Heard plain = test.run(request);
  request.top_logprobs = 1;
  const Heard with_top = test.run(request);
  expect_same_answer(plain, with_top);
  for (size_t i = 0; i < plain.ids.size(); ++i) {
    EXPECT_TRUE(plain.tokens[i].top.empty());
    EXPECT_EQ(with_top.tokens[i].top[0].logprob, plain.logprobs[i]);
    EXPECT_LE(plain.logprobs[i], 0.0F);
  }
}

// --- cancel

TEST(Engine, CancelInPrefillKeepsThePrefix) {
  EngineSetup setup = default_setup();
  setup.engine.fixed_chunk_tokens = 8;
  TestEngine test(setup);
  const std::vector<TokenId> prompt = some_ids(4000, 1);
  // Asked again from its own answer, a question comes once a step: cancel after 25 of 500.
  std::function<void(EngineStats)> watch = [&](const EngineStats& stats) {
    if (stats.prefilled_tokens < 200) {
      test.engine().stats(watch);
    } else {
      test.engine().cancel(1);
    }
  };
  test.engine().stats(watch);
  const auto recorder = test.submit(greedy_request(prompt, 5));
  ASSERT_EQ(test.last_id(), 1U);
  const Heard heard = recorder->wait_ended();
  EXPECT_EQ(heard.reason, FinishReason::kCancelled);
  EXPECT_TRUE(heard.ids.empty());
  const uint64_t n_kept = heard.usage.computed_tokens;
  EXPECT_GE(n_kept, 200U);
  EXPECT_LE(n_kept, 216U);  // the place is free within a step
  EXPECT_EQ(test.stats().running, 0U);
  GenerationRequest front = greedy_request(prompt, 1);
  front.prompt.resize(250);
  EXPECT_EQ(test.run(front).usage.reuse.device_tokens, n_kept);
}

TEST(Engine, CancelFreesADecodingAndAWaitingRequest) {
  EngineSetup setup = default_setup();
  setup.engine.max_batch = 1;
  TestEngine test(setup);
  const auto running = test.submit(greedy_request(some_ids(20, 1), 50'000));
  const uint64_t running_id = test.last_id();
  running->wait_tokens(3);
  const auto waiting = test.submit(greedy_request(some_ids(20, 2), 4000));
  test.engine().cancel(test.last_id());
  EXPECT_EQ(waiting->wait_ended().reason, FinishReason::kCancelled);
  EXPECT_FALSE(running->has_ended());
  test.engine().cancel(running_id);
  test.engine().cancel(running_id);
  test.engine().cancel(987654);  // unknown
  const Heard heard = running->wait_ended();
  EXPECT_EQ(heard.reason, FinishReason::kCancelled);
  EXPECT_GE(heard.ids.size(), 3U);
  EXPECT_EQ(heard.usage.completion_tokens, heard.ids.size());
  EXPECT_EQ(test.run(greedy_request(some_ids(20, 3), 2)).ids.size(), 2U);
  const EngineStats stats = test.stats();
  EXPECT_EQ(stats.requests_cancelled, 2U);
  EXPECT_EQ(stats.requests_finished, 1U);
  EXPECT_EQ(stats.requests_submitted, 3U);
}

// --- streams beside a prefill

TEST(Engine, StreamsGoOnBesideALongPrefill) {
  EngineSetup setup = default_setup();
  setup.engine.fixed_chunk_tokens = 32;
  TestEngine test(setup);
  const auto stream = test.submit(greedy_request(some_ids(20, 1), 50'000));
  stream->wait_tokens(1);
  const uint64_t stream_id = test.last_id();
  const auto prefill = test.submit(greedy_request(some_ids(1600, 2), 1));
  prefill->wait_ended();
  test.engine().cancel(stream_id);
  // 50 steps had a chunk in them, and each of them a row of the stream.
  EXPECT_GE(stream->wait_ended().ids.size(), 50U);
}

// --- shutting down

TEST(Engine, DrainLetsRunningOnesEnd) {
  TestEngine test;
  const auto recorder = test.submit(greedy_request(some_ids(20, 1), 60));
  recorder->wait_started();
  const FlushReport report =
      test.engine().drain_and_stop(milliseconds(30'000), milliseconds(30'000));
  EXPECT_TRUE(report.status.is_ok()) << report.status.to_string();
  EXPECT_TRUE(recorder->has_ended());
  EXPECT_EQ(recorder->wait_ended().ids.size(), 60U);
  auto late = std::make_shared<Recorder>();
  EXPECT_EQ(test.engine().submit(greedy_request({1}, 1), late).status().code(),
            StatusCode::kOverloaded);
}

TEST(Engine, DrainCancelsWhatTakesTooLong) {
  TestEngine test;
  const auto recorder = test.submit(greedy_request(some_ids(20, 1), 50'000));
  recorder->wait_tokens(2);
  const FlushReport report = test.engine().drain_and_stop(milliseconds(1), milliseconds(30'000));
  EXPECT_TRUE(report.status.is_ok()) << report.status.to_string();
  EXPECT_EQ(recorder->wait_ended().reason, FinishReason::kCancelled);
  // Again, and stop() after it: the same answer, at once.
  EXPECT_TRUE(test.engine().drain_and_stop(milliseconds(1), milliseconds(1)).status.is_ok());
  test.engine().stop();
}

TEST(Engine, StopAnswersEverybody) {
  EngineSetup setup = default_setup();
  setup.engine.max_batch = 1;
  TestEngine test(setup);
  const auto running = test.submit(greedy_request(some_ids(20, 1), 50'000));
  running->wait_tokens(1);
  const auto waiting = test.submit(greedy_request(some_ids(20, 2), 10));
  test.engine().stop();
  ASSERT_TRUE(running->has_ended());
  ASSERT_TRUE(waiting->has_ended());
  EXPECT_EQ(running->wait_ended().failure->code(), StatusCode::kCancelled);
  EXPECT_EQ(waiting->wait_ended().failure->code(), StatusCode::kCancelled);
  EXPECT_EQ(test.flush().status.code(), StatusCode::kOverloaded);
  EXPECT_EQ(test.stats().requests_failed, 2U);
  test.engine().cancel(test.last_id());
}

TEST(Engine, StopsWithoutHavingStarted) {
  EngineSetup setup = default_setup();
  setup.start = false;
  TestEngine test(setup);
  const auto recorder = test.submit(greedy_request({1}, 1));
  test.engine().stop();
  ASSERT_TRUE(recorder->has_ended());
  EXPECT_EQ(recorder->wait_ended().failure->code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace cairn
