#include "cache/prefix_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/tree_fixture.h"

namespace cairn {
namespace {

using testing::count_up;
using ::testing::ElementsAre;
using testing::join;
using testing::TreeFixture;

TEST(PrefixTree, MatchesWholePagesAndALeaf) {
  TreeFixture f;
  f.put(count_up(0, 40));
  const PrefixMatch match = f.match(count_up(0, 100));
  EXPECT_EQ(match.pages.size(), 2U);
  ASSERT_NE(match.partial, nullptr);
  EXPECT_EQ(match.partial_rows, 8U);
  EXPECT_EQ(match.n_tokens, 40U);
  EXPECT_EQ(match.end, MatchEnd::kEnded);
}

TEST(PrefixTree, NeverReusesTheLastToken) {
  TreeFixture f;
  f.put(count_up(0, 32));
  for (size_t n = 1; n <= 34; ++n) {
    EXPECT_EQ(f.match(count_up(0, n)).n_tokens, std::min<size_t>(n - 1, 32)) << n;
  }
  EXPECT_EQ(f.match({}).n_tokens, 0U);
}

TEST(PrefixTree, MatchesIntoTheMiddleOfAPage) {
  TreeFixture f;
  f.put(count_up(0, 48));
  for (size_t cut = 0; cut < 48; ++cut) {
    const PrefixMatch match = f.match(join(count_up(0, cut), count_up(1000, 20)));
    EXPECT_EQ(match.n_tokens, cut);
    EXPECT_EQ(match.pages.size(), cut / 16);
    EXPECT_EQ(match.partial_rows, cut % 16);
    EXPECT_EQ(match.partial != nullptr, cut % 16 != 0);
    EXPECT_EQ(match.end, cut == 0 ? MatchEnd::kEmpty : MatchEnd::kDiverged);
  }
}

TEST(PrefixTree, CapsWhatItReuses) {
  TreeFixture f;
  f.put(count_up(0, 64));
  for (size_t cap = 0; cap <= 64; ++cap) {
    const PrefixMatch match = f.match(count_up(0, 200), cap);
    EXPECT_EQ(match.n_tokens, cap);
    EXPECT_EQ(match.partial_rows, cap % 16);
  }
}

TEST(PrefixTree, TheLongestCommonRunWinsAmongManyChildren) {
  TreeFixture f(4096);
  // 1,000 pages under one parent, told apart by two ids; the best is rarely a neighbour by first
  // id.
  for (TokenId a = 0; a < 100; ++a) {
    for (TokenId b = 0; b < 10; ++b) f.put(join({a, b * 10}, count_up(500, 14)));
  }
  for (TokenId a = 0; a < 100; ++a) {
    for (TokenId b = 0; b < 10; ++b) {
      EXPECT_EQ(f.match(join({a, b * 10}, count_up(500, 5))).n_tokens, 6U);
      EXPECT_EQ(f.match(join({a, b * 10 + 1}, count_up(500, 5))).n_tokens, 1U);
    }
  }
  EXPECT_EQ(f.match({100, 1, 2}).n_tokens, 0U);
}

TEST(PrefixTree, PrefersAnEquallyLongChildThatIsInMemory) {
  TreeFixture f;
  const auto first = f.put(join(count_up(0, 8), count_up(100, 8)));
  const auto second = f.put(join(count_up(0, 8), count_up(200, 8)));
  f.put_on_disk(first[0], 1);
  f.put_on_disk(second[0], 2);
  f.tree.drop_slots(first[0]);
  EXPECT_EQ(f.match(join(count_up(0, 8), count_up(50, 8))).partial, second[0]);
  f.tree.give_slots(first[0], f.slots());
  f.tree.drop_slots(second[0]);
  EXPECT_EQ(f.match(join(count_up(0, 8), count_up(50, 8))).partial, first[0]);
}

TEST(PrefixTree, StopsAtPagesWithoutBytes) {
  TreeFixture f;
  const auto path = f.put(count_up(0, 64));
  f.tree.drop_slots(path[1]);
  const PrefixMatch match = f.match(count_up(0, 100));
  EXPECT_EQ(match.n_tokens, 16U);
  EXPECT_EQ(match.end, MatchEnd::kDropped);
  f.put_on_disk(path[1], 9);
  EXPECT_EQ(f.match(count_up(0, 100)).n_tokens, 64U);
  EXPECT_EQ(f.tree.match(f.root, count_up(0, 100), SIZE_MAX, MatchScope::kMemory).n_tokens, 16U);
}

TEST(PrefixTree, RootsDoNotShare) {
  TreeFixture f;
  f.put(count_up(0, 32));
  RootSpec other = testing::fake_root(16);
  other.key_namespace = "other";
  const uint32_t second = f.tree.add_root(root_key(other));
  EXPECT_NE(second, f.root);
  EXPECT_EQ(f.tree.add_root(root_key(other)), second);
  EXPECT_EQ(f.tree.match(second, count_up(0, 32), SIZE_MAX).n_tokens, 0U);
}

TEST(PrefixTree, FindsNodesByKeyUnderTheirRootOnly) {
  TreeFixture f;
  const auto path = f.put(count_up(0, 40));
  for (CacheNode* node : path) EXPECT_EQ(f.tree.find(f.root, node->key), node);
  EXPECT_EQ(f.tree.find(f.root + 1, path[0]->key), nullptr);
  EXPECT_EQ(f.tree.find(f.root, PageKey{}), nullptr);
}

TEST(PrefixTree, EvictsLeastRecentlyUsedAndChildrenFirst) {
  TreeFixture f;
  f.put(count_up(100, 48));
  f.put(count_up(200, 32));
  f.put(count_up(300, 16));
  f.match(join(count_up(100, 32), {0, 0}));  // its third page stays old
  EXPECT_TRUE(f.drop_to(0));
  EXPECT_THAT(f.dropped, ElementsAre(132, 216, 200, 300, 116, 100));
  EXPECT_EQ(f.tree.n_nodes(), 0U);
}

TEST(PrefixTree, EvictsCleanBeforeDirty) {
  TreeFixture f;
  f.put(count_up(100, 32));
  const auto newer = f.put(count_up(200, 32));
  f.put_on_disk(newer[0], 1);
  f.put_on_disk(newer[1], 2);
  EXPECT_TRUE(f.drop_to(0));
  EXPECT_THAT(f.dropped, ElementsAre(216, 200, 116, 100));
  EXPECT_EQ(f.tree.n_nodes(), 2U);  // those on disk stay known
}

TEST(PrefixTree, EvictSkipsLeased) {
  TreeFixture f;
  const auto path = f.put(count_up(0, 32));
  f.put(count_up(100, 16));
  for (CacheNode* node : path) f.tree.lease(node);
  EXPECT_FALSE(f.drop_to(0));
  EXPECT_EQ(f.tree.n_resident(), 2U);
  EXPECT_EQ(f.tree.n_leased_slots(4096), 2U);
  EXPECT_TRUE(path[0]->is_resident() && path[1]->is_resident());
  for (CacheNode* node : path) f.tree.unlease(node);
  EXPECT_EQ(f.tree.n_leased_slots(4096), 0U);
  EXPECT_TRUE(f.drop_to(0));
}

TEST(PrefixTree, ALeaseCountsAndOutlivesEviction) {
  TreeFixture f;
  CacheNode* node = f.put(count_up(0, 16))[0];
  f.tree.lease(node);
  f.tree.lease(node);
  f.tree.unlease(node);
  EXPECT_FALSE(f.drop_to(0));
  f.tree.unlease(node);
  EXPECT_TRUE(f.drop_to(0));
}

TEST(PrefixTree, RemovesLeavesThatALongerChildServes) {
  TreeFixture f;
  const auto one = count_up(0, 17);
  f.put(one);
  f.put(join(count_up(0, 16), {16, 17, 18}));
  f.put(join(count_up(0, 16), {16, 99}));  // another timeline
  CacheNode* page = f.put(count_up(0, 32))[1];
  size_t n_offered = 0;
  f.tree.remove_superseded(*page, [&](CacheNode&) {
    ++n_offered;
    return true;
  });
  EXPECT_EQ(n_offered, 2U);
  EXPECT_EQ(f.tree.n_nodes(), 3U);
  EXPECT_EQ(f.match(join(count_up(0, 16), {16, 99, 5})).n_tokens, 18U);
  EXPECT_EQ(f.match(join(one, {7})).n_tokens, 17U);
}

TEST(PrefixTree, KeepsLeavesThatAreLeasedOrVetoed) {
  TreeFixture f;
  CacheNode* leased = f.put(count_up(0, 17))[1];
  f.put(count_up(0, 18));
  f.tree.lease(leased);
  CacheNode* page = f.put(count_up(0, 32))[1];
  f.tree.remove_superseded(*page, [](CacheNode& leaf) { return leaf.tokens.size() != 2; });
  EXPECT_EQ(f.tree.n_nodes(), 4U);
  f.tree.unlease(leased);
  f.tree.remove_superseded(*page, [](CacheNode&) { return true; });
  EXPECT_EQ(f.tree.n_nodes(), 2U);
}

TEST(PrefixTree, KnowsWhichChildrenCoverIds) {
  TreeFixture f;
  const auto path = f.put(count_up(0, 32));
  const CacheNode* root = f.tree.root(f.root);
  const auto always = [](const CacheNode&) { return true; };
  EXPECT_TRUE(f.tree.any_covering(*root, count_up(0, 3), always));
  EXPECT_TRUE(f.tree.any_covering(*root, count_up(0, 16), always));
  EXPECT_FALSE(f.tree.any_covering(*root, std::vector<TokenId>{0, 2}, always));
  EXPECT_FALSE(f.tree.any_covering(*root, count_up(0, 3), [](const CacheNode&) { return false; }));
  f.tree.drop_slots(path[0]);
  EXPECT_FALSE(f.tree.any_covering(*root, count_up(0, 3), always));
}

TEST(PrefixTree, PrunesUpToWhatIsStillUseful) {
  TreeFixture f;
  const auto path = f.put(count_up(0, 64));
  const auto fork = f.put(join(count_up(0, 16), count_up(100, 16)));
  for (size_t i = 0; i + 1 < path.size(); ++i) f.tree.drop_slots(path[i]);
  f.tree.prune(path[2]);  // has a child
  EXPECT_EQ(f.tree.n_nodes(), 5U);
  f.tree.drop_slots(path[3]);
  f.tree.prune(path[3]);
  EXPECT_EQ(f.tree.n_nodes(), 2U);
  EXPECT_EQ(f.tree.find(f.root, fork[1]->key), fork[1]);
}

TEST(PrefixTree, CountsResidentAndDirty) {
  TreeFixture f;
  const auto path = f.put(count_up(0, 48));
  EXPECT_EQ(f.tree.n_resident(), 3U);
  EXPECT_EQ(f.tree.n_dirty(), 3U);
  f.put_on_disk(path[0], 1);
  EXPECT_EQ(f.tree.n_dirty(), 2U);
  f.tree.set_may_persist(path[1], false);
  EXPECT_EQ(f.tree.n_dirty(), 1U);
  f.tree.set_disk(path[0], DiskPlace{});
  EXPECT_EQ(f.tree.n_dirty(), 2U);
  f.tree.set_may_persist(path[1], true);
  EXPECT_GT(f.tree.memory_bytes(), 48 * sizeof(TokenId));
}

TEST(PrefixTree, SurvivesChainsThousandsOfPagesLong) {
  TreeFixture f(32);
  CacheNode* parent = f.tree.root(f.root);
  const auto ids = count_up(0, 16);
  for (uint64_t i = 1; i <= 20'000; ++i) {
    parent = f.tree.insert(parent, ids, chain_key(parent->key, ids));
    f.tree.set_disk(parent, DiskPlace{.object_id = i, .page_index = 0});
  }
  EXPECT_EQ(f.tree.n_nodes(), 20'000U);
  EXPECT_EQ(parent->depth, 19'999U);
}

class CountingObserver final : public TreeObserver {
 public:
  void on_changed(CacheNode&) override { ++n_changed; }

  void on_removed(CacheNode&) override { ++n_removed; }

  size_t n_changed = 0;
  size_t n_removed = 0;
};

TEST(PrefixTree, TellsItsObserver) {
  CountingObserver observer;
  TreeFixture f;
  f.tree.set_observer(&observer);
  const auto path = f.put(count_up(0, 16));
  EXPECT_EQ(observer.n_changed, 2U);  // new, then with slots
  f.put_on_disk(path[0], 1);
  f.tree.set_writing(path[0], false);
  EXPECT_EQ(observer.n_changed, 4U);
  f.tree.set_disk(path[0], DiskPlace{});
  f.drop_to(0);
  EXPECT_EQ(observer.n_removed, 1U);
  f.tree.set_observer(nullptr);
}

TEST(PrefixTree, TellsHowTheNearestTimelineGoesOn) {
  TreeFixture f;
  std::vector<TokenId> ids(40);
  std::iota(ids.begin(), ids.end(), TokenId{100});
  std::vector<TokenId> other(ids.begin(), ids.begin() + 16);
  other.insert(other.end(), 10, TokenId{7});
  f.put(ids);
  f.put(other);
  const auto after = [&](std::vector<TokenId> prompt, size_t n_max) {
    prompt.push_back(1);
    prompt.push_back(2);
    return f.tree.continuation(f.root, f.tree.peek(f.root, prompt, SIZE_MAX), n_max);
  };
  // In the middle of a page, then on through its children.
  EXPECT_EQ(after({ids.begin(), ids.begin() + 20}, 100),
            std::vector<TokenId>(ids.begin() + 20, ids.end()));
  EXPECT_EQ(after({ids.begin(), ids.begin() + 20}, 5),
            std::vector<TokenId>(ids.begin() + 20, ids.begin() + 25));
  // At a page edge where nothing is shared: the one that was used last.
  EXPECT_EQ(after({ids.begin(), ids.begin() + 16}, 100), std::vector<TokenId>(10, TokenId{7}));
  EXPECT_TRUE(after(ids, 100).empty());
}

}  // namespace
}  // namespace cairn
