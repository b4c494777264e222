// A tree with its pool, and short ways to fill it.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "cache/fake_backend.h"
#include "cache/prefix_tree.h"

namespace cairn::testing {

class TreeFixture {
 public:
  static constexpr uint32_t kPageTokens16 = 16;

  explicit TreeFixture(size_t n_slots = 256)
      : pool(backend, n_slots * 4096, 16 * 4096), tree(kPageTokens16) {
    root = tree.add_root(root_key(fake_root(kPageTokens16)));
  }

  ~TreeFixture() {
    EXPECT_TRUE(tree.check_invariants().is_ok()) << tree.check_invariants().message();
  }

  TreeFixture(const TreeFixture&) = delete;
  TreeFixture& operator=(const TreeFixture&) = delete;
  TreeFixture(TreeFixture&&) = delete;
  TreeFixture& operator=(TreeFixture&&) = delete;

  std::vector<Slot> slots() {
    std::vector<Slot> made;
    Result<Slot> slot = pool.acquire(4096);
    EXPECT_TRUE(slot.is_ok());
    if (slot.is_ok()) made.push_back(std::move(*slot));
    return made;
  }

  // Nodes for all of `ids`, whole pages and a leaf for the rest, all resident. Returns the path.
  std::vector<CacheNode*> put(const std::vector<TokenId>& ids) {
    std::vector<CacheNode*> path;
    CacheNode* parent = tree.root(root);
    for (size_t at = 0; at < ids.size(); at += kPageTokens16) {
      const size_t n = std::min<size_t>(kPageTokens16, ids.size() - at);
      const std::span<const TokenId> part(ids.data() + at, n);
      CacheNode* node = tree.insert(parent, part, chain_key(parent->key, part));
      if (!node->is_resident()) tree.give_slots(node, slots());
      path.push_back(node);
      parent = node;
    }
    return path;
  }

  void put_on_disk(CacheNode* node, uint64_t object_id) {
    tree.set_disk(node, DiskPlace{.object_id = object_id, .page_index = 0});
  }

  PrefixMatch match(const std::vector<TokenId>& ids, size_t max = SIZE_MAX) {
    return tree.match(root, ids, max);
  }

  bool drop_to(size_t n_resident) {
    return tree.evict_until([&] { return tree.n_resident() <= n_resident; },
                            [&](const CacheNode& node) { dropped.push_back(node.tokens.front()); });
  }

  FakeBackend backend;
  PagePool pool;
  PrefixTree tree;
  uint32_t root = 0;
  std::vector<TokenId> dropped;  // first ids of evicted nodes, in order
};

// n ids counting up from `first`.
inline std::vector<TokenId> count_up(TokenId first, size_t n) {
  std::vector<TokenId> ids(n);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

inline std::vector<TokenId> join(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace cairn::testing
