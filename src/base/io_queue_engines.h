// The engines behind IoQueue::open(); for its implementation only.
//
// All of them read files without a descriptor in submit(), on the caller's thread: such files live
// in memory, and tests that count their calls want a fixed order.
#pragma once

#include <memory>

#include "base/io_queue.h"
#include "base/result.h"

namespace cairn {

Result<std::unique_ptr<IoQueue>> open_inline_queue(unsigned depth);
// At most eight threads: with so many preads in flight a drive is busy, and more only cost
// switches.
Result<std::unique_ptr<IoQueue>> open_thread_queue(unsigned depth);
// Errors: kUnsupported with the system's reason.
Result<std::unique_ptr<IoQueue>> open_uring_queue(unsigned depth);

}  // namespace cairn
