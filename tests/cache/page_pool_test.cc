#include "cache/page_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <utility>

#include "cache/fake_backend.h"

namespace cairn {
namespace {

constexpr size_t kChunk = 64 << 10;
constexpr size_t kPage = 4096;

std::vector<Slot> take(PagePool& pool, size_t n, size_t page_bytes = kPage) {
  std::vector<Slot> slots;
  for (size_t i = 0; i < n; ++i) {
    Result<Slot> slot = pool.acquire(page_bytes);
    if (!slot.is_ok()) break;
    slots.push_back(std::move(*slot));
  }
  return slots;
}

TEST(PagePool, HandsOutAlignedSlotsThatDoNotOverlap) {
  testing::FakeBackend backend;
  PagePool pool(backend, 4 * kChunk, kChunk);
  const std::vector<Slot> slots = take(pool, 40);
  ASSERT_EQ(slots.size(), 40U);
  std::set<std::byte*> starts;
  for (const Slot& slot : slots) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slot.data()) % 4096, 0U);
    EXPECT_EQ(slot.n_bytes(), kPage);
    std::memset(slot.data(), 0xff, kPage);
    starts.insert(slot.data());
  }
  EXPECT_EQ(starts.size(), 40U);
  for (auto it = starts.begin(); std::next(it) != starts.end(); ++it) {
    EXPECT_GE(static_cast<size_t>(*std::next(it) - *it), kPage);
  }
  EXPECT_EQ(pool.used_bytes(), 40 * kPage);
  EXPECT_EQ(pool.chunk_bytes(), 3 * kChunk);
}

TEST(PagePool, RefusesBeyondTheBudgetAndCountsWholeChunks) {
  testing::FakeBackend backend;
  PagePool pool(backend, 2 * kChunk + 100, kChunk);
  EXPECT_EQ(pool.budget_bytes(), 2 * kChunk);
  EXPECT_EQ(pool.capacity_slots(kPage), 32U);
  std::vector<Slot> slots = take(pool, 100);
  EXPECT_EQ(slots.size(), 32U);
  EXPECT_FALSE(pool.can_acquire(kPage));
  const Result<Slot> refused = pool.acquire(kPage);
  ASSERT_FALSE(refused.is_ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kOverloaded);
  slots.pop_back();
  EXPECT_TRUE(pool.can_acquire(kPage));
  EXPECT_TRUE(pool.acquire(kPage).is_ok());
}

TEST(PagePool, GivesChunksBackWhenTheirLastSlotGoes) {
  testing::FakeBackend backend;
  PagePool pool(backend, 4 * kChunk, kChunk);
  std::vector<Slot> slots = take(pool, 33);
  EXPECT_EQ(pool.chunk_bytes(), 3 * kChunk);
  slots.pop_back();  // alone in the third
  EXPECT_EQ(pool.chunk_bytes(), 2 * kChunk);
  slots.erase(slots.begin(), slots.begin() + 16);
  EXPECT_EQ(pool.chunk_bytes(), kChunk);
  slots.clear();
  EXPECT_EQ(pool.chunk_bytes(), 0U);
  EXPECT_EQ(pool.used_bytes(), 0U);
}

TEST(PagePool, KeepsOneSlotSizeAChunk) {
  testing::FakeBackend backend;
  PagePool pool(backend, 3 * kChunk, kChunk);
  const std::vector<Slot> small = take(pool, 1);
  const std::vector<Slot> large = take(pool, 1, 2 * kPage);
  EXPECT_EQ(pool.chunk_bytes(), 2 * kChunk);
  EXPECT_NE(small[0].chunk(), large[0].chunk());
  const std::vector<Slot> third = take(pool, 1, 3 * kPage);
  EXPECT_TRUE(third.size() == 1);
  EXPECT_FALSE(pool.can_acquire(5 * kPage));
  EXPECT_TRUE(pool.can_acquire(2 * kPage));
}

TEST(PagePool, ASlotLargerThanAChunkGetsOneOfItsOwn) {
  testing::FakeBackend backend;
  PagePool pool(backend, 4 * kChunk, kChunk);
  std::vector<Slot> slots = take(pool, 2, 2 * kChunk);
  ASSERT_EQ(slots.size(), 2U);
  std::memset(slots[1].data(), 1, 2 * kChunk);
  EXPECT_EQ(pool.chunk_bytes(), 4 * kChunk);
  EXPECT_FALSE(pool.can_acquire(kPage));
  slots.clear();
  EXPECT_EQ(pool.chunk_bytes(), 0U);
}

TEST(PagePool, OtherBytesShrinkWhatChunksMayTake) {
  testing::FakeBackend backend;
  PagePool pool(backend, 3 * kChunk, kChunk);
  std::vector<Slot> slots = take(pool, 48);
  EXPECT_FALSE(pool.is_over_budget());
  pool.set_other_bytes(kChunk / 2);
  EXPECT_TRUE(pool.is_over_budget());
  EXPECT_FALSE(pool.can_acquire(kPage));
  slots.resize(32);
  EXPECT_FALSE(pool.is_over_budget());
  EXPECT_FALSE(pool.can_acquire(kPage));
  pool.set_other_bytes(0);
  EXPECT_TRUE(pool.can_acquire(kPage));
  // However much lies beside it, one chunk stays usable.
  slots.clear();
  pool.set_other_bytes(100 * kChunk);
  EXPECT_TRUE(pool.can_acquire(kPage));
}

TEST(PagePool, MovesOwnership) {
  testing::FakeBackend backend;
  PagePool pool(backend, kChunk, kChunk);
  Slot a = std::move(*pool.acquire(kPage));
  std::byte* data = a.data();
  Slot b(std::move(a));
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(b.data(), data);
  Slot c = std::move(*pool.acquire(kPage));
  EXPECT_EQ(pool.used_bytes(), 2 * kPage);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(pool.used_bytes(), kPage);
  c.reset();
  EXPECT_FALSE(c);
  EXPECT_EQ(pool.used_bytes(), 0U);
}

TEST(PagePool, PassesOnThatTheSystemHasNoMemory) {
  testing::FakeBackend backend;
  PagePool pool(backend, kChunk, kChunk);
  backend.refuse_memory = true;
  EXPECT_EQ(pool.acquire(kPage).status().code(), StatusCode::kNoSpace);
  backend.refuse_memory = false;
  EXPECT_TRUE(pool.acquire(kPage).is_ok());
}

TEST(PagePool, NamesTheEmptiestChunkFirst) {
  testing::FakeBackend backend;
  PagePool pool(backend, 4 * kChunk, kChunk);
  std::vector<Slot> slots = take(pool, 48);
  const uint32_t middle = slots[20].chunk();
  slots.erase(slots.begin() + 17, slots.begin() + 31);
  EXPECT_EQ(pool.emptiest_chunks().front(), middle);
  EXPECT_EQ(pool.live_slots(middle), 2U);
}

}  // namespace
}  // namespace cairn
