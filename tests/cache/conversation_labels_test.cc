#include "cache/conversation_labels.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

PageKey end_key(TokenId id) {
  return chain_key(PageKey{}, std::vector<TokenId>{id});
}

TEST(ConversationLabels, KeepsTheEndsOfEachLabelOfEachRoot) {
  ConversationLabels labels;
  labels.record(0, "a", end_key(1));
  labels.record(0, "a", end_key(2));
  labels.record(0, "a", end_key(1));  // again: the newest now
  labels.record(1, "a", end_key(3));
  EXPECT_EQ(labels.ends(0, "a"), (std::vector<PageKey>{end_key(2), end_key(1)}));
  EXPECT_EQ(labels.ends(1, "a"), (std::vector<PageKey>{end_key(3)}));
  EXPECT_TRUE(labels.ends(0, "b").empty());
}

TEST(ConversationLabels, KnowsWhoElseEndsThere) {
  ConversationLabels labels;
  labels.record(0, "a", end_key(1));
  EXPECT_FALSE(labels.is_end_of_other(0, "a", end_key(1)));
  EXPECT_TRUE(labels.is_end_of_other(0, "b", end_key(1)));
  labels.record(0, "b", end_key(1));
  EXPECT_TRUE(labels.is_end_of_other(0, "a", end_key(1)));
  labels.forget(0, "b");
  EXPECT_FALSE(labels.is_end_of_other(0, "a", end_key(1)));
  EXPECT_FALSE(labels.is_end_of_other(0, "a", end_key(2)));
}

TEST(ConversationLabels, WhatWasUsedLongestAgoGoesFirst) {
  ConversationLabels labels({.n_labels = 2, .n_ends = 2});
  labels.record(0, "a", end_key(1));
  labels.record(0, "b", end_key(2));
  labels.record(0, "a", end_key(3));
  labels.record(0, "c", end_key(4));
  EXPECT_TRUE(labels.ends(0, "b").empty());
  labels.record(0, "a", end_key(5));
  EXPECT_EQ(labels.ends(0, "a"), (std::vector<PageKey>{end_key(3), end_key(5)}));
  EXPECT_EQ(labels.n_labels(), 2U);
  EXPECT_FALSE(labels.is_end_of_other(0, "", end_key(1)));
}

TEST(ConversationLabels, ARootTakesItsLabelsAlongAndNothingIsLeft) {
  ConversationLabels labels;
  for (uint32_t root = 0; root < 3; ++root) {
    labels.record(root, "", end_key(root));
    labels.record(root, "x", end_key(10 + root));
  }
  labels.forget_root(1);
  EXPECT_EQ(labels.n_labels(), 4U);
  EXPECT_TRUE(labels.ends(1, "x").empty());
  EXPECT_FALSE(labels.ends(2, "x").empty());
  labels.forget_root(0);
  labels.forget_root(2);
  EXPECT_EQ(labels.memory_bytes(), 0U);
}

}  // namespace
}  // namespace cairn
