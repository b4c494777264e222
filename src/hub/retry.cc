#include "hub/retry.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn {
namespace {

using std::chrono::milliseconds;

Status no_access(const HttpHead& head, const std::string& what, bool has_token) {
  const std::string said = head.error_text.empty() ? "" : fmt::format(" ({})", head.error_text);
  if (head.error_code == "GatedRepo" || head.status == 403) {
    return Status::io(fmt::format(
        "{}: the hub answered {}{}: its owners want their conditions accepted on the model's page; "
        "do that, and {}",
        what,
        head.status,
        said,
        has_token ? "use a token of that account" : "set HF_TOKEN to a token of that account"));
  }
  return Status::io(fmt::format(
      "{}: the hub answered 401{}: {}",
      what,
      said,
      has_token ? "it is not there, or the access token is not accepted or may not "
                  "read it"
                : "it is not there, or it is private: check the name, or set HF_TOKEN"));
}

std::string missing_thing(const HttpHead& head) {
  if (head.error_code == "RevisionNotFound") return "the repository has no such revision";
  if (head.error_code == "EntryNotFound") return "the repository has no such file";
  return "no such model; check the name";
}

// Nullopt: the server asks for more patience than there is.
std::optional<milliseconds> pause_before(const RetryPolicy& policy,
                                         const Attempt& attempt,
                                         unsigned n_failed) {
  if (attempt.asked_pause) {
    if (*attempt.asked_pause > policy.asked_pause_max) return std::nullopt;
    return std::max<milliseconds>(*attempt.asked_pause, policy.first_pause);
  }
  const unsigned doublings = std::min(n_failed - 1, 16U);
  return std::min(policy.first_pause * (1 << doublings), policy.pause_max);
}

}  // namespace

Status status_of(const HttpHead& head, const std::string& what, bool has_token) {
  if (head.is_success()) return Status::ok();
  if (head.status == 401 || head.status == 403) return no_access(head, what, has_token);
  if (head.status == 404) {
    return Status::not_found(
        fmt::format("{}: the hub answered 404: {}", what, missing_thing(head)));
  }
  const std::string text = fmt::format("{}: the hub answered {}{}{}",
                                       what,
                                       head.status,
                                       head.error_text.empty() ? "" : ": ",
                                       head.error_text);
  const bool may_pass = head.status == 408 || head.status == 429 || head.status >= 500;
  return may_pass ? Status::overloaded(text) : Status::io(text);
}

Status with_retries(const RetryPolicy& policy,
                    PullObserver& observer,
                    const std::function<Attempt()>& attempt) {
  for (unsigned n_failed = 0;;) {
    const Attempt result = attempt();
    if (result.status.code() != StatusCode::kOverloaded) return result.status;
    n_failed = result.has_progressed ? 1 : n_failed + 1;
    const std::string& reason = result.status.message();
    if (n_failed >= policy.n_attempts) {
      return Status::io(
          fmt::format("{}; gave up after {} attempts, try again later", reason, n_failed));
    }
    const std::optional<milliseconds> pause = pause_before(policy, result, n_failed);
    if (!pause) {
      return Status::io(
          fmt::format("{}; it asks to wait {} s", reason, result.asked_pause->count()));
    }
    observer.on_retry(reason, *pause);
    if (!policy.pause(*pause)) return Status::cancelled("stopped");
  }
}

}  // namespace cairn
