#include "base/clock.h"

#include "base/check.h"

namespace cairn {

std::chrono::steady_clock::time_point SystemClock::now() const {
  return std::chrono::steady_clock::now();
}

int64_t SystemClock::unix_seconds() const {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count();
}

void FakeClock::advance(std::chrono::nanoseconds by) {
  CAIRN_CHECK(by.count() >= 0, "time does not go back");
  now_ += by;
  // Small steps add up: the wall clock moves once they fill a second.
  carry_ += by;
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(carry_);
  carry_ -= whole;
  unix_seconds_ += whole.count();
}

}  // namespace cairn
