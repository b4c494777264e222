// What the engine is asked to do and what it answers; knows ids, not JSON or text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cache/token.h"
#include "store/tiered_cache.h"

namespace cairn {

// Applied in this order: logit_bias, repetition penalty, frequency and presence penalties,
// temperature, top_k, top_p, min_p, XTC, softmax, draw. Neutral values switch a step off.
struct SamplingParams {
  float temperature =
      1.0F;            // 0 = greedy (highest logit after bias and penalties, lowest id on ties)
  uint32_t top_k = 0;  // 0 = all
  float top_p = 1.0F;  // (0, 1]
  float min_p = 0.0F;  // [0, 1]: share of the best probability
  float xtc_probability = 0.0F;     // chance that XTC acts on a token
  float xtc_threshold = 0.1F;       // ids at least so probable, all but the least of them, are cut
  float repetition_penalty = 1.0F;  // > 0; prompt and output ids, each once
  uint32_t repetition_window = 0;   // last ids it looks at; 0 = all
  float presence_penalty = 0.0F;    // output ids
  float frequency_penalty = 0.0F;   // output ids
  uint32_t penalty_window = 0;      // last output ids the two look at; 0 = all
  std::optional<uint64_t> seed;     // drawn and reported when absent
  std::vector<std::pair<TokenId, float>> logit_bias;
};

struct GenerationRequest {
  uint32_t model = 0;           // Engine::add_model's index
  std::vector<TokenId> prompt;  // at least one id
  SamplingParams sampling;
  uint32_t choice = 0;  // index among n choices of one prompt; part of the random numbers
  std::optional<uint32_t> max_tokens;  // absent: min(4096, context left)
  std::vector<TokenId> stop_ids;  // end tokens; the reply stops after one, which counts as a token
  bool ignore_stop_ids = false;
  bool want_logprobs = false;    // of the chosen id
  uint32_t top_logprobs = 0;     // 0..20 alternatives for each token
  bool prompt_logprobs = false;  // logprob of each prompt id (legacy `echo` with logprobs)
  RestoreMode restore = RestoreMode::kAuto;
  // Requests of different namespaces never see what the others computed. "" is the model's own.
  std::string key_namespace;
  std::string conversation;  // label for forget(); no part in matching; may be empty
  bool memory_only = false;  // what it computes is never written to disk
  bool no_store = false;     // ... and not left in memory for others either
  size_t max_reuse = SIZE_MAX;
};

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

struct GeneratedToken {
  TokenId id = 0;
  bool is_stop = false;           // one of stop_ids: not part of the text
  float logprob = 0;              // log of the raw softmax (before penalties, temperature, cuts)
  std::vector<TokenLogprob> top;  // best first, at most top_logprobs
};

enum class FinishReason { kStop, kLength, kCancelled };

struct RequestUsage {
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;  // the stop id included
  ReuseReport reuse;
  uint64_t computed_tokens = 0;  // prompt rows that were prefilled
  bool is_kept = true;           // false: no_store, or forgotten while it ran
  double queue_ms = 0, restore_ms = 0, prefill_ms = 0, decode_ms = 0;
  uint64_t seed = 0;
};

// Hears about one request, on the engine thread; must return at once and never call the engine
// back. After on_finished or on_failed nothing more comes.
class RequestObserver {
 public:
  RequestObserver() = default;
  RequestObserver(const RequestObserver&) = delete;
  RequestObserver& operator=(const RequestObserver&) = delete;
  RequestObserver(RequestObserver&&) = delete;
  RequestObserver& operator=(RequestObserver&&) = delete;
  virtual ~RequestObserver() = default;

  // Admitted: it fits, its reuse is known.
  virtual void on_started(const RequestUsage& usage) = 0;

  // Before the first token, only with prompt_logprobs: entry i belongs to prompt[i]; entry 0 has
  // logprob 0.
  virtual void on_prompt_logprobs(std::vector<GeneratedToken> /*tokens*/) {}

  virtual void on_token(GeneratedToken token) = 0;
  virtual void on_finished(FinishReason reason, const RequestUsage& usage) = 0;
  virtual void on_failed(const Status& status) = 0;
};

}  // namespace cairn
