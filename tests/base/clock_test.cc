#include "base/clock.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

using std::chrono::milliseconds;

TEST(FakeClock, MovesOnlyWhenTold) {
  FakeClock clock;
  const auto begin = clock.now();
  EXPECT_EQ(clock.now(), begin);
  clock.advance(milliseconds(1500));
  EXPECT_EQ(clock.now() - begin, milliseconds(1500));
}

TEST(FakeClock, SmallStepsAddUpToSeconds) {
  FakeClock clock;
  const int64_t begin = clock.unix_seconds();
  for (int i = 0; i < 9; ++i) clock.advance(milliseconds(300));
  EXPECT_EQ(clock.unix_seconds() - begin, 2);
  clock.advance(milliseconds(300));
  EXPECT_EQ(clock.unix_seconds() - begin, 3);
}

TEST(FakeClockDeathTest, DoesNotGoBack) {
  FakeClock clock;
  EXPECT_DEATH(clock.advance(milliseconds(-1)), "time does not go back");
}

TEST(SystemClock, RunsForwardFromAPlausibleDate) {
  const SystemClock clock;
  const auto first = clock.now();
  EXPECT_GE(clock.now(), first);
  EXPECT_GT(clock.unix_seconds(), 1'700'000'000);
}

}  // namespace
}  // namespace cairn
