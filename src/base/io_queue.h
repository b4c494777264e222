// Many reads in flight at once, from one thread: io_uring where the system allows it, a small pool
// of preads where it does not (containers often refuse io_uring), plain reads for files without a
// descriptor (tests).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/file_system.h"
#include "base/result.h"

namespace cairn {

struct ReadRequest {
  File* file = nullptr;  // must outlive the request's completion
  uint64_t offset = 0;
  std::span<std::byte> out;
  uint64_t tag = 0;  // handed back with the completion
};

struct ReadCompletion {
  uint64_t tag = 0;
  Status status;  // kCorruption for a short file, kIo from the system
};

enum class IoEngine { kAuto, kUring, kThreads, kInline };

// Thread: one thread owns a queue. A short read is continued inside; the caller sees all or an
// error.
class IoQueue {
 public:
  // `depth` reads may be in flight, 1..256. kAuto falls back to kThreads when io_uring is refused;
  // kUring reports the refusal as kUnsupported.
  static Result<std::unique_ptr<IoQueue>> open(IoEngine engine, unsigned depth);

  IoQueue() = default;
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;
  IoQueue(IoQueue&&) = delete;
  IoQueue& operator=(IoQueue&&) = delete;
  virtual ~IoQueue() = default;

  virtual unsigned depth() const = 0;
  virtual unsigned in_flight() const = 0;
  // Requires in_flight() < depth().
  virtual void submit(const ReadRequest& request) = 0;
  // Blocks until one read has completed. Requires in_flight() > 0.
  virtual ReadCompletion wait() = 0;
  // The engine in use: kUring, kThreads or kInline.
  virtual IoEngine engine() const = 0;
};

}  // namespace cairn
