// The insides of TieredCache and CacheSequence, shared by their source files. Not for other layers.
//
// Memory is counted in slots of a size. What cannot be evicted is leased nodes (the tree counts
// them) and private slots (tails, and pages being restored, counted here); what is promised but not
// yet taken is reserved. leased + private + reserved never exceed what the pool may hold, so a
// reserved page can always be had by evicting. Thread: engine thread only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache/anchor_table.h"
#include "cache/conversation_labels.h"
#include "cache/page_pool.h"
#include "cache/prefix_tree.h"
#include "store/disk_index.h"
#include "store/tiered_cache.h"
#include "store/write_planner.h"

namespace cairn {

// One slot a group.
using PageSlots = std::vector<Slot>;

// A root that this process knows from the disk only has no spec: it can be evicted but not used.
struct CacheRoot {
  std::optional<RootSpec> spec;
  std::vector<PageLayout> layouts;
  std::map<size_t, size_t> page_slots;  // slot size -> slots of this size in one page
  size_t n_sequences = 0;
  bool is_live = false;       // false: the place is free for another root
  bool is_pinned = false;     // a model's own: stays though nothing is in it
  bool is_described = false;  // the writer was told what the root is
};

struct CacheSequence::Impl {
  TieredCache::Impl* cache = nullptr;
  uint32_t root_index = 0;
  bool persist = true;
  bool keep = true;
  bool is_finished = false;
  std::string conversation;

  std::vector<CacheNode*> path;                 // leased; positions [0, path.size() * page_tokens)
  std::vector<PageSlots> own;                   // private pages after the path
  std::vector<std::vector<std::byte*>> tables;  // [group][page]
  std::vector<TokenId> tail;                    // ids of the rows in private pages
  size_t n_rows = 0;
  size_t n_rows_touched = 0;  // rows at or after n_rows that a step may have written
  size_t n_reserved = 0;      // pages promised and not yet taken
  size_t n_pages_max = 0;

  // While a restore is in flight.
  size_t n_pending = 0;
  size_t n_joined = 0;  // pages that somebody else's restore will bring
  bool has_failed = false;
  size_t n_fall_backs = 0;  // damage met so far
  std::vector<TokenId> prompt;
  size_t max_reuse = 0;
  CacheNode* partial = nullptr;  // leased
  uint32_t partial_rows = 0;
  std::chrono::steady_clock::time_point begun{};

  ReuseReport reuse;

  CacheNode* parent() const;
  void advance_page();
  // Returns the leaf, or the page before the tail when something serves the tail already.
  CacheNode* keep_tail();
  void release();
};

// What begin() would use.
struct ReusePlan {
  PrefixMatch match;
  MissReason miss = MissReason::kNone;
};

// Pages of one object on their way into memory.
struct Restore {
  uint64_t object_id = 0;
  uint32_t root_index = 0;
  std::vector<CacheNode*> nodes;  // leased
  std::vector<PageSlots> slots;
  std::vector<CacheSequence::Impl*> waiters;
};

// A run, leaf or anchor on its way to the disk.
struct PendingWrite {
  ObjectKind kind = ObjectKind::kRun;
  uint32_t root_index = 0;
  std::vector<CacheNode*> nodes;  // leased
  size_t lease_bytes = 0;
  uint64_t file_bytes = 0;            // estimated, with the record
  uint64_t record_bytes = 0;          // in the index's log, rounded up
  std::optional<ObjectEntry> anchor;  // of kAnchor, which has no nodes
};

struct PendingAnchor {
  uint32_t root_index = 0;
  ObjectEntry entry;
  std::chrono::steady_clock::time_point idle_since{};
  uint64_t serial = 0;
};

struct PendingFlush {
  enum class Phase { kWriting, kSyncing };
  Phase phase = Phase::kWriting;
  uint64_t serial = 0;         // dirty nodes up to here belong to it
  uint64_t anchor_serial = 0;  // and anchors
  uint64_t sync_ticket = 0;
  FlushReport report;
  std::function<void(FlushReport)> done;
};

// What goes, by the tree as it is now.
struct ForgetPlan {
  std::vector<CacheNode*> nodes;
  std::set<uint64_t> objects;  // wholly or partly of these nodes
  ForgetReport report;
};

struct PendingForget {
  enum class Phase { kRestoring, kWriting, kRemoving };
  Phase phase = Phase::kRestoring;
  uint32_t root_index = 0;
  ForgetScope scope;
  // Hold pages in memory that stay although their objects go.
  std::vector<std::unique_ptr<CacheSequence>> keepers;
  std::set<uint64_t> writes;  // tickets of those under way whose objects must go again
  std::vector<ObjectEntry> entries;
  uint64_t ticket = 0;
  ForgetReport report;
  std::function<void(ForgetReport)> done;
};

struct TieredCache::Impl {
  using TimePoint = std::chrono::steady_clock::time_point;

  // Recency is written at least so often when it changed; losing it costs only eviction order.
  static constexpr std::chrono::seconds kUseInterval{5};
  // Commands in the writer's queue. Enough to keep it busy between two steps of the engine; while
  // as many are waiting, further pages gather into longer runs.
  static constexpr size_t kWritesInFlight = 8;

  Impl(Backend& backend_, const Clock& clock_, const TieredCacheOptions& options_);

  Backend& backend;
  const Clock& clock;
  TieredCacheOptions options;
  uint32_t page_tokens;
  PagePool pool;
  PrefixTree tree;
  WritePlanner planner;
  DiskIndex index;
  std::vector<CacheRoot> roots;  // [root_index]
  size_t n_roots = 0;            // that are live
  size_t n_roots_kept = 0;       // after the last sweep
  std::set<size_t> slot_sizes;   // of every root so far
  ConversationLabels labels;
  CacheStats counters;

  // --- roots (cache_roots.cc)
  CacheRoot& root_state(uint32_t root_index);
  void specify_root(uint32_t root_index, const RootSpec& spec);
  void sweep_roots();
  bool is_unused(uint32_t root_index) const;
  size_t roots_bytes() const;
  uint64_t sync_epoch = 0;  // syncs that have succeeded
  // Pages beside a leaf on disk that goes when they are durable.
  std::set<std::pair<uint32_t, PageKey>> superseders;  // root index, key

  void describe_root(uint32_t root_index);

  // --- memory (cache_memory.cc)
  std::map<size_t, size_t> private_slots;
  std::map<size_t, size_t> reserved_slots;
  size_t n_sequences = 0;
  std::unordered_set<const CacheSequence::Impl*> sequences;
  TimePoint next_demotion{};

  // Chunk bytes that everything promised takes, with `n_more` pages of a root on top.
  size_t promised_bytes(uint32_t root_index, size_t n_more) const;
  bool fits(uint32_t root_index, size_t n_more) const;
  Status check_can_ever_fit(uint32_t root_index, size_t n_rows, size_t n_pages) const;
  void reserve(CacheSequence::Impl* seq, size_t n_pages);
  void unreserve(CacheSequence::Impl* seq, size_t n_pages);
  // Slots for one page, contents undefined; evicts as needed.
  Result<PageSlots> take_page(uint32_t root_index);
  void drop_page(PageSlots slots);
  void give_page(CacheNode* node, PageSlots slots);
  void count_private(const PageSlots& slots, bool add);
  void update_other_bytes();
  void demote();
  bool empty_chunk(uint32_t chunk);
  void release_node(CacheNode* node);
  void check_same_bytes(const CacheNode& node, const PageSlots& ours) const;

  // --- lookup and restore (cache_restore.cc)
  std::unordered_map<uint64_t, Restore> restores;
  double restore_bytes_per_second = 0;  // 0: not measured yet
  double prefill_tokens_per_second = 0;
  uint64_t burst_bytes = 0;  // restored since no read was in flight
  uint64_t burst_micros = 0;

  RestoreMode mode_for(const BeginOptions& begin) const;
  ReusePlan plan_reuse(uint32_t root_index,
                       std::span<const TokenId> prompt,
                       size_t max_reuse,
                       RestoreMode mode) const;
  bool is_worth_restoring(uint32_t root_index, const PrefixMatch& match) const;
  // Pages that must be had beside those that are pinned already, for the whole sequence.
  size_t pages_wanted(const PrefixMatch& match, size_t n_pages) const;
  void adopt_match(CacheSequence::Impl* seq, const ReusePlan& plan);
  Status start_restores(CacheSequence::Impl* seq);
  Status read_object(CacheSequence::Impl* seq, uint64_t object_id, std::vector<CacheNode*> nodes);
  Restore* restore_of(const CacheNode* node);
  void complete(CacheSequence::Impl* seq);
  ReusePlan plan_fall_back(const CacheSequence::Impl& seq) const;
  void fall_back(CacheSequence::Impl* seq);
  void restore_or_complete(CacheSequence::Impl* seq, const ReusePlan& plan);
  void copy_partial(CacheSequence::Impl* seq);
  void on_read(const ReadReply& reply);
  void measure_restore(const ReadReply& reply);
  void lose_object(uint64_t object_id, const Status& status);
  void forget_waiter(CacheSequence::Impl* seq);

  // --- disk tier (cache_disk.cc)
  uint64_t disk_bytes = 0;  // every byte in the folder, as far as known
  std::string disk_disabled_reason = "no store is attached";
  std::set<uint64_t> used_objects;  // since recency was last recorded
  TimePoint use_due{};
  uint64_t n_dead_records = 0;  // in the log: removals and recency
  uint64_t dead_log_bytes = 0;  // estimated, as is what the log adds to disk_bytes

  void attach_found(std::vector<ObjectEntry> objects);
  void continue_found(CacheNode* parent);
  void order_found(std::vector<DiskObject*> attached);
  // Also notes `by` when a leaf on disk has to wait until `by` is durable.
  void remove_superseded(CacheNode* by);
  bool may_remove_superseded(const CacheNode& by, CacheNode* leaf);
  bool is_durable(const CacheNode& node);
  void remove_outlived();
  std::vector<CacheNode*> delete_object(DiskObject* object);
  void drop_empty_root(uint32_t root_index);
  bool make_disk_room(const PendingWrite& write);
  void note_use(const CacheNode& node);
  void record_use();
  void compact_log();
  void count_log_record(size_t n_bytes, bool is_dead);

  // --- text anchors (cache_anchors.cc)
  std::shared_ptr<AnchorTable> anchors;
  std::deque<PendingAnchor> new_anchors;  // by serial
  uint64_t last_anchor_serial = 0;

  DiskObject* attach_anchor(uint32_t root_index, ObjectEntry entry);
  void keep_anchor(uint32_t root_index, const Anchor& anchor);
  void note_anchor_use(DiskObject* object, uint64_t now);
  void pump_anchors(TimePoint cutoff);
  // An anchor that was just published.
  DiskObject* index_anchor(uint32_t root_index, ObjectEntry entry, uint64_t file_bytes);
  void forget_anchors(uint32_t root_index, PendingForget* forget);
  bool has_new_anchors_until(uint64_t serial) const;

  // --- writing (cache_writer.cc)
  std::map<uint64_t, PendingWrite> writes;
  std::vector<PendingFlush> flushes;
  std::vector<std::function<void()>> completions;
  uint64_t last_ticket = 0;
  size_t leased_to_writer = 0;  // bytes
  TimePoint paused_until{};
  bool is_write_failing = false;
  bool is_blocked = false;  // something is ready, but memory for its lease is promised to others
  size_t n_syncs = 0;       // in flight
  TimePoint sync_due{};
  TimePoint sync_paused_until{};

  // --- forgetting (cache_forget.cc)
  TieredCache* self = nullptr;
  std::vector<PendingForget> forgets;

  ForgetPlan plan_forget(uint32_t root_index, const ForgetScope& wanted);
  void plan_forgotten_objects(uint32_t root_index, const ForgetScope& wanted, ForgetPlan* plan);
  std::vector<CacheNode*> survivors_on_disk(const ForgetPlan& plan);
  void begin_forget(PendingForget forget);
  void pump_forgets();
  void execute_forget(PendingForget* forget);
  std::vector<CacheNode*> take_object(DiskObject* object, PendingForget* forget);
  void send_forget(PendingForget* forget);
  void on_forgotten(const ForgetReply& reply);
  void end_forget(size_t forget_idx, const Status& status);
  void unwrite_forgotten(uint64_t ticket, DiskObject* object);

  bool is_flushing() const;
  PendingWrite plan_write(CacheNode* first) const;
  size_t writer_limit() const;
  bool may_start(const PendingWrite& write) const;
  void pump_writes();
  void start_write(PendingWrite write);
  void refuse_write(const PendingWrite& write);
  void on_write(const WriteReply& reply);
  void on_write_failed(const PendingWrite& write, const Status& status);
  uint64_t start_sync();
  void pump_sync();
  void on_sync(const SyncReply& reply);
  void pump_flushes();
  void run_completions();
  void end_flush(PendingFlush flush);
  TimePoint next_deadline() const;

  Status check_invariants() const;

  // Last, so that its threads end before the memory they use goes.
  std::unique_ptr<DiskStore> disk;
};

}  // namespace cairn
