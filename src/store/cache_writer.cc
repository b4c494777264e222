// The writer pulls: runs of dirty pages go out, replies come back, what is published becomes
// durable.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "store/tiered_cache_impl.h"

namespace cairn {

namespace {

// Runs that could still grow leave the writer at most one command ahead.
constexpr size_t kShortWritesInFlight = 2;
// After a full disk, and after any other fault: tries in between would only cost time and log
// lines.
constexpr std::chrono::seconds kNoSpacePause{30};
constexpr std::chrono::seconds kFaultPause{5};

size_t slot_bytes(const CacheNode& node) {
  size_t n_bytes = 0;
  for (const Slot& slot : node.slots) n_bytes += slot.n_bytes();
  return n_bytes;
}

// Header and payload, rounded up: keys and ids of each page, an extent for each layer.
uint64_t estimate_file_bytes(const CacheRoot& root, size_t n_pages, size_t page_tokens) {
  uint64_t n_header = 512;
  uint64_t n_payload = 0;
  for (const PageLayout& layout : root.layouts) {
    n_header += 64 + n_pages * layout.n_layers * sizeof(Extent);
    n_payload += n_pages * layout.payload_bytes();
  }
  n_header += n_pages * (64 + page_tokens * sizeof(TokenId));
  return (n_header + kHeaderBlockBytes - 1) / kHeaderBlockBytes * kHeaderBlockBytes + n_payload;
}

// What the index's log says of an object, rounded up.
size_t record_bytes(std::span<CacheNode* const> nodes) {
  size_t n_bytes = 256;
  for (const CacheNode* node : nodes) n_bytes += 48 + node->tokens.size() * sizeof(TokenId);
  return n_bytes;
}

// The dirty full page that goes on from `node`, or null.
CacheNode* next_in_run(const CacheNode& node, size_t page_tokens) {
  for (const auto& [ids, child] : node.children) {
    if (ids.size() == page_tokens && child->is_dirty() && !child->is_writing) return child.get();
  }
  return nullptr;
}

}  // namespace

bool TieredCache::Impl::is_flushing() const {
  return std::any_of(flushes.begin(), flushes.end(), [](const PendingFlush& flush) {
    return flush.phase == PendingFlush::Phase::kWriting;
  });
}

size_t TieredCache::Impl::writer_limit() const {
  return std::min(options.staging_bytes, pool.budget_bytes() / 8);
}

PendingWrite TieredCache::Impl::plan_write(CacheNode* first) const {
  const CacheRoot& root = roots[first->root_index];
  const size_t payload_bytes = root.spec->geometry.payload_bytes();
  PendingWrite write;
  write.root_index = first->root_index;
  write.nodes.push_back(first);
  if (first->tokens.size() < page_tokens) {
    write.kind = ObjectKind::kLeaf;
  } else {
    while (write.nodes.size() < kMaxRunPages &&
           (write.nodes.size() + 1) * payload_bytes <= kTargetObjectBytes) {
      CacheNode* next = next_in_run(*write.nodes.back(), page_tokens);
      if (next == nullptr) break;
      write.nodes.push_back(next);
    }
  }
  for (const CacheNode* node : write.nodes) write.lease_bytes += slot_bytes(*node);
  write.record_bytes = record_bytes(write.nodes);
  write.file_bytes =
      estimate_file_bytes(root, write.nodes.size(), page_tokens) + write.record_bytes;
  return write;
}

bool TieredCache::Impl::may_start(const PendingWrite& write) const {
  const size_t payload_bytes = roots[write.root_index].spec->geometry.payload_bytes();
  const bool is_full_run = write.nodes.size() == kMaxRunPages ||
                           (write.nodes.size() + 1) * payload_bytes > kTargetObjectBytes;
  if (writes.size() >= (is_full_run ? kWritesInFlight : kShortWritesInFlight)) return false;
  // One is always allowed: a page may be larger than the whole limit of a small pool.
  return writes.empty() || leased_to_writer + write.lease_bytes <= writer_limit();
}

void TieredCache::Impl::pump_writes() {
  is_blocked = false;
  if (disk == nullptr || clock.now() < paused_until) return;
  const TimePoint leaf_cutoff = is_flushing() ? TimePoint::max() : clock.now() - options.leaf_delay;
  while (CacheNode* first = planner.next(leaf_cutoff)) {
    PendingWrite write = plan_write(first);
    if (!may_start(write)) return;
    // A lease keeps pages from being evicted, and every page that may be evicted is perhaps
    // promised.
    const auto n_pinned = static_cast<size_t>(std::count_if(
        write.nodes.begin(), write.nodes.end(), [](auto* node) { return node->n_leases == 0; }));
    if (n_pinned > 0 && !fits(write.root_index, n_pinned)) {
      is_blocked = true;
      return;
    }
    if (make_disk_room(write)) {
      start_write(std::move(write));
    } else {
      refuse_write(write);
    }
  }
  pump_anchors(leaf_cutoff);
}

void TieredCache::Impl::refuse_write(const PendingWrite& write) {
  for (CacheNode* node : write.nodes) tree.set_may_persist(node, false);
  const Status status =
      Status::no_space(fmt::format("the store holds {} of at most {} bytes, all of it used more "
                                   "recently than what should be written; "
                                   "raise --store-max",
                                   disk_bytes,
                                   options.store_max_bytes));
  log_debug("pages are not kept on disk: {}", status.message());
  for (PendingFlush& flush : flushes) {
    ++flush.report.n_failed;
    if (flush.report.status.is_ok()) flush.report.status = status;
  }
}

void TieredCache::Impl::start_write(PendingWrite write) {
  describe_root(write.root_index);
  const CacheRoot& root = roots[write.root_index];
  ObjectSource source;
  source.root = tree.root(write.root_index)->key;
  source.kind = write.kind;
  source.parent = write.nodes.front()->parent->key;
  source.layouts = root.layouts;
  for (CacheNode* node : write.nodes) {
    source.pages.push_back(PageRecord{.key = node->key, .tokens = node->tokens});
    std::vector<const std::byte*> bytes;
    for (const Slot& slot : node->slots) {
      // A fence: the step that wrote the page has ended when its bytes are handed out.
      const Backend::HostPage page = backend.read_page(slot.data(), slot.n_bytes(), nullptr);
      if (!backend.is_done(page.ready)) backend.wait(page.ready);
      bytes.push_back(page.bytes);
    }
    source.bytes.push_back(std::move(bytes));
    tree.lease(node);
    tree.set_writing(node, true);
  }
  leased_to_writer += write.lease_bytes;
  const uint64_t ticket = ++last_ticket;
  writes.emplace(ticket, std::move(write));
  disk->write(ticket, std::move(source));
}

void TieredCache::Impl::on_write(const WriteReply& reply) {
  const auto it = writes.find(reply.ticket);
  CAIRN_CHECK(it != writes.end(), "an answer to a write that was never asked for");
  PendingWrite write = std::move(it->second);
  writes.erase(it);
  leased_to_writer -= write.lease_bytes;
  if (!reply.status.is_ok()) {
    unwrite_forgotten(reply.ticket, nullptr);
    on_write_failed(write, reply.status);
    return;
  }
  is_write_failing = false;
  ++counters.objects_written;
  counters.bytes_written += reply.file_bytes;
  disk_bytes += reply.file_bytes;
  count_log_record(write.record_bytes, false);
  if (counters.unsynced_bytes == 0) sync_due = clock.now() + options.sync_interval;
  counters.unsynced_bytes += reply.file_bytes;
  for (PendingFlush& flush : flushes) {
    ++flush.report.n_objects;
    flush.report.n_bytes += reply.file_bytes;
  }
  DiskObject* object =
      write.anchor ? index_anchor(write.root_index, std::move(*write.anchor), reply.file_bytes)
                   : index.add_written(write.root_index, write.kind, write.nodes, reply.file_bytes);
  object->sync_epoch = sync_epoch;
  unwrite_forgotten(reply.ticket, object);
  for (CacheNode* node : write.nodes) {
    tree.set_writing(node, false);
    if (!node->is_forgotten) remove_superseded(node);
  }
  for (auto node = write.nodes.rbegin(); node != write.nodes.rend(); ++node) release_node(*node);
}

void TieredCache::Impl::on_write_failed(const PendingWrite& write, const Status& status) {
  ++counters.write_errors;
  const bool is_full = status.code() == StatusCode::kNoSpace;
  const bool is_transient = is_full || status.code() == StatusCode::kIo;
  const TimePoint now = clock.now();
  if (!is_write_failing) {
    // Once, until a write succeeds again.
    is_write_failing = true;
    log_warning("writing to the store failed: {}; {}",
                status.message(),
                is_transient ? "serving goes on without, and writing is tried again later"
                             : "these pages stay in memory only");
  }
  if (is_transient) {
    const std::chrono::seconds pause = is_full ? kNoSpacePause : kFaultPause;
    paused_until = std::max(paused_until, now + pause);
  }
  for (PendingFlush& flush : flushes) {
    ++flush.report.n_failed;
    if (flush.report.status.is_ok()) flush.report.status = status;
  }
  for (CacheNode* node : write.nodes) {
    tree.set_writing(node, false);
    // What the store refuses for its shape would be refused again.
    if (!is_transient) tree.set_may_persist(node, false);
  }
  for (auto node = write.nodes.rbegin(); node != write.nodes.rend(); ++node) release_node(*node);
}

uint64_t TieredCache::Impl::start_sync() {
  const uint64_t ticket = ++last_ticket;
  if (!used_objects.empty()) record_use();
  ++n_syncs;
  disk->sync(ticket);
  return ticket;
}

void TieredCache::Impl::pump_sync() {
  if (disk == nullptr) return;
  const TimePoint now = clock.now();
  const bool is_due = now >= sync_due ||
                      (counters.unsynced_bytes >= options.sync_bytes && now >= sync_paused_until);
  if (counters.unsynced_bytes > 0 && n_syncs == 0 && is_due) start_sync();
  if (!used_objects.empty() && now >= use_due) {
    record_use();
    compact_log();
  }
}

void TieredCache::Impl::on_sync(const SyncReply& reply) {
  --n_syncs;
  if (reply.status.is_ok()) {
    // Commands run in order: every write that has been answered by now was before the sync.
    counters.unsynced_bytes = 0;
    ++sync_epoch;
    remove_outlived();
  } else {
    ++counters.write_errors;
    log_warning("the store could not be made durable: {}", reply.status.message());
    sync_due = sync_paused_until = clock.now() + kFaultPause;
  }
  for (size_t i = 0; i < flushes.size();) {
    PendingFlush& flush = flushes[i];
    if (flush.phase != PendingFlush::Phase::kSyncing || flush.sync_ticket != reply.ticket) {
      ++i;
      continue;
    }
    if (flush.report.status.is_ok()) flush.report.status = reply.status;
    PendingFlush ended = std::move(flush);
    flushes.erase(flushes.begin() + static_cast<std::ptrdiff_t>(i));
    end_flush(std::move(ended));
  }
}

void TieredCache::Impl::pump_flushes() {
  for (size_t i = 0; i < flushes.size();) {
    PendingFlush& flush = flushes[i];
    const bool is_written =
        (!planner.has_ready_until(flush.serial) && !has_new_anchors_until(flush.anchor_serial)) ||
        !flush.report.status.is_ok();
    if (flush.phase == PendingFlush::Phase::kSyncing || !is_written) {
      ++i;
      continue;
    }
    if (writes.empty() && counters.unsynced_bytes == 0) {
      PendingFlush ended = std::move(flush);
      flushes.erase(flushes.begin() + static_cast<std::ptrdiff_t>(i));
      end_flush(std::move(ended));
      continue;
    }
    // Writes in flight come before the sync in the writer's queue, so it covers them.
    flush.phase = PendingFlush::Phase::kSyncing;
    flush.sync_ticket = start_sync();
    ++i;
  }
}

void TieredCache::Impl::end_flush(PendingFlush flush) {
  flush.report.n_dropped = counters.dropped_dirty;
  completions.push_back(
      [done = std::move(flush.done), report = std::move(flush.report)] { done(report); });
}

void TieredCache::Impl::run_completions() {
  // Each may start another flush.
  const std::vector<std::function<void()>> ready = std::exchange(completions, {});
  for (const auto& call : ready) call();
}

TieredCache::Impl::TimePoint TieredCache::Impl::next_deadline() const {
  const TimePoint now = clock.now();
  if (!completions.empty()) return now;
  TimePoint deadline = TimePoint::max();
  if (disk == nullptr) return deadline;
  // With writes in flight their replies come first; when blocked, the end of a sequence does.
  if (writes.empty() && !is_blocked) {
    if (planner.has_ready_page()) deadline = std::max(now, paused_until);
    if (const auto leaf = planner.oldest_leaf()) {
      deadline = std::min(deadline, std::max(*leaf + options.leaf_delay, paused_until));
    }
    if (!new_anchors.empty()) {
      const TimePoint due = new_anchors.front().idle_since + options.leaf_delay;
      deadline = std::min(deadline, std::max(due, paused_until));
    }
  }
  if (counters.unsynced_bytes > 0 && n_syncs == 0) deadline = std::min(deadline, sync_due);
  if (!used_objects.empty()) deadline = std::min(deadline, use_due);
  return deadline;
}

}  // namespace cairn
