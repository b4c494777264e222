// From logits to an id: a pure function of logits, history, parameters and (seed, choice, index).
//
// Random numbers are counter-based (DESIGN section 4.7), so nothing depends on what ran before or
// beside. Order and definitions as in tests/data/oracles/_sampling; logit_bias before everything,
// XTC after min_p. Thread: one at a time for each Sampler.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "cache/token.h"
#include "engine/request.h"
#include "kernels/backend.h"

namespace cairn {

// Errors: kInvalidArgument naming the field, the value and the range.
Status validate_sampling(const SamplingParams& params, uint32_t vocab_size);

// Uniform in [0, 1), a multiple of 2^-53, from (seed, choice index, token index, stream).
// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): the key is the
// seed, the counter is (token index low, high, choice, stream), the number is made of output words
// 0 (high) and 1 (low).
double counter_uniform(uint64_t seed, uint32_t choice, uint64_t token_index, uint32_t stream);

// Streams of random numbers inside one token.
inline constexpr uint32_t kDrawStream = 0;
inline constexpr uint32_t kXtcStream = 1;

// Ids that survive, best first (ties: lowest id first), and their probabilities (sum 1).
struct CandidateSet {
  std::vector<TokenId> ids;
  std::vector<float> probs;
};

// How often each id occurs among the last `window` ids (0 = all of them).
class IdWindow {
 public:
  explicit IdWindow(uint32_t window) : window_(window) {}

  void add(TokenId id);

  const std::unordered_map<TokenId, uint32_t>& counts() const { return counts_; }

 private:
  uint32_t window_;
  size_t oldest_ = 0;          // index into ring_ of the next id to leave
  std::vector<TokenId> ring_;  // only with a window
  std::unordered_map<TokenId, uint32_t> counts_;
};

class Sampler {
 public:
  // `params` must be valid; seed set. `choice`: index among n choices of one prompt.
  Sampler(const SamplingParams& params, uint32_t vocab_size, uint32_t choice);

  // Every id of the prompt, then every generated id, in order.
  void add_prompt(std::span<const TokenId> ids);
  void add_output(TokenId id);

  // False when LogitSummary alone decides (greedy without bias and penalties): sample() then takes
  // an empty span, and the row need not be read back from the device.
  bool needs_logits() const { return !is_plain_greedy_; }

  // `logits` [vocab_size]; not changed. NaN counts as minus infinity. When nothing is finite the
  // best id wins, the lowest if all are alike. Cost: O(vocab_size), and a sort of what a cut keeps.
  TokenId sample(std::span<const float> logits, const LogitSummary& summary);
  CandidateSet candidates(std::span<const float> logits);

 private:
  struct Entry {
    float logit = 0;
    TokenId id = 0;
  };

  // Ranks [begin, end) of entries_ in best-first order, and the sum of their weights.
  struct Survivors {
    size_t begin = 0;
    size_t end = 0;
    double total = 0;
  };

  static bool is_better(const Entry& a, const Entry& b);
  bool has_penalties() const;
  void apply_bias_and_penalties(std::span<float> logits) const;
  void load_scratch(std::span<const float> logits);
  Survivors cut();
  void cut_top_p(Survivors& kept);
  void cut_min_p(Survivors& kept) const;
  void cut_xtc(Survivors& kept);
  void sort_front(size_t n);
  double weight(const Entry& entry) const;
  double sum_weights(size_t begin, size_t end) const;

  SamplingParams params_;
  uint32_t vocab_size_;
  uint32_t choice_;
  uint64_t n_output_ = 0;
  bool is_plain_greedy_;
  IdWindow seen_;     // prompt and output, for the repetition penalty
  IdWindow written_;  // output, for presence and frequency
  std::vector<float> scratch_;
  std::vector<Entry> entries_;  // the ids that are left; its first n_sorted_ are final, best first
  size_t n_sorted_ = 0;
  float max_logit_ = 0;
};

// log softmax of the raw logits at `id`, and the best n (ties: lowest id first), from a row and its
// summary. n is cut to the vocabulary. Cost: O(vocab_size * log n) for the list.
float logprob_of(std::span<const float> logits, const LogitSummary& summary, TokenId id);
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits,
                                       const LogitSummary& summary,
                                       uint32_t n);

}  // namespace cairn
