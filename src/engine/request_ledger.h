// Which requests live, shared by the threads that submit and cancel and the engine that serves:
// bounds the queue and the number of cancel messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/mutex.h"
#include "base/result.h"

namespace cairn {

// Thread: any.
class RequestLedger {
 public:
  explicit RequestLedger(uint32_t max_queued) : max_queued_(max_queued) {}

  // A new id, queued. Errors: kOverloaded when the queue is full or the ledger is closed.
  Result<uint64_t> open_request();
  // The request has left the queue and is being served. Unknown ids are ignored, here and below.
  void leave_queue(uint64_t id);
  void close_request(uint64_t id);
  // True once for each live request: the caller sends the message.
  bool claim_cancel(uint64_t id);
  // Refuses new requests from now on; the first reason stays.
  void refuse(std::string reason);

  size_t n_live();

 private:
  struct Entry {
    bool is_queued = true;
    bool is_cancelled = false;
  };

  const uint32_t max_queued_;
  Mutex mutex_;
  uint64_t next_id_ CAIRN_GUARDED_BY(mutex_) = 1;
  uint32_t n_queued_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, Entry> live_ CAIRN_GUARDED_BY(mutex_);
  std::string refusal_ CAIRN_GUARDED_BY(mutex_);  // empty while open
};

}  // namespace cairn
