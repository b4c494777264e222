#include "store/write_planner.h"

#include "base/check.h"

namespace cairn {

bool WritePlanner::is_ready(const CacheNode& node) {
  if (!node.is_dirty() || node.is_writing) return false;
  const CacheNode& parent = *node.parent;
  return parent.is_root() || parent.disk.is_set() || parent.is_writing;
}

void WritePlanner::set_ready(CacheNode* node, Entry* entry, bool is_ready) {
  if (entry->is_ready == is_ready) return;
  entry->is_ready = is_ready;
  const std::tuple leaf_place(node->idle_since, entry->serial, node);
  const std::tuple page_place(node->depth, entry->serial, node);
  if (is_ready) {
    by_serial_.insert(entry->serial);
    if (is_leaf(*node)) {
      leaves_.insert(leaf_place);
    } else {
      pages_.insert(page_place);
    }
    return;
  }
  by_serial_.erase(entry->serial);
  const size_t n_erased = is_leaf(*node) ? leaves_.erase(leaf_place) : pages_.erase(page_place);
  CAIRN_CHECK(n_erased == 1, "a ready node was not where its fields say");
}

void WritePlanner::update(CacheNode* node) {
  const auto it = dirty_.find(node);
  if (!node->is_dirty()) {
    if (it == dirty_.end()) return;
    set_ready(node, &it->second, false);
    dirty_.erase(it);
    return;
  }
  if (it != dirty_.end()) {
    set_ready(node, &it->second, is_ready(*node));
    return;
  }
  Entry& entry = dirty_[node];
  entry.serial = ++last_serial_;
  set_ready(node, &entry, is_ready(*node));
}

void WritePlanner::on_changed(CacheNode& node) {
  update(&node);
  // Whether children may go depends on this node.
  for (const auto& [ids, child] : node.children) update(child.get());
}

void WritePlanner::on_removed(CacheNode& node) {
  const auto it = dirty_.find(&node);
  if (it == dirty_.end()) return;
  set_ready(&node, &it->second, false);
  dirty_.erase(it);
}

CacheNode* WritePlanner::next(TimePoint leaf_cutoff) const {
  if (!pages_.empty()) return std::get<CacheNode*>(*pages_.begin());
  if (leaves_.empty() || std::get<TimePoint>(*leaves_.begin()) > leaf_cutoff) return nullptr;
  return std::get<CacheNode*>(*leaves_.begin());
}

void WritePlanner::set_idle_since(CacheNode* leaf, TimePoint idle_since) {
  const auto it = dirty_.find(leaf);
  const bool was_ready = it != dirty_.end() && it->second.is_ready;
  if (was_ready) set_ready(leaf, &it->second, false);
  leaf->idle_since = idle_since;
  if (was_ready) set_ready(leaf, &it->second, true);
}

std::optional<WritePlanner::TimePoint> WritePlanner::oldest_leaf() const {
  if (leaves_.empty()) return std::nullopt;
  return std::get<TimePoint>(*leaves_.begin());
}

bool WritePlanner::has_ready_until(uint64_t serial) const {
  return !by_serial_.empty() && *by_serial_.begin() <= serial;
}

bool WritePlanner::agrees_with(const CacheNode& node) const {
  const auto it = dirty_.find(&node);
  if (it == dirty_.end()) return !node.is_dirty();
  return node.is_dirty() && it->second.is_ready == is_ready(node);
}

}  // namespace cairn
