// Finds which pages already hold the front of a prompt.
//
// A node is a page (page_tokens ids) or a leaf (fewer ids, no children) with the places where its bytes
// are: slots in memory, an object on disk. A node goes when no tier has it and it has no child. The
// tree knows keys, ids and places, not tensors or disks. Design: DESIGN.md 3.3-3.5.
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
  CacheNode* parent = nullptr;     // null for a root
  std::vector<TokenId> tokens;     // page_tokens ids, fewer for a leaf, none for a root
  // Children ordered by their ids, so the longest common run is a neighbour of lower_bound.
  std::map<std::span<const TokenId>, std::unique_ptr<CacheNode>, bool (*)(std::span<const TokenId>, std::span<const TokenId>)> children;
  std::vector<Slot> slots;         // one a group, or empty when not in memory
  DiskPlace disk;
  uint32_t root_index = 0;
  uint32_t depth = 0;              // pages above it: 0 for a root's child
  uint32_t n_leases = 0;           // sequences, restores and writes that need it to stay
  uint64_t last_use = 0;           // tick of the most recent use of it or a descendant
  std::chrono::steady_clock::time_point idle_since{};  // leaves: when its sequence ended
  bool may_persist = true;         // false: no_store
  bool is_writing = false;         // leased to the writer
  bool is_restoring = false;       // a read is in flight

  CacheNode();
  bool is_root() const { return parent == nullptr; }
  bool is_resident() const { return !slots.empty(); }
  bool has_bytes() const { return is_resident() || disk.is_set(); }
  bool is_dirty() const { return is_resident() && !disk.is_set() && may_persist; }
};

// The longest reusable front of a prompt. Pointers stay valid until the next change of the tree unless
// the nodes are leased.
struct PrefixMatch {
  std::vector<CacheNode*> pages;   // whole pages, front first, each with bytes somewhere
  CacheNode* partial = nullptr;    // a child of the last page whose first ids continue the prompt
  uint32_t partial_rows = 0;       // how many; 0 when partial is null
  size_t n_tokens = 0;             // pages.size() * page_tokens + partial_rows
};

class PrefixTree {
 public:
  explicit PrefixTree(uint32_t page_tokens);
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;
  PrefixTree(PrefixTree&&) = delete;
  PrefixTree& operator=(PrefixTree&&) = delete;
  ~PrefixTree();

  // The root's node, made on first use. Returns its index, stable for the tree's life.
  uint32_t add_root(const RootKey& key);
  CacheNode* root(uint32_t root_index);
  CacheNode* find(uint32_t root_index, const PageKey& key);

  // Longest front of `tokens` whose nodes have bytes in some tier, at most `max_tokens` and at most
  // tokens.size() - 1: the last token is always computed, because the sampler needs its logits. Under a
  // parent all children, full or leaf, are candidates. Touches the path's recency.
  // Cost: O(n_tokens / page_tokens * log children).
  PrefixMatch match(uint32_t root_index, std::span<const TokenId> tokens, size_t max_tokens);

  // The child of `parent` with exactly these ids, made when missing (without bytes). Requires 1 <=
  // tokens.size() <= page_tokens, and that `parent` is a root or a full page.
  CacheNode* insert(CacheNode* parent, std::span<const TokenId> tokens, const PageKey& key);

  // Removes leaves under `parent` that `by` serves wholly (their ids are a proper front of its ids) and
  // that nobody leases. `on_removed` sees each before it goes (its disk object may be deleted).
  void remove_superseded(CacheNode* parent, const CacheNode& by, const std::function<void(CacheNode&)>& on_removed);

  // Frees the node and then every ancestor that has no bytes, no child and no lease. Requires that the
  // node itself has neither bytes, children nor leases; otherwise does nothing.
  void prune(CacheNode* node);

  // Marks a use now, on the node and all ancestors.
  void touch(CacheNode* node);

  // Drops slots of the least recently useful nodes that nobody leases, clean ones first, then dirty
  // ones, children before parents, until `enough()` says so. Returns false when nothing is left to drop.
  // `on_dropped_dirty` counts each lost future hit.
  bool evict_until(const std::function<bool()>& enough, const std::function<void(CacheNode&)>& on_dropped_dirty);

  // Visits every node except roots; the visitor must not change the tree.
  void for_each(const std::function<void(CacheNode&)>& visit);

  size_t n_nodes() const;
  size_t n_resident() const;
  size_t memory_bytes() const;  // what nodes and ids take, estimated

  // Walks everything, O(size). Tests call it after each step, the engine when idle.
  Status check_invariants() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
