#include "base/check.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(CheckDeathTest, NamesTheExpressionAndTheMessage) {
  EXPECT_DEATH(CAIRN_CHECK(1 + 1 == 3, "arithmetic"),
               "CHECK failed: 1 \\+ 1 == 3 at .*: arithmetic");
}

TEST(Check, EvaluatesItsConditionOnce) {
  int n = 0;
  CAIRN_CHECK(++n == 1);
  EXPECT_EQ(n, 1);
}

}  // namespace
}  // namespace cairn
