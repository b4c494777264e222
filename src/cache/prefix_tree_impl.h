// The insides of PrefixTree, shared by its three source files. Not for other layers.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "cache/prefix_tree.h"

namespace cairn {

// Least recently useful first; among equals the deepest, so that children go before parents.
struct EvictionOrder {
  bool operator()(const CacheNode* a, const CacheNode* b) const {
    if (a->queued_use != b->queued_use) return a->queued_use < b->queued_use;
    if (a->depth != b->depth) return a->depth > b->depth;
    return a->serial < b->serial;
  }
};

using EvictionQueue = std::set<CacheNode*, EvictionOrder>;

struct PrefixTree::Impl {
  uint32_t page_tokens = 0;
  std::vector<std::unique_ptr<CacheNode>> roots;  // [root_index]; null where one was removed
  std::vector<uint32_t> free_root_indices;
  std::unordered_map<RootKey, uint32_t, DigestHash> root_indices;
  std::unordered_map<PageKey, CacheNode*, DigestHash> by_key;
  TreeObserver* observer = nullptr;

  // Resident nodes that nobody leases. Positions are by queued_use, which may lag behind last_use:
  // a node that comes up too early is put back with its true use, so that touch() stays a plain
  // store.
  EvictionQueue clean;
  EvictionQueue dirty;

  uint64_t tick = 0;
  uint64_t n_made = 0;
  size_t n_resident = 0;
  size_t n_dirty = 0;
  size_t n_ids = 0;
  std::map<size_t, size_t> leased_slots;  // slot size -> slots of leased nodes

  // Runs `change` on the node and brings counts and eviction order up to date.
  template <typename Change>
  void transition(CacheNode* node, const Change& change);
  void count(const CacheNode& node, bool add);
  void requeue(CacheNode* node);
  EvictionQueue* queue_of(CacheNode::Queue queue);
  CacheNode* next_to_evict();

  void notify(CacheNode* node) {
    if (observer != nullptr) observer->on_changed(*node);
  }

  // Takes the node out of its parent and all orders. Requires no children and no leases.
  void destroy(CacheNode* node);

  PrefixMatch find_match(uint32_t root_index,
                         std::span<const TokenId> tokens,
                         size_t max_tokens,
                         MatchScope scope) const;

  Status check_node(const CacheNode& node) const;
};

// Visits every node except roots, parents first, without recursion: chains are thousands deep.
template <typename Visit>
void visit_nodes(const std::vector<std::unique_ptr<CacheNode>>& roots, const Visit& visit) {
  std::vector<CacheNode*> pending;
  for (const auto& root : roots) {
    if (root != nullptr) pending.push_back(root.get());
  }
  while (!pending.empty()) {
    CacheNode* node = pending.back();
    pending.pop_back();
    for (const auto& [ids, child] : node->children) pending.push_back(child.get());
    if (!node->is_root()) visit(*node);
  }
}

}  // namespace cairn
