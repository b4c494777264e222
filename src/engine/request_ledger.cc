#include "engine/request_ledger.h"

#include <fmt/format.h>

#include <utility>

namespace cairn {

Result<uint64_t> RequestLedger::open_request() {
  MutexLock lock(mutex_);
  if (!refusal_.empty()) return Status::overloaded(refusal_);
  if (n_queued_ >= max_queued_) {
    return Status::overloaded(fmt::format(
        "{} requests are waiting and the queue holds {}; try again later", n_queued_, max_queued_));
  }
  const uint64_t id = next_id_++;
  live_.emplace(id, Entry{});
  ++n_queued_;
  return id;
}

void RequestLedger::leave_queue(uint64_t id) {
  MutexLock lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end() || !found->second.is_queued) return;
  found->second.is_queued = false;
  --n_queued_;
}

void RequestLedger::close_request(uint64_t id) {
  MutexLock lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  if (found->second.is_queued) --n_queued_;
  live_.erase(found);
}

bool RequestLedger::claim_cancel(uint64_t id) {
  MutexLock lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end() || found->second.is_cancelled) return false;
  found->second.is_cancelled = true;
  return true;
}

void RequestLedger::refuse(std::string reason) {
  MutexLock lock(mutex_);
  if (refusal_.empty()) refusal_ = std::move(reason);
}

size_t RequestLedger::n_live() {
  MutexLock lock(mutex_);
  return live_.size();
}

}  // namespace cairn
