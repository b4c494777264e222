// One generation request between prep, engine and connection.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "api/prepared_request.h"
#include "api/reply.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "server/exchange.h"
#include "server/metrics.h"
#include "server/router.h"

namespace cairn {

// Thread: net, except push(), which engine observers call.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  struct Started {
    RequestUsage usage;
  };

  struct PromptLogprobs {
    std::vector<GeneratedToken> tokens;
  };

  struct Finished {
    FinishReason reason;
    RequestUsage usage;
  };

  struct Event {
    size_t choice;
    std::variant<Started, PromptLogprobs, GeneratedToken, Finished, Status> what;
  };

  Generation(Engine& engine,
             Metrics& metrics,
             Router::Post post,
             std::shared_ptr<Exchange> exchange);

  // Submits every choice; an error becomes the response.
  void start(PrepareResult prepared);
  // From the engine thread: queues the event and wakes net when it is not awake for this one
  // already.
  void push(Event event);

 private:
  void drain();
  void handle(Event event);
  void fail(const Status& status);
  void keep_anchor(size_t choice);
  void cancel_all();

  Engine& engine_;
  Metrics& metrics_;
  const Router::Post post_;
  const std::shared_ptr<Exchange> exchange_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::unique_ptr<Reply> reply_;
  std::string key_namespace_;
  bool is_memory_only_ = false;
  uint32_t model_ = 0;  // the engine's index
  std::vector<uint64_t> request_ids_;
  bool is_streaming_ = false;
  bool has_first_token_ = false;
  bool is_over_ = false;
  bool is_aborted_ = false;

  Mutex mutex_;
  std::vector<Event> events_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn
