// Time that tests can own.
#pragma once

#include <chrono>
#include <cstdint>

namespace cairn {

// Thread: implementations may be called from any thread.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  Clock(Clock&&) = delete;
  Clock& operator=(Clock&&) = delete;
  virtual ~Clock() = default;

  // Never goes back; for intervals.
  virtual std::chrono::steady_clock::time_point now() const = 0;
  // Seconds since 1970 UTC, for people and for files.
  virtual int64_t unix_seconds() const = 0;
};

class SystemClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point now() const override;
  int64_t unix_seconds() const override;
};

// Stands still until told to move. Thread: one thread at a time.
class FakeClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point now() const override { return now_; }

  int64_t unix_seconds() const override { return unix_seconds_; }

  void advance(std::chrono::nanoseconds by);

 private:
  std::chrono::steady_clock::time_point now_{};
  int64_t unix_seconds_ = 1'700'000'000;
  std::chrono::nanoseconds carry_{0};
};

}  // namespace cairn
