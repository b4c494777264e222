// What must hold in a TieredCache between two calls.
#include <fmt/core.h>

#include "store/tiered_cache_impl.h"

namespace cairn {

Status TieredCache::Impl::check_invariants() const {
  CAIRN_RETURN_IF_ERROR(tree.check_invariants());
  CAIRN_RETURN_IF_ERROR(index.check_invariants());

  std::map<const CacheNode*, int> restoring;
  std::map<size_t, size_t> in_restores;
  for (const auto& [ticket, restore] : restores) {
    for (const CacheNode* node : restore.nodes) ++restoring[node];
    for (const PageSlots& slots : restore.slots) {
      for (const Slot& slot : slots) ++in_restores[slot.n_bytes()];
    }
  }
  for (const auto& [slot_bytes, n] : in_restores) {
    const auto it = private_slots.find(slot_bytes);
    if (it == private_slots.end() || it->second < n)
      return Status::internal("private slots of restores");
  }
  std::map<const CacheNode*, int> writing;
  size_t n_leased = 0;
  for (const auto& [ticket, write] : writes) {
    for (const CacheNode* node : write.nodes) ++writing[node];
    n_leased += write.lease_bytes;
  }
  if (n_leased != leased_to_writer) return Status::internal("bytes leased to the writer");

  Status first;
  size_t n_node_bytes = 0;
  auto& walked =
      const_cast<PrefixTree&>(tree);  // for_each hands out nodes to change; this one does not
  walked.for_each([&](const CacheNode& node) {
    for (const Slot& slot : node.slots) n_node_bytes += slot.n_bytes();
    const auto r = restoring.find(&node);
    const auto w = writing.find(&node);
    const bool is_right = node.is_restoring == (r != restoring.end()) &&
                          node.is_writing == (w != writing.end()) && planner.agrees_with(node);
    if (first.is_ok() && !is_right) {
      first = Status::internal(fmt::format("node {}: flags or place in the writer's order",
                                           to_hex(node.key).substr(0, 12)));
    }
  });
  CAIRN_RETURN_IF_ERROR(first);

  size_t n_private_bytes = 0;
  for (const auto& [slot_bytes, n] : private_slots) n_private_bytes += slot_bytes * n;
  if (n_node_bytes + n_private_bytes != pool.used_bytes()) {
    return Status::internal(fmt::format("pool: {} bytes used, {} in nodes and {} private are known",
                                        pool.used_bytes(),
                                        n_node_bytes,
                                        n_private_bytes));
  }
  if (!roots.empty() && promised_bytes(0, 0) > pool.limit_bytes()) {
    return Status::internal(fmt::format(
        "{} bytes are promised and {} may be held", promised_bytes(0, 0), pool.limit_bytes()));
  }
  if (n_sequences == 0) {
    for (const auto& [slot_bytes, n] : reserved_slots) {
      if (n != 0) return Status::internal("pages are reserved for nobody");
    }
  }
  return Status::ok();
}

}  // namespace cairn
