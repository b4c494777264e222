// What other threads tell the engine thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/mailbox.h"
#include "engine/active_request.h"
#include "engine/engine.h"
#include "store/disk_store.h"

namespace cairn {

struct SubmitMessage {
  std::unique_ptr<ActiveRequest> request;
};

struct CancelMessage {
  uint64_t request_id = 0;
};

struct FlushMessage {
  std::function<void(FlushReport)> done;
};

struct ForgetMessage {
  ForgetRequest request;
  std::function<void(ForgetReport)> done;
};

struct StatsMessage {
  std::function<void(EngineStats)> done;
};

struct AnchorMessage {
  uint32_t model = 0;
  std::string key_namespace;
  Anchor anchor;
};

struct ExplainMessage {
  uint32_t model = 0;
  std::string key_namespace;
  std::vector<TokenId> prompt;
  size_t n_known_max = 0;
  std::function<void(Result<ReuseReport>)> done;
};

// From the disk threads; never refused.
struct StoreMessage {
  StoreReply reply;
};

struct DrainMessage {
  std::chrono::milliseconds drain_limit{0};
  std::chrono::milliseconds flush_limit{0};
};

struct StopMessage {};

using EngineMessage = std::variant<SubmitMessage,
                                   CancelMessage,
                                   FlushMessage,
                                   ForgetMessage,
                                   StatsMessage,
                                   AnchorMessage,
                                   ExplainMessage,
                                   StoreMessage,
                                   DrainMessage,
                                   StopMessage>;

using EngineInbox = Mailbox<EngineMessage>;

}  // namespace cairn
