// From logits to an id: a pure function of logits, history, parameters and (seed, choice, index).
//
// Random numbers are counter-based (DESIGN section 4.7), so nothing depends on what ran before or beside.
// Order and definitions as in tests/data/oracles/_sampling; XTC after min_p.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/token.h"
#include "engine/request.h"
#include "kernels/backend.h"

namespace cairn {

// Errors: kInvalidArgument naming the field, the value and the range.
Status validate_sampling(const SamplingParams& params, uint32_t vocab_size);

// Uniform in [0, 1) from (seed, choice index, token index, stream): Philox4x32-10 (Salmon et al. 2011).
double counter_uniform(uint64_t seed, uint32_t choice, uint64_t token_index, uint32_t stream);

// Ids that survive, best first, and their probabilities (sum 1).
struct CandidateSet {
  std::vector<TokenId> ids;
  std::vector<float> probs;
};

class Sampler {
 public:
  // `params` must be valid; seed set. `choice`: index among n choices of one prompt.
  Sampler(const SamplingParams& params, uint32_t vocab_size, uint32_t choice);

  // Every id of the prompt, then every generated id, in order.
  void add_prompt(std::span<const TokenId> ids);
  void add_output(TokenId id);

  // `logits` [vocab_size]; not changed. For greedy without penalties or bias `summary.argmax` is the answer.
  TokenId sample(std::span<const float> logits, const LogitSummary& summary);
  CandidateSet candidates(std::span<const float> logits);

 private:
  void apply_bias_and_penalties(std::span<float> logits) const;

  SamplingParams params_;
  uint32_t vocab_size_;
  uint32_t choice_;
  uint64_t n_output_ = 0;
  std::vector<TokenId> prompt_;
  std::vector<TokenId> output_;
  std::vector<float> scratch_;
};

// log softmax of the raw logits at `id`, and the best n, from a row and its summary.
float logprob_of(std::span<const float> logits, const LogitSummary& summary, TokenId id);
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, const LogitSummary& summary, uint32_t n);

}  // namespace cairn
