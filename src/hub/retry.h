// Tries something again while that may help.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "hub/http_client.h"
#include "hub/hub_settings.h"
#include "hub/pull_observer.h"

namespace cairn {

// One try. kOverloaded in `status`: another may help.
struct Attempt {
  Status status;
  std::optional<std::chrono::seconds> asked_pause;  // what the server asked for
  bool has_progressed = false;                      // bytes came: attempts count anew
};

// What an answer's status means. Ok for success; kOverloaded for 408, 429 and 5xx; else an error
// that names `what` and the way out. `has_token`: whether one was sent.
Status status_of(const HttpHead& head, const std::string& what, bool has_token);

// Errors: the last attempt's, kOverloaded as kIo; kCancelled when a pause was broken off.
Status with_retries(const RetryPolicy& policy,
                    PullObserver& observer,
                    const std::function<Attempt()>& attempt);

}  // namespace cairn
