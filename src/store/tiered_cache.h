// The durable KV cache as the engine sees it: one lookup over memory and disk, sequences that grow
// page by page, writing behind, restoring, one budget.
//
// A CacheSequence is one timeline of tokens: pages it shares with the tree, then private pages (the
// tail). begin() finds the longest reusable prefix and, when part of it is only on disk, starts
// reading it; the sequence may run once is_ready(). A restore is a transaction: nothing of it is
// used before every byte is verified; on a fault the object is quarantined and the sequence falls
// back to the longest valid prefix. Requests for the same pages share one read.
//
// The writer pulls: there is no queue of pages, the tree's dirty nodes are the queue. At most
// min(64 MiB, pool / 8) are leased to it at a time, shallowest dirty node first whose parent is
// published or in flight, as runs of consecutive pages. Design: DESIGN.md 3.4-3.6. Thread: engine
// thread only. Replies of the disk threads come back through on_reply().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cache/anchor_table.h"
#include "cache/geometry.h"
#include "cache/page_pool.h"
#include "cache/token.h"
#include "kernels/backend.h"
#include "store/disk_store.h"
#include "store/forget.h"

namespace cairn {

enum class RestoreMode { kAuto, kAlways, kNever };

struct TieredCacheOptions {
  size_t ram_budget_bytes = size_t{1} << 30;
  RestoreMode restore = RestoreMode::kAuto;
  std::chrono::milliseconds leaf_delay{1000};  // a leaf is written when idle for so long
  std::chrono::milliseconds sync_interval{
      1000};                             // published objects become durable at least so often
  size_t sync_bytes = size_t{64} << 20;  // ... or when so much is unsynced
  uint64_t store_max_bytes = uint64_t{32} << 30;  // every byte in the store's folder
  size_t staging_bytes = size_t{64} << 20;        // upper bound of memory leased to the writer
  uint32_t shortest_prefix = 16;                  // fewer tokens are not worth an object
  uint32_t page_tokens = kPageTokens;             // of every root; tests take small ones
  size_t chunk_bytes = PagePool::kChunkBytes;     // of the page pool; tests take small ones
};

enum class MissReason {
  kNone,      // the whole prompt but its last token was reused
  kEmpty,     // nothing is known that begins like this prompt
  kDiverged,  // a known timeline left the prompt in the middle
  kEnded,     // what is known is a front of the prompt: the rest is new
  kDropped,   // known, but its bytes were evicted everywhere
  kDamaged,   // an object failed verification and was set aside
  kNotWorth,  // recomputing was predicted to be faster, or restore is "never"
};

std::string_view to_string(MissReason reason);  // "none", "empty", "diverged", ...

struct ReuseReport {
  uint64_t device_tokens = 0;  // rows that were in memory
  uint64_t disk_tokens = 0;    // rows that were read from disk
  MissReason miss = MissReason::kNone;
  uint64_t miss_token = 0;     // first token that had to be computed
  std::vector<TokenId> known;  // kDiverged: what the nearest known timeline has from there on
  double restore_ms = 0;
};

struct BeginOptions {
  size_t max_rows = 0;  // prompt and everything that may be generated: room is reserved for it
  size_t max_reuse = SIZE_MAX;  // caps reuse, for tests (`score --reuse-at`)
  RestoreMode restore = RestoreMode::kAuto;
  bool persist = true;  // false: pages of this sequence are never written
  // False: nothing that this sequence computes is left for others, in memory or on disk; what is
  // known already is still reused.
  bool keep = true;
  std::string conversation = {};  // label under which forget() finds it; may be empty
};

class TieredCache;

// Owned by the engine; must be destroyed before the cache. Destroying it without finish() drops the
// tail.
class CacheSequence {
 public:
  CacheSequence(const CacheSequence&) = delete;
  CacheSequence& operator=(const CacheSequence&) = delete;
  CacheSequence(CacheSequence&&) = delete;
  CacheSequence& operator=(CacheSequence&&) = delete;
  ~CacheSequence();

  // False while a restore is in flight.
  bool is_ready() const;
  const ReuseReport& reuse() const;

  // Rows that exist: positions [0, n_rows()). Requires is_ready() from here on.
  size_t n_rows() const;
  // Room for n more rows in private pages. Errors: kOverloaded only if begin()'s reservation is
  // exceeded.
  Status prepare(size_t n);
  // Page table of a group; covers n_rows() plus what was prepared. Valid until the next
  // prepare/advance.
  std::byte* const* pages(size_t group) const;
  // Says that the step has written rows for `tokens` at [n_rows(), n_rows() + tokens.size()). Full
  // pages become tree nodes at once (shared if the tree already has them).
  void advance(std::span<const TokenId> tokens);
  // At a page edge: takes over whole pages of `upcoming` that the tree holds in memory by now
  // (another sequence computed them meanwhile). The caller leaves out the last id of a prompt,
  // whose logits it needs. Returns the tokens adopted.
  size_t adopt(std::span<const TokenId> upcoming);
  // Gives back rows at the end (rejected proposals); only rows of private pages. Requires n <=
  // n_rows().
  Status truncate(size_t n);

  // From here on nothing more is left for others: as if begun without `keep`.
  void forget();

  // Ends the timeline; keeps its tail as a leaf in the tree. The object may then be destroyed.
  void finish();

  struct Impl;  // known inside this layer only

 private:
  friend class TieredCache;
  explicit CacheSequence(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct FlushReport {
  Status status;           // ok: everything pending when flush was called is durable
  uint64_t n_objects = 0;  // written by this flush
  uint64_t n_bytes = 0;
  uint64_t n_failed = 0;
  uint64_t n_dropped = 0;  // dirty pages lost before they could be written, since start
};

struct CacheStats {
  uint64_t nodes = 0, resident_pages = 0, dirty_pages = 0, anchors = 0;
  uint64_t ram_bytes = 0, ram_budget_bytes = 0;
  bool disk_enabled = false;
  std::string disk_disabled_reason;
  uint64_t disk_objects = 0, disk_bytes = 0, disk_max_bytes = 0;
  uint64_t lookups = 0, hit_tokens_device = 0, hit_tokens_disk = 0;
  uint64_t objects_written = 0, bytes_written = 0, write_errors = 0;
  uint64_t objects_restored = 0, bytes_restored = 0, restore_errors = 0;
  uint64_t quarantined = 0, dropped_dirty = 0, evicted_pages = 0, evicted_objects = 0;
  uint64_t misses_damaged = 0, unsynced_bytes = 0;
  uint64_t namespaces = 0;    // roots that are known, those of the models included
  uint64_t left_alone = 0;    // objects of another version or another key
  uint64_t index_damage = 0;  // damaged records skipped at open, and one if the index was rebuilt
  uint64_t reads_in_flight = 0, writes_in_flight = 0, syncs_in_flight = 0;
};

class TieredCache {
 public:
  // The backend and clock outlive the cache. Works in memory alone until attach_disk().
  TieredCache(Backend& backend, const Clock& clock, const TieredCacheOptions& options);
  TieredCache(const TieredCache&) = delete;
  TieredCache& operator=(const TieredCache&) = delete;
  TieredCache(TieredCache&&) = delete;
  TieredCache& operator=(TieredCache&&) = delete;
  ~TieredCache();  // every sequence must be gone

  // Adds the disk tier. `report` is what StoreFiles::open found: its objects become nodes. `wake`
  // is called on an I/O thread with each reply; the engine hands it back through on_reply().
  void attach_disk(std::unique_ptr<StoreFiles> files,
                   OpenReport report,
                   std::function<void(StoreReply)> wake);
  // Why there is no disk tier, for stats (already logged by the caller).
  void set_disk_disabled(std::string reason);

  // Registers a model's timeline. Returns the root's index for begin(), valid for the cache's life.
  uint32_t add_root(const RootSpec& spec);

  // The root that differs from `base_root` (of add_root) in its namespace alone, made on first use.
  // The index is valid until the next call, and as long as a sequence of it lives: a root that has
  // neither sequences nor pages nor objects is forgotten, so that clients who make up namespaces
  // cost no more than the pages that the budgets hold for them. Cost: one SHA-256 of 300 bytes.
  uint32_t namespace_root(uint32_t base_root, std::string_view key_namespace);

  // Errors: kOverloaded: no room now, try again after another sequence has ended or a reply has
  // come; kInvalidArgument: max_rows can never fit, with both numbers.
  Result<std::unique_ptr<CacheSequence>> begin(uint32_t root_index,
                                               std::span<const TokenId> prompt,
                                               const BeginOptions& options);

  // How many tokens of `prompt` begin() would reuse now, without side effects.
  size_t probe(uint32_t root_index, std::span<const TokenId> prompt);

  // What begin() would say of `prompt` now, without side effects; `known` has up to n_known_max
  // ids.
  ReuseReport explain(uint32_t root_index,
                      std::span<const TokenId> prompt,
                      size_t n_known_max) const;

  void on_reply(StoreReply reply);

  // Starts writes and syncs that are due, demotes over budget. Cheap when nothing is due. Call it
  // after each step and when idle.
  void poll();
  // When poll() should run again although nothing happens; a leaf may become due.
  std::chrono::steady_clock::time_point next_deadline() const;

  // Writes everything dirty, leaves included, makes it durable, then calls `done` (from poll or
  // on_reply).
  void flush(std::function<void(FlushReport)> done);

  // Exact ids of known texts, for whoever makes prompts of texts; shared with other threads.
  const std::shared_ptr<AnchorTable>& anchors() const;
  // Writes an anchor of the table behind, as a leaf of its root would be.
  void keep_anchor(uint32_t root_index, const Anchor& anchor);
  RootKey root_key_of(uint32_t root_index) const;

  // Removes what is in scope from memory and disk, then calls `done` (from poll or on_reply), when
  // the removal is durable. The caller first tells the running sequences that it means
  // (CacheSequence::forget); these go on. Errors in the report: as of StoreFiles::forget_objects;
  // then some files may still be there, but nothing is served from them.
  void forget(uint32_t root_index, ForgetScope scope, std::function<void(ForgetReport)> done);

  // Measured prefill speed, for load-or-recompute. 0 = unknown (counts as slow: restoring wins).
  void set_prefill_rate(double tokens_per_second);

  CacheStats stats() const;
  Status check_invariants() const;

  struct Impl;  // known inside this layer only

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
