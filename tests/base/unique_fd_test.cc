#include "base/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace cairn {
namespace {

bool is_descriptor(int fd) {
  return ::fcntl(fd, F_GETFD) != -1;
}

TEST(UniqueFd, ClosesOnceAndMoves) {
  int raw = -1;
  {
    UniqueFd first(::open("/dev/null", O_RDONLY));
    raw = first.get();
    ASSERT_TRUE(first.is_open());
    UniqueFd second(std::move(first));
    EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(second.get(), raw);
    EXPECT_TRUE(is_descriptor(raw));
  }
  EXPECT_FALSE(is_descriptor(raw));
}

TEST(UniqueFd, AssignmentClosesTheOldOne) {
  UniqueFd a(::open("/dev/null", O_RDONLY));
  UniqueFd b(::open("/dev/null", O_RDONLY));
  const int old = a.get();
  const int kept = b.get();
  a = std::move(b);
  EXPECT_FALSE(is_descriptor(old));
  EXPECT_EQ(a.get(), kept);
  EXPECT_TRUE(is_descriptor(kept));
}

TEST(UniqueFd, ReleaseGivesItAway) {
  int raw = -1;
  {
    UniqueFd fd(::open("/dev/null", O_RDONLY));
    raw = fd.release();
    EXPECT_FALSE(fd.is_open());
  }
  EXPECT_TRUE(is_descriptor(raw));
  const UniqueFd owner(raw);
}

}  // namespace
}  // namespace cairn
