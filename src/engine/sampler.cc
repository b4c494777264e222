#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/check.h"

namespace cairn {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Below this exponent a weight is less than 1e-26 of the best id's: the 53 bits of a draw cannot
// reach it, so it is zero and its exp() is saved.
constexpr double kSmallestExponent = -60.0;

// First ranks that are sorted when it is not known how many will be needed; doubled from there.
constexpr size_t kFirstSort = 64;

Status check_range(
    std::string_view field, float value, float low, float high, bool low_is_open = false) {
  const bool is_inside = value <= high && (low_is_open ? value > low : value >= low);
  if (is_inside) return Status::ok();  // NaN compares false and lands below
  return Status::invalid_argument(fmt::format(
      "{} is {}; it must be in {}{}, {}]", field, value, low_is_open ? '(' : '[', low, high));
}

Status check_logit_bias(const SamplingParams& params, uint32_t vocab_size) {
  std::vector<TokenId> ids;
  ids.reserve(params.logit_bias.size());
  for (const auto& [id, bias] : params.logit_bias) {
    if (id >= vocab_size) {
      return Status::invalid_argument(
          fmt::format("logit_bias names token id {}; this model has ids 0 to {}",
                      id,
                      static_cast<int64_t>(vocab_size) - 1));
    }
    CAIRN_RETURN_IF_ERROR(
        check_range(fmt::format("logit_bias of token {}", id), bias, -1000.0F, 1000.0F));
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) {
    return Status::invalid_argument(
        fmt::format("logit_bias names token id {} twice; give each id once", *twice));
  }
  return Status::ok();
}

struct PhiloxProduct {
  uint32_t high;
  uint32_t low;
};

PhiloxProduct multiply(uint32_t a, uint32_t b) {
  const uint64_t product = uint64_t{a} * b;
  return {static_cast<uint32_t>(product >> 32), static_cast<uint32_t>(product)};
}

std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter,
                                      uint32_t key0,
                                      uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const PhiloxProduct p0 = multiply(0xD2511F53U, counter[0]);
    const PhiloxProduct p1 = multiply(0xCD9E8D57U, counter[2]);
    counter = {p1.high ^ counter[1] ^ key0, p1.low, p0.high ^ counter[3] ^ key1, p0.low};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

}  // namespace

Status validate_sampling(const SamplingParams& params, uint32_t vocab_size) {
  CAIRN_RETURN_IF_ERROR(check_range("temperature", params.temperature, 0.0F, 100.0F));
  CAIRN_RETURN_IF_ERROR(check_range("top_p", params.top_p, 0.0F, 1.0F, /*low_is_open=*/true));
  CAIRN_RETURN_IF_ERROR(check_range("min_p", params.min_p, 0.0F, 1.0F));
  CAIRN_RETURN_IF_ERROR(check_range("xtc_probability", params.xtc_probability, 0.0F, 1.0F));
  CAIRN_RETURN_IF_ERROR(
      check_range("xtc_threshold", params.xtc_threshold, 0.0F, 1.0F, /*low_is_open=*/true));
  CAIRN_RETURN_IF_ERROR(
      check_range("repetition_penalty", params.repetition_penalty, 0.0F, 100.0F, true));
  CAIRN_RETURN_IF_ERROR(check_range("presence_penalty", params.presence_penalty, -100.0F, 100.0F));
  CAIRN_RETURN_IF_ERROR(
      check_range("frequency_penalty", params.frequency_penalty, -100.0F, 100.0F));
  return check_logit_bias(params, vocab_size);
}

double counter_uniform(uint64_t seed, uint32_t choice, uint64_t token_index, uint32_t stream) {
  const std::array<uint32_t, 4> words = philox4x32_10({static_cast<uint32_t>(token_index),
                                                       static_cast<uint32_t>(token_index >> 32),
                                                       choice,
                                                       stream},
                                                      static_cast<uint32_t>(seed),
                                                      static_cast<uint32_t>(seed >> 32));
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

void IdWindow::add(TokenId id) {
  ++counts_[id];
  if (window_ == 0) return;
  if (ring_.size() < window_) {
    ring_.push_back(id);
    return;
  }
  const auto leaving = counts_.find(ring_[oldest_]);
  if (--leaving->second == 0) counts_.erase(leaving);
  ring_[oldest_] = id;
  oldest_ = (oldest_ + 1) % window_;
}

Sampler::Sampler(const SamplingParams& params, uint32_t vocab_size, uint32_t choice)
    : params_(params),
      vocab_size_(vocab_size),
      choice_(choice),
      is_plain_greedy_(params.temperature == 0.0F && params.logit_bias.empty() &&
                       params.repetition_penalty == 1.0F && params.presence_penalty == 0.0F &&
                       params.frequency_penalty == 0.0F),
      seen_(params.repetition_window),
      written_(params.penalty_window) {
  CAIRN_CHECK(params_.seed.has_value(), "the engine draws a seed before it makes a sampler");
}

bool Sampler::has_penalties() const {
  return params_.presence_penalty != 0.0F || params_.frequency_penalty != 0.0F;
}

void Sampler::add_prompt(std::span<const TokenId> ids) {
  if (params_.repetition_penalty == 1.0F) return;
  for (const TokenId id : ids) seen_.add(id);
}

void Sampler::add_output(TokenId id) {
  ++n_output_;
  if (params_.repetition_penalty != 1.0F) seen_.add(id);
  if (has_penalties()) written_.add(id);
}

void Sampler::apply_bias_and_penalties(std::span<float> logits) const {
  for (const auto& [id, bias] : params_.logit_bias) logits[id] += bias;
  for (const auto& [id, count] : seen_.counts()) {
    float& logit = logits[id];
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
  }
  for (const auto& [id, count] : written_.counts()) {
    logits[id] -= params_.frequency_penalty * static_cast<float>(count) + params_.presence_penalty;
  }
}

bool Sampler::is_better(const Entry& a, const Entry& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

void Sampler::load_scratch(std::span<const float> logits) {
  CAIRN_CHECK(logits.size() == vocab_size_);
  scratch_.assign(logits.begin(), logits.end());
  // Sorting needs an order, and NaN has none.
  for (float& logit : scratch_) {
    if (std::isnan(logit)) logit = kMinusInfinity;
  }
  apply_bias_and_penalties(scratch_);
}

double Sampler::weight(const Entry& entry) const {
  // Temperature works on the distance from the best id, so a tiny one cannot overflow.
  const double exponent = (static_cast<double>(entry.logit) - static_cast<double>(max_logit_)) /
                          static_cast<double>(params_.temperature);
  return exponent < kSmallestExponent ? 0.0 : std::exp(exponent);
}

double Sampler::sum_weights(size_t begin, size_t end) const {
  double total = 0;
  for (size_t rank = begin; rank < end; ++rank) total += weight(entries_[rank]);
  return total;
}

// Makes ranks [0, n) final. Whole vocabularies are never sorted when a small front decides.
void Sampler::sort_front(size_t n) {
  n = std::min(n, entries_.size());
  if (n <= n_sorted_) return;
  const auto first = entries_.begin() + static_cast<std::ptrdiff_t>(n_sorted_);
  const auto middle = entries_.begin() + static_cast<std::ptrdiff_t>(n);
  if (middle != entries_.end()) std::nth_element(first, middle, entries_.end(), is_better);
  std::sort(first, middle, is_better);
  n_sorted_ = n;
}

// The smallest front whose share of the weight reaches top_p.
void Sampler::cut_top_p(Survivors& kept) {
  const double wanted = static_cast<double>(params_.top_p) * kept.total;
  double reached = 0;
  size_t n_next = std::max(kFirstSort, n_sorted_);
  for (size_t rank = 0; rank < kept.end; ++rank) {
    if (rank >= n_sorted_) {
      sort_front(std::min(n_next, kept.end));
      n_next *= 2;
    }
    reached += weight(entries_[rank]);
    if (reached >= wanted) {
      kept.end = rank + 1;
      kept.total = reached;
      return;
    }
  }
}

void Sampler::cut_min_p(Survivors& kept) const {
  // The best id's weight is 1, so min_p is compared with weights as they are. Cuts keep the best
  // ids, so among the kept ranks a count is enough: what is unsorted needs no order yet.
  const double least = static_cast<double>(params_.min_p);
  size_t n = 0;
  for (size_t rank = 0; rank < kept.end; ++rank) n += weight(entries_[rank]) >= least ? 1U : 0U;
  kept.end = std::max<size_t>(n, 1);
}

// Removes every id that reaches the threshold except the least probable of them.
void Sampler::cut_xtc(Survivors& kept) {
  const double chance = counter_uniform(*params_.seed, choice_, n_output_, kXtcStream);
  if (chance >= static_cast<double>(params_.xtc_probability)) return;
  const double least = static_cast<double>(params_.xtc_threshold) * kept.total;
  size_t n_above = 0;
  while (n_above < kept.end) {
    if (n_above >= n_sorted_) sort_front(std::min(kept.end, std::max(kFirstSort, 2 * n_above)));
    if (weight(entries_[n_above]) < least) break;
    ++n_above;
  }
  if (n_above >= 2) {
    kept.begin = n_above - 1;
    sort_front(kept.end);
    kept.total = sum_weights(kept.begin, kept.end);
  }
}

Sampler::Survivors Sampler::cut() {
  entries_.clear();
  n_sorted_ = 0;
  max_logit_ = kMinusInfinity;
  for (TokenId id = 0; id < vocab_size_; ++id) {
    if (scratch_[id] == kMinusInfinity) continue;
    entries_.push_back({scratch_[id], id});
    max_logit_ = std::max(max_logit_, scratch_[id]);
  }
  if (!std::isfinite(max_logit_)) {  // nothing is possible, or something is certain
    const auto best = std::min_element(entries_.begin(), entries_.end(), is_better);
    const TokenId id = best == entries_.end() ? 0 : best->id;
    entries_.assign(1, {0.0F, id});
    n_sorted_ = 1;
    max_logit_ = 0;
    return {0, 1, 1.0};
  }
  Survivors kept{0, entries_.size(), 0};
  if (params_.top_k != 0 && params_.top_k < kept.end) {
    kept.end = params_.top_k;
    sort_front(kept.end);
  }
  // One order of summation for each case, whatever was sorted for other reasons: all ids by id, a
  // cut front best first.
  kept.total = sum_weights(0, kept.end);
  if (params_.top_p < 1.0F) cut_top_p(kept);
  if (params_.min_p > 0.0F) {
    cut_min_p(kept);
    sort_front(kept.end);
    kept.total = sum_weights(0, kept.end);
  }
  if (params_.xtc_probability > 0.0F) cut_xtc(kept);
  return kept;
}

CandidateSet Sampler::candidates(std::span<const float> logits) {
  load_scratch(logits);
  CandidateSet set;
  if (params_.temperature == 0.0F) {
    const auto best = std::max_element(scratch_.begin(), scratch_.end());  // the first of equals
    set.ids.push_back(static_cast<TokenId>(best - scratch_.begin()));
    set.probs.push_back(1.0F);
    return set;
  }
  const Survivors kept = cut();
  sort_front(kept.end);
  for (size_t rank = kept.begin; rank < kept.end; ++rank) {
    set.ids.push_back(entries_[rank].id);
    set.probs.push_back(static_cast<float>(weight(entries_[rank]) / kept.total));
  }
  return set;
}

TokenId Sampler::sample(std::span<const float> logits, const LogitSummary& summary) {
  if (is_plain_greedy_) return summary.argmax;
  load_scratch(logits);
  if (params_.temperature == 0.0F) {
    return static_cast<TokenId>(std::max_element(scratch_.begin(), scratch_.end()) -
                                scratch_.begin());
  }
  const Survivors kept = cut();
  const double wanted =
      counter_uniform(*params_.seed, choice_, n_output_, kDrawStream) * kept.total;
  double reached = 0;
  TokenId last_possible = 0;
  size_t n_next = std::max(kFirstSort, n_sorted_);
  for (size_t rank = kept.begin; rank < kept.end; ++rank) {
    if (rank >= n_sorted_) {
      sort_front(std::min(n_next, kept.end));
      n_next *= 2;
    }
    const double w = weight(entries_[rank]);
    if (w == 0.0) break;  // best first: only zeros follow
    reached += w;
    last_possible = entries_[rank].id;
    if (reached > wanted) return last_possible;
  }
  return last_possible;  // rounding left the sum a little short of the total
}

float logprob_of(std::span<const float> logits, const LogitSummary& summary, TokenId id) {
  CAIRN_CHECK(id < logits.size());
  return static_cast<float>(static_cast<double>(logits[id]) - static_cast<double>(summary.max) -
                            std::log(summary.sum_exp));
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits,
                                       const LogitSummary& summary,
                                       uint32_t n) {
  n = static_cast<uint32_t>(std::min<size_t>(n, logits.size()));
  std::vector<TokenLogprob> best;
  if (n == 0) return best;
  best.reserve(n + 1);
  // A sorted list of n: nearly every logit fails the first comparison, so it costs one pass.
  for (TokenId id = 0; id < logits.size(); ++id) {
    const float logit = std::isnan(logits[id]) ? kMinusInfinity : logits[id];
    if (best.size() == n && !(logit > best.back().logprob)) continue;
    const auto place = std::upper_bound(
        best.begin(), best.end(), logit, [](float value, const TokenLogprob& entry) {
          return value > entry.logprob;
        });
    best.insert(place, {id, logit});
    if (best.size() > n) best.pop_back();
  }
  for (TokenLogprob& entry : best) entry.logprob = logprob_of(logits, summary, entry.id);
  return best;
}

}  // namespace cairn
