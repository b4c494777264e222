#include "engine/active_request.h"

#include <algorithm>

namespace cairn {

double ms_between(TimePoint begin, TimePoint end) {
  return std::max(0.0, std::chrono::duration<double, std::milli>(end - begin).count());
}

bool ActiveRequest::is_stop_id(TokenId token) const {
  return std::find(request.stop_ids.begin(), request.stop_ids.end(), token) !=
         request.stop_ids.end();
}

bool ActiveRequest::may_share_later() const {
  return !request.prompt_logprobs && request.max_reuse == SIZE_MAX;
}

RequestUsage ActiveRequest::usage(TimePoint now) const {
  RequestUsage usage;
  usage.prompt_tokens = request.prompt.size();
  usage.completion_tokens = n_generated;
  usage.is_kept = !request.no_store;
  usage.seed = *request.sampling.seed;
  if (sequence != nullptr) {
    usage.reuse = sequence->reuse();
    usage.restore_ms = usage.reuse.restore_ms;
  }
  if (has_started) {
    // Pages adopted during the prefill were in memory, so what was neither read nor computed was
    // there.
    usage.computed_tokens = n_computed;
    if (has_prefilled) {
      usage.reuse.device_tokens =
          usage.prompt_tokens - std::min(usage.prompt_tokens, usage.reuse.disk_tokens + n_computed);
    }
    const TimePoint prefilled_at = has_prefilled ? first_token_at : now;
    usage.queue_ms = std::max(0.0, ms_between(submitted_at, started_at) - usage.restore_ms);
    usage.prefill_ms = ms_between(started_at, prefilled_at);
    usage.decode_ms = ms_between(prefilled_at, now);
  } else {
    usage.computed_tokens =
        usage.prompt_tokens -
        std::min(usage.prompt_tokens, usage.reuse.device_tokens + usage.reuse.disk_tokens);
    usage.queue_ms = ms_between(submitted_at, now);
  }
  return usage;
}

}  // namespace cairn
