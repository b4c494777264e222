#include "base/io_queue.h"

#include <fmt/format.h>

#include "base/io_queue_engines.h"

namespace cairn {

Result<std::unique_ptr<IoQueue>> IoQueue::open(IoEngine engine, unsigned depth) {
  if (depth < 1 || depth > 256) {
    return Status::invalid_argument(
        fmt::format("{} reads in flight; 1 to 256 are supported", depth));
  }
  switch (engine) {
    case IoEngine::kInline:
      return open_inline_queue(depth);
    case IoEngine::kThreads:
      return open_thread_queue(depth);
    case IoEngine::kUring:
      return open_uring_queue(depth);
    case IoEngine::kAuto:
      break;
  }
  auto uring = open_uring_queue(depth);
  if (uring.is_ok()) return uring;
  return open_thread_queue(depth);
}

}  // namespace cairn
