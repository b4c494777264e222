// What the engine knows of the objects on disk: where each is in the tree, its size, its recency.
//
// An object that is reachable keeps pointers to its nodes and no copy of their keys and ids. One
// whose parent is missing (a hole after a crash, or its parent was evicted) keeps its entry
// instead; it counts for size, is the first to be evicted, and is taken up again when its parent is
// computed anew. Thread: engine thread only. Design: DESIGN.md 3.5.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/prefix_tree.h"
#include "store/object_entry.h"

namespace cairn {

struct DiskObject {
  uint64_t id = DiskPlace::kNone;
  uint32_t root_index = 0;
  ObjectKind kind = ObjectKind::kRun;
  uint64_t file_bytes = 0;
  // [page]; null where another object serves the page already (then `entry` is set), empty when the
  // object is unreachable. A node stays valid while its place names this object.
  std::vector<CacheNode*> nodes;
  std::unique_ptr<ObjectEntry> entry;
  int64_t last_use_unix = 0;  // as found; the tree's recency replaces it
  uint64_t queued_use = 0;    // its place in the eviction order
  uint64_t sync_epoch = 0;    // syncs of this process that had ended when it was published
  uint64_t own_use = 0;       // of an anchor, which has no nodes to take it from

  bool is_reachable() const { return !nodes.empty(); }

  // Of its most recent descendant; 0 for a run or leaf that is unreachable.
  uint64_t last_use() const;
  uint32_t depth() const;
};

class DiskIndex {
 public:
  explicit DiskIndex(PrefixTree& tree) : tree_(tree) {}

  DiskIndex(const DiskIndex&) = delete;
  DiskIndex& operator=(const DiskIndex&) = delete;
  DiskIndex(DiskIndex&&) = delete;
  DiskIndex& operator=(DiskIndex&&) = delete;
  ~DiskIndex() = default;

  // An object that was just published: its nodes get their places.
  DiskObject* add_written(uint32_t root_index,
                          ObjectKind kind,
                          std::span<CacheNode* const> nodes,
                          uint64_t file_bytes);
  // An object found on disk, not yet in the tree.
  void add_found(uint32_t root_index, ObjectEntry entry);

  // An anchor, found or just published. One with this key must not be there.
  DiskObject* add_anchor(uint32_t root_index, ObjectEntry entry);
  // Null when there is none.
  DiskObject* find_anchor(const PageKey& key);
  std::vector<uint64_t> anchors_of(uint32_t root_index) const;

  // Puts found objects that continue `parent` (a root or a full page) into the tree, and what
  // continues those. Objects whose ids do not fit their keys stay unreachable. Returns those that
  // were put.
  std::vector<DiskObject*> attach_below(CacheNode* parent, uint32_t page_tokens);

  bool has_unreachable() const { return !waiting_.empty(); }

  // Null when it is gone.
  DiskObject* find(uint64_t id);
  // Keys and ids as the store's commands want them.
  ObjectEntry entry_of(const DiskObject& object) const;

  // Forgets the object; its nodes lose their places but are not pruned. Returns the nodes, front
  // first: in this order pruning one cannot free another that is still to come, because a node with
  // descendants stays.
  std::vector<CacheNode*> remove(DiskObject* object);

  // The object that is least recently useful, children before parents; null when there is none.
  // Those with a page for which `is_held` says yes are passed over.
  DiskObject* next_to_evict(const std::function<bool(const CacheNode&)>& is_held);

  size_t n_objects() const { return objects_.size(); }

  size_t n_objects_of(uint32_t root_index) const;
  std::vector<uint64_t> objects_of(uint32_t root_index) const;
  // Unreachable objects that continue one of `parents`, and those that continue these.
  std::vector<uint64_t> waiting_below(std::vector<PageKey> parents) const;
  // Unreachable objects that continue `parent` along `ids` (one is a front of the other's first
  // page), and those that continue these.
  std::vector<uint64_t> waiting_on(const PageKey& parent, std::span<const TokenId> ids) const;

  size_t memory_bytes() const;
  std::vector<ObjectEntry> all_entries() const;
  // Compares with the tree; for tests.
  Status check_invariants() const;

 private:
  struct ByUse {
    bool operator()(const DiskObject* a, const DiskObject* b) const;
  };

  DiskObject* add(std::unique_ptr<DiskObject> object);
  DiskObject* add_entry(uint32_t root_index, ObjectEntry entry);
  bool attach(DiskObject* object, CacheNode* parent, uint32_t page_tokens);

  PrefixTree& tree_;
  uint64_t last_id_ = DiskPlace::kNone;
  uint64_t n_pages_ = 0;
  size_t entry_bytes_ = 0;
  std::unordered_map<uint32_t, size_t> n_by_root_;  // objects; no entry for none
  std::unordered_map<uint64_t, std::unique_ptr<DiskObject>> objects_;
  std::unordered_multimap<PageKey, DiskObject*, DigestHash> waiting_;  // unreachable, by parent
  std::unordered_map<PageKey, DiskObject*, DigestHash> anchors_;
  std::set<DiskObject*, ByUse> by_use_;  // queued_use lags behind last_use(), as in the tree
};

}  // namespace cairn
