// Which dirty node the writer should take next.
//
// There is no queue of pages: this class watches the tree and keeps its dirty nodes in two orders,
// so that picking costs O(log n) and an idle poll costs nothing. A node is ready when it is dirty,
// not yet in flight, and its parent is a root, on disk, or in flight in an earlier command
// (commands run in order), so that a chain on disk has no holes. Design: DESIGN.md 3.6. Thread:
// engine thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "cache/prefix_tree.h"

namespace cairn {

class WritePlanner final : public TreeObserver {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit WritePlanner(uint32_t page_tokens) : page_tokens_(page_tokens) {}

  void on_changed(CacheNode& node) override;
  void on_removed(CacheNode& node) override;

  // The shallowest ready page, or else the ready leaf that has been idle longest, if since
  // `leaf_cutoff` or before. Null when there is none.
  CacheNode* next(TimePoint leaf_cutoff) const;

  // Says when the sequence that made a leaf ended, or touched it last.
  void set_idle_since(CacheNode* leaf, TimePoint idle_since);
  // Of the ready leaf that has been idle longest.
  std::optional<TimePoint> oldest_leaf() const;

  bool has_ready_page() const { return !pages_.empty(); }

  // Nodes that were dirty when last_serial() was asked have serials up to its answer.
  uint64_t last_serial() const { return last_serial_; }

  bool has_ready_until(uint64_t serial) const;

  // Compares with the node's true state; for tests.
  bool agrees_with(const CacheNode& node) const;

  size_t n_ready() const { return by_serial_.size(); }

 private:
  struct Entry {
    uint64_t serial = 0;  // when the node became dirty
    bool is_ready = false;
  };

  bool is_leaf(const CacheNode& node) const { return node.tokens.size() < page_tokens_; }

  static bool is_ready(const CacheNode& node);
  void update(CacheNode* node);
  void set_ready(CacheNode* node, Entry* entry, bool is_ready);

  uint32_t page_tokens_;
  uint64_t last_serial_ = 0;
  std::unordered_map<const CacheNode*, Entry> dirty_;
  std::set<std::tuple<uint32_t, uint64_t, CacheNode*>> pages_;    // depth, serial
  std::set<std::tuple<TimePoint, uint64_t, CacheNode*>> leaves_;  // idle_since, serial
  std::set<uint64_t> by_serial_;                                  // of all that are ready
};

}  // namespace cairn
