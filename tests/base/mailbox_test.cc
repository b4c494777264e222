#include "base/mailbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace cairn {
namespace {

TEST(Mailbox, RefusesWhenFullButTakesReplies) {
  Mailbox<int> box(2);
  EXPECT_TRUE(box.push(1));
  EXPECT_TRUE(box.push(2));
  EXPECT_FALSE(box.push(3));
  box.push_reply(4);
  EXPECT_EQ(box.size(), 3U);
  EXPECT_EQ(box.try_pop(), 1);
  EXPECT_EQ(box.try_pop(), 2);
  EXPECT_EQ(box.try_pop(), 4);
  EXPECT_EQ(box.try_pop(), std::nullopt);
}

TEST(Mailbox, CloseKeepsWhatIsQueued) {
  Mailbox<std::unique_ptr<int>> box(2);
  EXPECT_TRUE(box.push(std::make_unique<int>(5)));
  box.close();
  EXPECT_FALSE(box.push(std::make_unique<int>(6)));
  auto first = box.pop();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(**first, 5);
  EXPECT_FALSE(box.pop().has_value());
}

TEST(Mailbox, AnOldDeadlineDoesNotWait) {
  Mailbox<int> box(1);
  EXPECT_EQ(box.pop_until(std::chrono::steady_clock::now()), std::nullopt);
  EXPECT_TRUE(box.push(1));
  EXPECT_EQ(box.pop_until(std::chrono::steady_clock::now()), 1);
}

TEST(Mailbox, ManySendersLoseNothing) {
  constexpr int kSenders = 4;
  constexpr int kEach = 2000;
  Mailbox<int> box(16);
  std::vector<std::jthread> senders;
  for (int s = 0; s < kSenders; ++s) {
    senders.emplace_back([&box, s] {
      for (int i = 0; i < kEach;) {
        if (box.push(s * kEach + i)) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::vector<int> last(kSenders, -1);
  for (int n = 0; n < kSenders * kEach; ++n) {
    const int message = *box.pop();
    int& before = last[static_cast<size_t>(message / kEach)];
    EXPECT_EQ(message % kEach, before + 1) << "each sender's messages stay in order";
    before = message % kEach;
  }
  EXPECT_EQ(box.size(), 0U);
}

}  // namespace
}  // namespace cairn
