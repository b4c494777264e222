#include "cache/anchor_table.h"

#include <gtest/gtest.h>

#include <numeric>

namespace cairn {
namespace {

AnchorKey key_of(uint8_t number) {
  AnchorKey key;
  key.bytes[0] = static_cast<std::byte>(number);
  return key;
}

Anchor anchor(uint8_t number, std::optional<uint8_t> parent, std::vector<TokenId> ids) {
  Anchor made{.key = key_of(number), .parent = std::nullopt, .ids = std::move(ids)};
  if (parent) made.parent = key_of(*parent);
  return made;
}

TEST(AnchorTable, GivesTheIdsOfTheWholeChain) {
  AnchorTable table(1 << 20);
  table.add(anchor(1, std::nullopt, {5, 6}));
  table.add(anchor(2, 1, {7}));
  table.add(anchor(3, 2, {8, 9}));
  EXPECT_EQ(table.find(key_of(3)), (std::vector<TokenId>{5, 6, 7, 8, 9}));
  EXPECT_EQ(table.find(key_of(1)), (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(table.find(key_of(4)), std::nullopt);
  EXPECT_EQ(table.n_anchors(), 3U);
}

TEST(AnchorTable, WithoutItsParentAnAnchorIsOfNoUse) {
  AnchorTable table(1 << 20);
  table.add(anchor(1, std::nullopt, {5}));
  table.add(anchor(2, 1, {7}));
  table.remove(key_of(1));
  EXPECT_EQ(table.find(key_of(2)), std::nullopt);
  table.add(anchor(1, std::nullopt, {6}));
  EXPECT_EQ(table.find(key_of(2)), (std::vector<TokenId>{6, 7}));
}

TEST(AnchorTable, TheNewestOfAKeyWinsAndEmptyOnesAreIgnored) {
  AnchorTable table(1 << 20);
  table.add(anchor(1, std::nullopt, {5}));
  table.add(anchor(1, std::nullopt, {6, 7}));
  table.add(anchor(1, std::nullopt, {}));
  EXPECT_EQ(table.find(key_of(1)), (std::vector<TokenId>{6, 7}));
  EXPECT_EQ(table.n_anchors(), 1U);
  table.remove(key_of(1));
  EXPECT_EQ(table.memory_bytes(), 0U);
}

TEST(AnchorTable, ACircleEnds) {
  AnchorTable table(1 << 20);
  table.add(anchor(1, 2, {5}));
  table.add(anchor(2, 1, {6}));
  table.add(anchor(3, 3, {7}));
  EXPECT_EQ(table.find(key_of(1)), std::nullopt);
  EXPECT_EQ(table.find(key_of(3)), std::nullopt);
}

TEST(AnchorTable, StaysWithinItsBytesAndKeepsWhatIsUsed) {
  constexpr size_t kMaxBytes = 16 << 10;
  AnchorTable table(kMaxBytes);
  std::vector<TokenId> ids(100);
  std::iota(ids.begin(), ids.end(), 0U);
  table.add(anchor(1, std::nullopt, ids));
  table.add(anchor(2, 1, ids));
  for (uint8_t i = 3; i < 200; ++i) {
    table.add(anchor(i, std::nullopt, ids));
    EXPECT_LE(table.memory_bytes(), kMaxBytes);
    ASSERT_TRUE(table.find(key_of(2)).has_value()) << "its parent went before it, after " << i;
  }
  EXPECT_EQ(table.find(key_of(3)), std::nullopt);
  table.add(anchor(200, std::nullopt, std::vector<TokenId>(kMaxBytes)));
  EXPECT_EQ(table.find(key_of(200)), std::nullopt) << "larger than everything may be";
}

}  // namespace
}  // namespace cairn
