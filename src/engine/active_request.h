// One request on its way through the engine: queued, begun, prefilling, decoding.
//
// Where it is follows from who owns it (EngineLoop's queue or begun list, a runner's prefill place
// or decode list). Made by the submitting thread, then the engine thread's only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "store/tiered_cache.h"

namespace cairn {

using TimePoint = std::chrono::steady_clock::time_point;

double ms_between(TimePoint begin, TimePoint end);  // never negative

struct ActiveRequest {
  uint64_t id = 0;
  GenerationRequest request;  // seed set
  std::shared_ptr<RequestObserver> observer;
  uint32_t max_new_tokens = 0;  // after the context's end was taken into account

  TimePoint submitted_at{};
  TimePoint started_at{};      // first prefill step
  TimePoint first_token_at{};  // end of prefill
  bool is_announced = false;   // on_started was sent
  bool has_started = false;
  bool has_prefilled = false;
  bool began_again = false;  // its prefix was looked up a second time before it started

  std::unique_ptr<CacheSequence> sequence;  // null while queued
  uint32_t root_index = 0;                  // of the sequence
  std::optional<Sampler> sampler;           // from its start on

  TokenId fed_token = 0;   // what a decode step feeds; stays put while the step runs
  TokenId last_token = 0;  // sampled and sent; the next step feeds it
  uint64_t n_generated = 0;
  uint64_t n_computed = 0;   // prompt rows prefilled
  uint64_t n_forwarded = 0;  // all rows prefilled or decoded here
  uint64_t n_reused = 0;     // rows that begin() or adopt() gave
  std::vector<GeneratedToken> prompt_logprobs;

  // Set during a step, acted on at its end.
  std::optional<FinishReason> ending;
  Status failure;

  std::span<const TokenId> prompt() const { return request.prompt; }

  bool is_stop_id(TokenId token) const;
  // Whether rows of other requests may stand in for its own: prompt_logprobs needs every row's
  // logits, and max_reuse is a cap that adopting would break.
  bool may_share_later() const;

  // The row count that P1 promises: reused and forwarded, nothing twice.
  void check_rows() const {
    CAIRN_DCHECK(sequence->n_rows() == n_reused + n_forwarded,
                 "rows written differ from rows reused and forwarded");
  }

  RequestUsage usage(TimePoint now) const;
};

}  // namespace cairn
