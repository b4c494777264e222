#include "engine/request_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn {
namespace {

using ::testing::HasSubstr;

TEST(RequestLedger, BoundsTheQueueAndNotWhatRuns) {
  RequestLedger ledger(2);
  const uint64_t first = *ledger.open_request();
  const uint64_t second = *ledger.open_request();
  EXPECT_NE(first, second);
  const auto third = ledger.open_request();
  EXPECT_EQ(third.status().code(), StatusCode::kOverloaded);
  EXPECT_THAT(third.status().message(), HasSubstr("2 requests are waiting and the queue holds 2"));
  ledger.leave_queue(first);
  ledger.leave_queue(first);  // once is enough
  EXPECT_TRUE(ledger.open_request().is_ok());
  EXPECT_FALSE(ledger.open_request().is_ok());
  ledger.close_request(second);  // from the queue
  ledger.close_request(first);   // running: frees no place in the queue
  EXPECT_TRUE(ledger.open_request().is_ok());
  EXPECT_FALSE(ledger.open_request().is_ok());
  EXPECT_EQ(ledger.n_live(), 2U);
}

TEST(RequestLedger, AllowsOneCancelForEachLiveRequest) {
  RequestLedger ledger(2);
  const uint64_t id = *ledger.open_request();
  EXPECT_FALSE(ledger.claim_cancel(id + 1));
  EXPECT_TRUE(ledger.claim_cancel(id));
  EXPECT_FALSE(ledger.claim_cancel(id));
  ledger.close_request(id);
  EXPECT_FALSE(ledger.claim_cancel(id));
}

TEST(RequestLedger, RefusesWithTheFirstReason) {
  RequestLedger ledger(2);
  ledger.refuse("shutting down");
  ledger.refuse("stopped");
  EXPECT_EQ(ledger.open_request().status().code(), StatusCode::kOverloaded);
  EXPECT_THAT(ledger.open_request().status().message(), HasSubstr("shutting down"));
}

}  // namespace
}  // namespace cairn
