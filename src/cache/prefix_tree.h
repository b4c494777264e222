// Finds which pages already hold the front of a prompt.
//
// A node is a page (page_tokens ids) or a leaf (fewer ids, no children) with the places where its
// bytes are: slots in memory, an object on disk. A node goes when no tier has it and it has no
// child. The tree knows keys, ids and places, not tensors or disks. Design: DESIGN.md 3.3-3.5.
// Thread: engine thread only. No I/O, no locks. Invariants: see check_invariants().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "cache/geometry.h"
#include "cache/key.h"
#include "cache/page_pool.h"
#include "cache/token.h"

namespace cairn {

enum class Tier { kDevice, kHost, kDisk, kRemote };

// A page inside an object; the store gives meaning to the numbers.
struct DiskPlace {
  static constexpr uint64_t kNone = 0;
  uint64_t object_id = kNone;
  uint32_t page_index = 0;

  bool is_set() const { return object_id != kNone; }
};

struct CacheNode {
  PageKey key;
  CacheNode* parent = nullptr;  // null for a root
  std::vector<TokenId> tokens;  // page_tokens ids, fewer for a leaf, none for a root
  // Children ordered by their ids, so the longest common run is a neighbour of lower_bound.
  std::map<std::span<const TokenId>,
           std::unique_ptr<CacheNode>,
           bool (*)(std::span<const TokenId>, std::span<const TokenId>)>
      children;
  std::vector<Slot> slots;  // one a group, or empty when not in memory
  DiskPlace disk;
  uint32_t root_index = 0;
  uint32_t depth = 0;     // pages above it: 0 for a root's child
  uint32_t n_leases = 0;  // sequences, restores and writes that need it to stay
  uint64_t last_use = 0;  // tick of the most recent use of it or a descendant
  std::chrono::steady_clock::time_point idle_since{};  // leaves: when its sequence ended
  bool may_persist = true;                             // false: no_store
  bool is_writing = false;                             // leased to the writer
  bool is_restoring = false;                           // a read is in flight
  // Only who leases it already may read it; it goes when the last lease does. See
  // PrefixTree::forget().
  bool is_forgotten = false;
  uint64_t serial = 0;  // order of creation; breaks ties the same way in every run
  // Place in the tree's eviction order; only the tree touches these.
  enum class Queue : uint8_t { kNone, kClean, kDirty };
  Queue queue = Queue::kNone;
  uint64_t queued_use = 0;

  CacheNode();

  bool is_root() const { return parent == nullptr; }

  bool is_resident() const { return !slots.empty(); }

  bool has_bytes() const { return is_resident() || disk.is_set(); }

  bool is_dirty() const { return is_resident() && !disk.is_set() && may_persist; }
};

// Why a match ended where it did.
enum class MatchEnd {
  kComplete,  // all that may be reused is there
  kEmpty,     // nothing begins like this prompt
  kDiverged,  // what is known goes on with other ids
  kEnded,     // what is known is a front of the prompt
  kDropped,   // ids are known, but their bytes are in no tier
};

enum class MatchScope { kAnyTier, kMemory };

// The longest reusable front of a prompt. Pointers stay valid until the next change of the tree
// unless the nodes are leased.
struct PrefixMatch {
  std::vector<CacheNode*> pages;  // whole pages, front first, each with bytes somewhere
  CacheNode* partial = nullptr;   // a child of the last page whose first ids continue the prompt
  uint32_t partial_rows = 0;      // how many; 0 when partial is null
  size_t n_tokens = 0;            // pages.size() * page_tokens + partial_rows
  MatchEnd end = MatchEnd::kEmpty;
};

// Told about changes, so that others can keep orders of their own without walking the tree.
class TreeObserver {
 public:
  TreeObserver() = default;
  TreeObserver(const TreeObserver&) = delete;
  TreeObserver& operator=(const TreeObserver&) = delete;
  TreeObserver(TreeObserver&&) = delete;
  TreeObserver& operator=(TreeObserver&&) = delete;
  virtual ~TreeObserver() = default;

  // The node's slots, place on disk, is_writing or may_persist changed, or it is new.
  virtual void on_changed(CacheNode& node) = 0;
  // The node is about to be destroyed; it has no children.
  virtual void on_removed(CacheNode& node) = 0;
};

// Fields of a node that decide eviction order and counts (slots, disk, leases, flags) change only
// through the tree's functions.
class PrefixTree {
 public:
  explicit PrefixTree(uint32_t page_tokens);
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;
  PrefixTree(PrefixTree&&) = delete;
  PrefixTree& operator=(PrefixTree&&) = delete;
  ~PrefixTree();

  // At most one, which outlives its registration; null takes it away.
  void set_observer(TreeObserver* observer);

  // The root's node, made on first use. Returns its index, stable until remove_root().
  uint32_t add_root(const RootKey& key);
  // Requires that the root has no children. Its index may be given to another root afterwards.
  void remove_root(uint32_t root_index);
  CacheNode* root(uint32_t root_index);
  bool has_nodes(uint32_t root_index) const;
  CacheNode* find(uint32_t root_index, const PageKey& key);

  // Longest front of `tokens` whose nodes have bytes in some tier, at most `max_tokens` and at most
  // tokens.size() - 1: the last token is always computed, because the sampler needs its logits.
  // Under a parent all children, full or leaf, are candidates. Touches the path's recency. kMemory
  // counts only nodes that are resident. Cost: O(n_tokens / page_tokens * log children).
  PrefixMatch match(uint32_t root_index,
                    std::span<const TokenId> tokens,
                    size_t max_tokens,
                    MatchScope scope = MatchScope::kAnyTier);
  // The same without touching recency.
  PrefixMatch peek(uint32_t root_index,
                   std::span<const TokenId> tokens,
                   size_t max_tokens,
                   MatchScope scope = MatchScope::kAnyTier) const;

  // How the known timeline that shares the most with a prompt goes on where `match` ends, at most
  // n_max ids; where several go on, the one that was used last. Empty when none does.
  std::vector<TokenId> continuation(uint32_t root_index,
                                    const PrefixMatch& match,
                                    size_t n_max) const;

  // The child of `parent` with exactly these ids, made when missing (without bytes). Requires 1 <=
  // tokens.size() <= page_tokens, and that `parent` is a root or a full page.
  CacheNode* insert(CacheNode* parent, std::span<const TokenId> tokens, const PageKey& key);

  // Offers the leaves under `by`'s parent that `by` serves wholly (their ids are a proper front of
  // its ids) and that nobody leases; those for which `may_remove` says yes are destroyed. The
  // callback may change the leaf's tiers but nothing else in the tree.
  void remove_superseded(const CacheNode& by, const std::function<bool(CacheNode&)>& may_remove);

  // Visits the children of `parent` with bytes whose ids begin with `ids` (equal ones included)
  // until the visitor says true; returns whether it did.
  bool any_covering(const CacheNode& parent,
                    std::span<const TokenId> ids,
                    const std::function<bool(const CacheNode&)>& is_enough) const;

  // No match finds the node any more and it is not written; insert() of the same ids makes it an
  // ordinary one again.
  void forget(CacheNode* node);

  // Frees the node and then every ancestor that has no bytes, no child and no lease. Requires that
  // the node itself has neither bytes, children nor leases; otherwise does nothing.
  void prune(CacheNode* node);

  // Marks a use now, on the node and all ancestors. Cost: O(depth).
  void touch(CacheNode* node);

  // The time of the latest use; each call is a use of something that is no node.
  uint64_t tick();

  // --- state of a node
  void lease(CacheNode* node);
  void unlease(CacheNode* node);                              // does not prune
  void give_slots(CacheNode* node, std::vector<Slot> slots);  // requires that it has none
  void drop_slots(CacheNode* node);                           // requires that nobody leases it
  void set_disk(CacheNode* node, DiskPlace place);            // an unset place forgets the disk
  void set_may_persist(CacheNode* node, bool may_persist);
  void set_writing(CacheNode* node, bool is_writing);

  // Drops slots of the least recently useful nodes that nobody leases, clean ones first, then those
  // that are on no disk, children before parents, until `enough()` says so. Returns false when
  // nothing is left to drop. `on_dropped` sees each that was dropped; its has_bytes() tells a lost
  // future hit.
  bool evict_until(const std::function<bool()>& enough,
                   const std::function<void(const CacheNode&)>& on_dropped);

  // Visits every node except roots; the visitor must not change the tree.
  void for_each(const std::function<void(CacheNode&)>& visit);

  size_t n_nodes() const;
  size_t n_resident() const;
  size_t n_dirty() const;
  // Slots of this size that eviction cannot take because their nodes are leased.
  size_t n_leased_slots(size_t slot_bytes) const;
  size_t memory_bytes() const;  // what nodes and ids take, estimated

  // Walks everything, O(size). Tests call it after each step, the engine when idle.
  Status check_invariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
