#include "engine/chunk_policy.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

using std::chrono::duration;

constexpr size_t kNoLimit = SIZE_MAX;

TEST(ChunkPolicy, TakesTheLargestChunkWhenNothingDecodes) {
  const ChunkPolicy policy({});
  EXPECT_EQ(policy.next_chunk(0, 5000, false, kNoLimit), 512U);
  EXPECT_EQ(policy.next_chunk(4992, 5000, false, kNoLimit), 8U);
  EXPECT_EQ(policy.next_chunk(0, 3, false, kNoLimit), 3U);
}

TEST(ChunkPolicy, EndsAtAPageEdge) {
  const ChunkPolicy policy({});
  EXPECT_EQ(policy.next_chunk(10, 5000, false, kNoLimit), 502U);  // to 512
  EXPECT_EQ(policy.next_chunk(10, 500, false, kNoLimit), 490U);   // the prompt's end needs no edge
  EXPECT_EQ(policy.next_chunk(0, 5000, false, 100), 64U);
  EXPECT_EQ(policy.next_chunk(0, 5000, false, 20), 20U);  // no edge in reach
  EXPECT_EQ(policy.next_chunk(60, 5000, false, 20), 4U);
}

TEST(ChunkPolicy, FollowsTheRateWhileStreamsDecode) {
  ChunkPolicy policy({});
  EXPECT_EQ(policy.next_chunk(0, 5000, true, kNoLimit), 64U);  // not measured yet
  policy.record(512, duration<double>(0.256));                 // 2000 rows a second: 200 in 100 ms
  EXPECT_DOUBLE_EQ(policy.tokens_per_second(), 2000.0);
  EXPECT_EQ(policy.next_chunk(0, 5000, true, kNoLimit), 192U);
  EXPECT_EQ(policy.next_chunk(0, 5000, false, kNoLimit), 512U);
  policy.record(512, duration<double>(51.2));  // 10 a second: the average follows
  EXPECT_DOUBLE_EQ(policy.tokens_per_second(), 0.75 * 2000 + 0.25 * 10);
  for (int i = 0; i < 50; ++i) policy.record(512, duration<double>(51.2));
  EXPECT_EQ(policy.next_chunk(0, 5000, true, kNoLimit), 16U);  // never less than a strip
}

TEST(ChunkPolicy, IgnoresShortSteps) {
  ChunkPolicy policy({});
  policy.record(3, duration<double>(0.1));
  policy.record(100, duration<double>(0.0));
  EXPECT_EQ(policy.tokens_per_second(), 0.0);
}

TEST(ChunkPolicy, FixedChunksCrossPageEdges) {
  ChunkPolicyOptions options;
  options.fixed_tokens = 7;
  const ChunkPolicy policy(options);
  EXPECT_EQ(policy.next_chunk(60, 5000, true, kNoLimit), 7U);
  EXPECT_EQ(policy.next_chunk(4998, 5000, true, kNoLimit), 2U);
  EXPECT_EQ(policy.next_chunk(0, 5000, true, 5), 5U);
}

}  // namespace
}  // namespace cairn
