#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingParams seeded(uint64_t seed = 7) {
  SamplingParams params;
  params.seed = seed;
  return params;
}

SamplingParams greedy() {
  SamplingParams params = seeded();
  params.temperature = 0;
  return params;
}

// What the kernel computes, without its order of sums.
LogitSummary summarize(const std::vector<float>& logits) {
  LogitSummary summary;
  for (uint32_t id = 1; id < logits.size(); ++id) {
    if (logits[id] > logits[summary.argmax]) summary.argmax = id;
  }
  summary.max = logits[summary.argmax];
  for (const float logit : logits)
    summary.sum_exp += std::exp(static_cast<double>(logit) - static_cast<double>(summary.max));
  return summary;
}

TokenId sample(const SamplingParams& params, const std::vector<float>& logits) {
  Sampler sampler(params, static_cast<uint32_t>(logits.size()), 0);
  return sampler.sample(logits, summarize(logits));
}

std::vector<TokenId> kept(const SamplingParams& params, const std::vector<float>& logits) {
  Sampler sampler(params, static_cast<uint32_t>(logits.size()), 0);
  return sampler.candidates(logits).ids;
}

std::vector<float> log_of(const std::vector<double>& probs) {
  std::vector<float> logits;
  for (const double p : probs) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// --- random numbers

uint64_t bits_of(double uniform) {
  return static_cast<uint64_t>(uniform * 0x1.0p53);
}

// Known answers of Random123 (kat_vectors, philox4x32 10): words 0 and 1, without their last 11
// bits.
TEST(CounterUniform, MatchesThePublishedVectors) {
  EXPECT_EQ(bits_of(counter_uniform(0, 0, 0, 0)), 0x6627e8d5e169c58dULL >> 11);
  EXPECT_EQ(bits_of(counter_uniform(~0ULL, ~0U, ~0ULL, ~0U)), 0x408f276d41c83b0eULL >> 11);
  EXPECT_EQ(bits_of(counter_uniform(
                0x299f31d0a4093822ULL, 0x13198a2eU, 0x85a308d3243f6a88ULL, 0x03707344U)),
            0xd16cfe0994fdccebULL >> 11);
}

TEST(CounterUniform, EveryInputMatters) {
  const double base = counter_uniform(1, 2, 3, 4);
  EXPECT_NE(base, counter_uniform(0, 2, 3, 4));
  EXPECT_NE(base, counter_uniform(1ULL << 40, 2, 3, 4));
  EXPECT_NE(base, counter_uniform(1, 0, 3, 4));
  EXPECT_NE(base, counter_uniform(1, 2, 0, 4));
  EXPECT_NE(base, counter_uniform(1, 2, 3ULL << 33, 4));
  EXPECT_NE(base, counter_uniform(1, 2, 3, 0));
  EXPECT_EQ(base, counter_uniform(1, 2, 3, 4));
}

// --- greedy

TEST(Sampler, GreedyWithoutPenaltiesTakesTheSummary) {
  Sampler sampler(greedy(), 4, 0);
  EXPECT_FALSE(sampler.needs_logits());
  LogitSummary summary;
  summary.argmax = 3;
  EXPECT_EQ(sampler.sample({}, summary), 3U);
}

TEST(Sampler, GreedyTiesGoToTheLowestId) {
  SamplingParams params = greedy();
  params.logit_bias = {{0, -1.0F}};  // forces the way through the logits
  EXPECT_EQ(sample(params, {9, 5, 8, 8, 8}), 0U);
  params.logit_bias = {{0, -2.0F}};
  EXPECT_EQ(sample(params, {9, 5, 8, 8, 8}), 2U);
  EXPECT_THAT(kept(params, {9, 5, 8, 8, 8}), ElementsAre(2U));
}

TEST(Sampler, GreedyIgnoresCuts) {
  SamplingParams params = greedy();
  params.xtc_probability = 1;
  params.xtc_threshold = 0.01F;
  params.top_k = 1;
  EXPECT_EQ(sample(params, log_of({0.3, 0.5, 0.2})), 1U);
}

// --- bias and penalties

TEST(Sampler, BiasComesBeforeTheRepetitionPenalty) {
  SamplingParams params = greedy();
  params.logit_bias = {{1, 3.0F}};
  params.repetition_penalty = 2.0F;
  Sampler sampler(params, 3, 0);
  sampler.add_prompt(std::vector<TokenId>{1});
  // (-1 + 3) / 2 = 1, not -1 * 2 + 3 = 1 for id 1; id 0 stays at 0.9, id 2 at 1.1.
  EXPECT_EQ(sampler.sample(std::vector<float>{0.9F, -1, 1.1F}, {}), 2U);
  EXPECT_EQ(sampler.sample(std::vector<float>{0.9F, -1, 0.95F}, {}), 1U);
  // (-4 + 3) * 2 = -2 would beat -2.5 only because a negative logit is multiplied.
  EXPECT_EQ(sampler.sample(std::vector<float>{-2.5F, -4, -2.1F}, {}), 1U);
  EXPECT_EQ(sampler.sample(std::vector<float>{-2.5F, -4, -1.9F}, {}), 2U);
}

TEST(Sampler, RepetitionCountsAnIdOnce) {
  SamplingParams params = greedy();
  params.repetition_penalty = 2.0F;
  Sampler sampler(params, 2, 0);
  sampler.add_prompt(std::vector<TokenId>{1, 1, 1});
  sampler.add_output(1);
  EXPECT_EQ(sampler.sample(std::vector<float>{4.9F, 10}, {}), 1U);  // 10 / 2, not 10 / 16
  EXPECT_EQ(sampler.sample(std::vector<float>{5.1F, 10}, {}), 0U);
}

TEST(Sampler, RepetitionWindowForgetsTheOldest) {
  SamplingParams params = greedy();
  params.repetition_penalty = 2.0F;
  params.repetition_window = 3;
  Sampler sampler(params, 4, 0);
  sampler.add_prompt(std::vector<TokenId>{1, 0, 0});
  const std::vector<float> logits = {0, 3, 2, 0};
  EXPECT_EQ(sampler.sample(logits, {}), 2U);  // 3 / 2 < 2
  sampler.add_output(3);                      // the window is now 0, 0, 3
  EXPECT_EQ(sampler.sample(logits, {}), 1U);
}

TEST(Sampler, FrequencyCountsAndPresenceDoesNot) {
  SamplingParams params = greedy();
  params.frequency_penalty = 1.0F;
  params.presence_penalty = 0.5F;
  Sampler sampler(params, 2, 0);
  sampler.add_prompt(std::vector<TokenId>{0, 0, 0, 0});  // prompt ids do not count here
  sampler.add_output(0);
  sampler.add_output(0);
  EXPECT_EQ(sampler.sample(std::vector<float>{2.6F, 0}, {}), 0U);  // 2.6 - 2 * 1 - 0.5
  EXPECT_EQ(sampler.sample(std::vector<float>{2.4F, 0}, {}), 1U);
}

TEST(Sampler, PenaltyWindowForgetsTheOldest) {
  SamplingParams params = greedy();
  params.frequency_penalty = 1.0F;
  params.penalty_window = 2;
  Sampler sampler(params, 3, 0);
  for (const TokenId id : {0U, 0U, 0U}) sampler.add_output(id);
  EXPECT_EQ(sampler.sample(std::vector<float>{2.1F, 0, -9}, {}), 0U);  // two of three are counted
  sampler.add_output(2);
  EXPECT_EQ(sampler.sample(std::vector<float>{1.1F, 0, -9}, {}), 0U);
  sampler.add_output(2);
  EXPECT_EQ(sampler.sample(std::vector<float>{0.1F, 0, -9}, {}), 0U);
}

TEST(IdWindow, CountsWhatIsInside) {
  IdWindow window(3);
  for (TokenId id = 0; id < 10; ++id) window.add(id / 2);
  EXPECT_EQ(window.counts(), (std::unordered_map<TokenId, uint32_t>{{3, 1}, {4, 2}}));
}

// --- cuts

TEST(Sampler, TiesAreKeptByLowestId) {
  SamplingParams params = seeded();
  params.top_k = 3;
  EXPECT_THAT(kept(params, {1, 1, 1, 1, 1, 1}), ElementsAre(0U, 1U, 2U));
  EXPECT_THAT(kept(params, {1, 2, 1, 2, 1, 2, 3}), ElementsAre(6U, 1U, 3U));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  SamplingParams params = seeded();
  const std::vector<float> logits = log_of({0.15, 0.5, 0.05, 0.3});
  params.top_p = 0.49F;
  EXPECT_THAT(kept(params, logits), ElementsAre(1U));
  params.top_p = 0.51F;
  EXPECT_THAT(kept(params, logits), ElementsAre(1U, 3U));
  params.top_p = 0.81F;
  EXPECT_THAT(kept(params, logits), ElementsAre(1U, 3U, 0U));
  params.top_p = 1e-30F;
  EXPECT_THAT(kept(params, logits), ElementsAre(1U));
  params.top_p = 1.0F;
  EXPECT_THAT(kept(params, logits), ElementsAre(1U, 3U, 0U, 2U));
}

TEST(Sampler, TopPCountsAfterTopK) {
  SamplingParams params = seeded();
  params.top_k = 2;
  params.top_p = 0.6F;  // 0.5 / 0.8 = 0.625 of what top_k left
  EXPECT_THAT(kept(params, log_of({0.15, 0.5, 0.05, 0.3})), ElementsAre(1U));
}

TEST(Sampler, MinPIsAShareOfTheBest) {
  SamplingParams params = seeded();
  const std::vector<float> logits = log_of({0.15, 0.5, 0.05, 0.3});
  params.min_p = 0.29F;
  EXPECT_THAT(kept(params, logits), ElementsAre(1U, 3U, 0U));
  params.min_p = 0.31F;
  EXPECT_THAT(kept(params, logits), ElementsAre(1U, 3U));
  params.min_p = 1.0F;
  EXPECT_THAT(kept(params, logits), ElementsAre(1U));
}

TEST(Sampler, XtcCutsAllButTheLeastThatReachTheThreshold) {
  SamplingParams params = seeded();
  params.xtc_probability = 1.0F;
  const std::vector<float> logits = log_of({0.15, 0.5, 0.05, 0.3});
  params.xtc_threshold = 0.1F;
  EXPECT_THAT(kept(params, logits), ElementsAre(0U, 2U));
  params.xtc_threshold = 0.2F;
  EXPECT_THAT(kept(params, logits), ElementsAre(3U, 0U, 2U));
  params.xtc_threshold = 0.4F;  // one id alone reaches it: nothing to cut
  EXPECT_THAT(kept(params, logits), ElementsAre(1U, 3U, 0U, 2U));
  params.xtc_threshold = 0.01F;  // all reach it: the least stays
  EXPECT_THAT(kept(params, logits), ElementsAre(2U));
}

TEST(Sampler, XtcActsAsOftenAsAsked) {
  SamplingParams params = seeded();
  params.xtc_probability = 0.25F;
  params.xtc_threshold = 0.2F;
  const std::vector<float> logits = log_of({0.5, 0.5});
  int n_cut = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    params.seed = seed;
    n_cut += kept(params, logits).size() == 1 ? 1 : 0;
  }
  EXPECT_NEAR(n_cut, 1000, 120);  // 4.4 standard deviations; the seeds are fixed
}

TEST(Sampler, NotANumberAndInfinityDoNotBreakIt) {
  SamplingParams params = seeded();
  EXPECT_THAT(kept(params, {kNan, 1, kNan, 0}), ElementsAre(1U, 3U));
  EXPECT_THAT(kept(params, {0, kInf, 5, kInf}), ElementsAre(1U));
  EXPECT_EQ(sample(params, {-kInf, -kInf, -kInf}), 0U);
  EXPECT_EQ(sample(params, {kNan, kNan}), 0U);
  EXPECT_EQ(sample(params, {-kInf, 3, -kInf}), 1U);
  params.temperature = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(sample(params, {3e38F, -3e38F, 2e38F}), 0U);
}

TEST(Sampler, LargeVocabulariesGiveTheSameCutsAsAFullSort) {
  constexpr uint32_t kVocab = 20'000;
  std::vector<float> logits(kVocab);
  for (uint32_t id = 0; id < kVocab; ++id) {
    logits[id] =
        static_cast<float>(4.0 * counter_uniform(99, 0, id, 0));  // flat: cuts keep thousands
  }
  std::vector<TokenId> order(kVocab);
  for (TokenId id = 0; id < kVocab; ++id) order[id] = id;
  std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  double total = 0;
  for (const TokenId id : order) total += std::exp(static_cast<double>(logits[id]));
  double reached = 0;
  size_t n_wanted = 0;
  while (reached < 0.5 * total) reached += std::exp(static_cast<double>(logits[order[n_wanted++]]));

  SamplingParams params = seeded();
  params.top_p = 0.5F;
  const std::vector<TokenId> ids = kept(params, logits);
  ASSERT_EQ(ids.size(), n_wanted);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), order.begin()));
  params.top_p = 1.0F;
  EXPECT_EQ(kept(params, logits), order);
}

// --- draws

TEST(Sampler, DrawsArePureFunctionsOfSeedChoiceAndIndex) {
  std::vector<float> logits(1000);
  for (uint32_t id = 0; id < 1000; ++id) {
    logits[id] = static_cast<float>(counter_uniform(5, 0, id, 0) * 3);
  }
  const auto draw = [&](uint64_t seed, uint32_t choice) {
    Sampler sampler(seeded(seed), 1000, choice);
    std::vector<TokenId> ids;
    for (int i = 0; i < 20; ++i) {
      ids.push_back(sampler.sample(logits, {}));
      sampler.add_output(ids.back());
    }
    return ids;
  };
  EXPECT_EQ(draw(1, 0), draw(1, 0));
  EXPECT_NE(draw(1, 0), draw(2, 0));
  EXPECT_NE(draw(1, 0), draw(1, 1));
  // Asking twice for the same index gives the same id: nothing is consumed.
  Sampler sampler(seeded(1), 1000, 0);
  EXPECT_EQ(sampler.sample(logits, {}), sampler.sample(logits, {}));
}

TEST(Sampler, DrawsFollowTheProbabilities) {
  const std::vector<double> probs = {0.4, 0.25, 0.15, 0.1, 0.06, 0.04};
  const std::vector<float> logits = log_of(probs);
  for (const uint64_t seed : {1ULL, 2ULL, 1ULL << 63}) {
    Sampler sampler(seeded(seed), 6, 0);
    std::vector<double> counts(6, 0);
    constexpr int kDraws = 20'000;
    for (int i = 0; i < kDraws; ++i) {
      const TokenId id = sampler.sample(logits, {});
      ++counts[id];
      sampler.add_output(id);
    }
    double chi_square = 0;
    for (size_t id = 0; id < 6; ++id) {
      const double expected = probs[id] * kDraws;
      chi_square += (counts[id] - expected) * (counts[id] - expected) / expected;
    }
    EXPECT_LT(chi_square, 20.5) << seed;  // 5 degrees of freedom: 0.1 % of seeds exceed it
  }
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  SamplingParams params = seeded();
  const std::vector<float> logits = {1, 0};
  params.temperature = 0.5F;
  EXPECT_NEAR(Sampler(params, 2, 0).candidates(logits).probs[0], 1 / (1 + std::exp(-2.0)), 1e-6);
  params.temperature = 2.0F;
  EXPECT_NEAR(Sampler(params, 2, 0).candidates(logits).probs[0], 1 / (1 + std::exp(-0.5)), 1e-6);
}

// --- log probabilities

TEST(Logprobs, AreTheRawSoftmax) {
  const std::vector<float> logits = log_of({0.15, 0.5, 0.05, 0.3});
  const LogitSummary summary = summarize(logits);
  EXPECT_NEAR(logprob_of(logits, summary, 3), std::log(0.3), 1e-6);
  const std::vector<TokenLogprob> top = top_logprobs(logits, summary, 3);
  ASSERT_EQ(top.size(), 3U);
  EXPECT_EQ(top[0].id, 1U);
  EXPECT_EQ(top[1].id, 3U);
  EXPECT_EQ(top[2].id, 0U);
  EXPECT_EQ(top[1].logprob, logprob_of(logits, summary, 3));
}

TEST(Logprobs, TiesAreOrderedByIdAndListsAreCut) {
  const std::vector<float> logits = {2, 3, 2, 3, 2};
  const LogitSummary summary = summarize(logits);
  std::vector<TokenId> ids;
  for (const TokenLogprob& entry : top_logprobs(logits, summary, 4)) ids.push_back(entry.id);
  EXPECT_THAT(ids, ElementsAre(1U, 3U, 0U, 2U));
  EXPECT_EQ(top_logprobs(logits, summary, 20).size(), 5U);
  EXPECT_TRUE(top_logprobs(logits, summary, 0).empty());
}

// --- validation

struct BadField {
  const char* name;
  const char* value;
  void (*spoil)(SamplingParams&);
};

TEST(ValidateSampling, NamesTheFieldTheValueAndTheRange) {
  const std::vector<BadField> cases = {
      {"temperature", "-0.1", [](SamplingParams& p) { p.temperature = -0.1F; }},
      {"temperature", "inf", [](SamplingParams& p) { p.temperature = kInf; }},
      {"temperature", "nan", [](SamplingParams& p) { p.temperature = kNan; }},
      {"top_p", "0", [](SamplingParams& p) { p.top_p = 0; }},
      {"top_p", "1.5", [](SamplingParams& p) { p.top_p = 1.5F; }},
      {"min_p", "-1", [](SamplingParams& p) { p.min_p = -1; }},
      {"xtc_probability", "2", [](SamplingParams& p) { p.xtc_probability = 2; }},
      {"xtc_threshold", "0", [](SamplingParams& p) { p.xtc_threshold = 0; }},
      {"repetition_penalty", "0", [](SamplingParams& p) { p.repetition_penalty = 0; }},
      {"presence_penalty", "nan", [](SamplingParams& p) { p.presence_penalty = kNan; }},
      {"frequency_penalty", "-inf", [](SamplingParams& p) { p.frequency_penalty = -kInf; }},
      {"logit_bias of token 3",
       "nan",
       [](SamplingParams& p) {
         p.logit_bias = {{3, kNan}};
       }},
  };
  for (const BadField& bad : cases) {
    SamplingParams params;
    bad.spoil(params);
    const Status status = validate_sampling(params, 10);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad.name;
    EXPECT_THAT(status.message(), HasSubstr(std::string(bad.name) + " is " + bad.value));
    EXPECT_THAT(status.message(), HasSubstr("must be in "));
  }
}

TEST(ValidateSampling, ChecksBiasIds) {
  SamplingParams params;
  params.logit_bias = {{9, 1.0F}, {10, 1.0F}};
  EXPECT_THAT(validate_sampling(params, 10).message(),
              HasSubstr("token id 10; this model has ids 0 to 9"));
  params.logit_bias = {{9, 1.0F}, {3, 1.0F}, {9, 2.0F}};
  EXPECT_THAT(validate_sampling(params, 10).message(), HasSubstr("token id 9 twice"));
  params.logit_bias = {{9, -100.0F}, {0, 100.0F}};
  EXPECT_TRUE(validate_sampling(params, 10).is_ok());
}

}  // namespace
}  // namespace cairn
