// What must hold in a PrefixTree between two calls.
#include <fmt/core.h>

#include "cache/prefix_tree.h"
#include "cache/prefix_tree_impl.h"

namespace cairn {

namespace {

Status broken(const CacheNode& node, std::string_view what) {
  return Status::internal(fmt::format(
      "tree node {} at depth {}: {}", to_hex(node.key).substr(0, 12), node.depth, what));
}

}  // namespace

Status PrefixTree::Impl::check_node(const CacheNode& node) const {
  const CacheNode& parent = *node.parent;
  const auto here = parent.children.find(std::span<const TokenId>(node.tokens));
  if (here == parent.children.end() || here->second.get() != &node) {
    return broken(node, "not under its ids in its parent");
  }
  if (node.tokens.empty() || node.tokens.size() > page_tokens) return broken(node, "number of ids");
  if (node.tokens.size() < page_tokens && !node.children.empty()) {
    return broken(node, "a leaf with children");
  }
  if (node.root_index != parent.root_index) return broken(node, "root differs from its parent's");
  if (node.depth != (parent.is_root() ? 0 : parent.depth + 1)) return broken(node, "depth");
  if (node.key != chain_key(parent.key, node.tokens)) return broken(node, "key does not chain");
  const auto keyed = by_key.find(node.key);
  if (keyed == by_key.end() || keyed->second != &node) return broken(node, "not found by its key");
  if (node.last_use > parent.last_use) return broken(node, "used later than its parent");
  if (!node.has_bytes() && node.children.empty() && node.n_leases == 0) {
    return broken(node, "neither bytes, children nor leases");
  }
  if ((node.is_writing || node.is_restoring) && node.n_leases == 0) {
    return broken(node, "in flight without a lease");
  }
  if (node.is_writing && !node.is_resident()) return broken(node, "being written without slots");
  if (node.is_forgotten && (node.may_persist || node.disk.is_set())) {
    return broken(node, "forgotten, and on its way to the disk or there");
  }
  if (node.is_forgotten && node.is_resident() && node.n_leases == 0) {
    return broken(node, "forgotten, and kept for nobody");
  }
  auto queue = CacheNode::Queue::kNone;
  if (node.is_resident() && node.n_leases == 0) {
    queue = node.disk.is_set() ? CacheNode::Queue::kClean : CacheNode::Queue::kDirty;
  }
  if (node.queue != queue) return broken(node, "in the wrong eviction queue");
  return Status::ok();
}

Status PrefixTree::check_invariants() const {
  Status first;
  size_t n_seen = 0;
  size_t n_seen_resident = 0;
  size_t n_seen_dirty = 0;
  size_t n_seen_queued = 0;
  std::map<size_t, size_t> leased;
  visit_nodes(impl_->roots, [&](const CacheNode& node) {
    ++n_seen;
    n_seen_resident += node.is_resident() ? 1 : 0;
    n_seen_dirty += node.is_dirty() ? 1 : 0;
    n_seen_queued += node.queue == CacheNode::Queue::kNone ? 0 : 1;
    if (node.n_leases > 0) {
      for (const Slot& slot : node.slots) ++leased[slot.n_bytes()];
    }
    if (first.is_ok()) first = impl_->check_node(node);
  });
  CAIRN_RETURN_IF_ERROR(first);
  if (n_seen != impl_->by_key.size()) return Status::internal("tree: number of nodes");
  if (n_seen_resident != impl_->n_resident) return Status::internal("tree: resident nodes");
  if (n_seen_dirty != impl_->n_dirty) return Status::internal("tree: dirty nodes");
  if (n_seen_queued != impl_->clean.size() + impl_->dirty.size()) {
    return Status::internal("tree: eviction queues hold nodes that are gone");
  }
  for (const auto& [slot_bytes, n] : impl_->leased_slots) {
    const auto it = leased.find(slot_bytes);
    if (n != (it == leased.end() ? 0 : it->second)) {
      return Status::internal(fmt::format("tree: leased slots of {} bytes", slot_bytes));
    }
  }
  return Status::ok();
}

}  // namespace cairn
