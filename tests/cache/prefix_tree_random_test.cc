// Random steps on a tree against a model that knows nothing of trees: the set of prefixes with
// bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "cache/tree_fixture.h"
#include "support/test_size.h"

namespace cairn {
namespace {

using testing::TreeFixture;
using Ids = std::vector<TokenId>;

// Few different ids and short forks, so that timelines collide often.
class RandomTree {
 public:
  explicit RandomTree(uint64_t seed) : rng_(seed) {}

  void step() {
    switch (pick(8)) {
      case 0:
      case 1:
      case 2:
        add();
        break;
      case 3:
        evict();
        break;
      case 4:
        move_to_disk();
        break;
      case 5:
        lease_or_release();
        break;
      default:
        compare(random_ids());
    }
    ASSERT_TRUE(f_.tree.check_invariants().is_ok()) << f_.tree.check_invariants().message();
    ASSERT_EQ(f_.tree.n_resident() * 4096, f_.pool.used_bytes());
  }

  void release_all() {
    for (CacheNode* node : leased_) {
      f_.tree.unlease(node);
      f_.tree.prune(node);
    }
    leased_.clear();
  }

 private:
  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(rng_); }

  Ids random_ids() {
    Ids ids;
    if (!known_.empty() && pick(4) != 0) {
      ids = *std::next(known_.begin(), static_cast<std::ptrdiff_t>(pick(known_.size())));
      ids.resize(pick(ids.size() + 1));
    }
    const size_t n = 1 + pick(40);
    for (size_t i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>(pick(2)));
    return ids;
  }

  void add() {
    if (f_.tree.n_resident() > 150) return;
    const Ids ids = random_ids();
    for (CacheNode* node : f_.put(ids)) remember(node);
    known_.insert(ids);
    if (known_.size() > 60)
      known_.erase(std::next(known_.begin(), static_cast<std::ptrdiff_t>(pick(known_.size()))));
  }

  void remember(CacheNode* node) {
    Ids ids;
    for (const CacheNode* n = node; !n->is_root(); n = n->parent) {
      ids.insert(ids.begin(), n->tokens.begin(), n->tokens.end());
    }
    model_[ids] = node;
  }

  // Bytes that are gone everywhere are gone from the model; nodes may be gone from the tree.
  void forget(const PageKey& key) {
    std::erase_if(model_, [&](const auto& entry) { return keys_.at(entry.second) == key; });
  }

  void evict() {
    remember_keys();
    const size_t n_target = f_.tree.n_resident() - std::min<size_t>(f_.tree.n_resident(), pick(20));
    f_.tree.evict_until([&] { return f_.tree.n_resident() <= n_target; },
                        [&](const CacheNode& node) {
                          EXPECT_EQ(node.n_leases, 0U);
                          if (!node.has_bytes()) forget(node.key);
                        });
  }

  void remember_keys() {
    keys_.clear();
    for (const auto& [ids, node] : model_) keys_[node] = node->key;
  }

  CacheNode* random_node() {
    if (model_.empty()) return nullptr;
    return std::next(model_.begin(), static_cast<std::ptrdiff_t>(pick(model_.size())))->second;
  }

  void move_to_disk() {
    CacheNode* node = random_node();
    if (node == nullptr) return;
    if (!node->disk.is_set()) {
      f_.put_on_disk(node, ++last_object_);
      return;
    }
    remember_keys();
    const PageKey key = node->key;
    f_.tree.set_disk(node, DiskPlace{});
    if (!node->has_bytes()) forget(key);
    f_.tree.prune(node);
  }

  void lease_or_release() {
    if (!leased_.empty() && pick(2) == 0) {
      const size_t i = pick(leased_.size());
      CacheNode* node = leased_[i];
      leased_.erase(leased_.begin() + static_cast<std::ptrdiff_t>(i));
      f_.tree.unlease(node);
      f_.tree.prune(node);
    } else if (CacheNode* node = random_node(); node != nullptr && leased_.size() < 20) {
      f_.tree.lease(node);
      leased_.push_back(node);
    }
  }

  // A front of n ids is reusable when every whole page in it has bytes and some node with bytes
  // holds the rest.
  size_t reusable(const Ids& prompt) const {
    size_t n_whole = 0;
    while (n_whole + 16 <= prompt.size() - 1 &&
           model_.count(Ids(prompt.begin(),
                            prompt.begin() + static_cast<std::ptrdiff_t>(n_whole) + 16)) > 0) {
      n_whole += 16;
    }
    size_t best = n_whole;
    for (const auto& [ids, node] : model_) {
      if (ids.size() <= n_whole || ids.size() > n_whole + 16) continue;
      const size_t cap = std::min(prompt.size() - 1, ids.size());
      size_t n = 0;
      while (n < cap && ids[n] == prompt[n]) ++n;
      if (n > n_whole) best = std::max(best, n);
    }
    return best;
  }

  void compare(const Ids& prompt) {
    const PrefixMatch match = f_.match(prompt);
    ASSERT_EQ(match.n_tokens, reusable(prompt));
    Ids ids;
    for (const CacheNode* node : match.pages)
      ids.insert(ids.end(), node->tokens.begin(), node->tokens.end());
    if (match.partial != nullptr) {
      ids.insert(ids.end(),
                 match.partial->tokens.begin(),
                 match.partial->tokens.begin() + match.partial_rows);
    }
    ASSERT_TRUE(std::equal(ids.begin(), ids.end(), prompt.begin()));
    ASSERT_LT(match.n_tokens, prompt.size());
  }

  std::mt19937_64 rng_;
  TreeFixture f_{512};
  std::map<Ids, CacheNode*> model_;  // prefixes that end a node with bytes
  std::map<const CacheNode*, PageKey> keys_;
  std::set<Ids> known_;
  std::vector<CacheNode*> leased_;
  uint64_t last_object_ = 0;
};

TEST(PrefixTreeRandom, AgreesWithANaiveModel) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomTree random(seed);
    for (size_t i = 0; i < testing::scaled(1500); ++i) {
      random.step();
      if (::testing::Test::HasFatalFailure()) return;
    }
    random.release_all();
  }
}

}  // namespace
}  // namespace cairn
