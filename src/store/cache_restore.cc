// Lookup over both tiers, and reading back: a transaction that many sequences may wait for.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "store/tiered_cache_impl.h"

namespace cairn {

namespace {

// A restore is refused only when it is predicted to cost more than this many times the prefill and
// more than this many seconds on top (DESIGN 3.4).
constexpr double kRestoreFactorMax = 2.0;
constexpr double kRestoreExtraSecondsMax = 0.25;
// Weight of the newest measurement of the disk's speed.
constexpr double kRateWeight = 0.3;
// Damaged objects that one request may run into before it looks at memory alone.
constexpr size_t kFallBacksMax = 3;

// Of the timeline that a prompt left, for the reply's usage: enough to see what is different.
constexpr size_t kKnownIdsMax = 128;

MissReason miss_of(MatchEnd end) {
  switch (end) {
    case MatchEnd::kComplete:
      return MissReason::kNone;
    case MatchEnd::kEmpty:
      return MissReason::kEmpty;
    case MatchEnd::kDiverged:
      return MissReason::kDiverged;
    case MatchEnd::kEnded:
      return MissReason::kEnded;
    case MatchEnd::kDropped:
      return MissReason::kDropped;
  }
  check_failed("end", __FILE__, __LINE__, "unknown end of a match");
}

bool needs_disk(const PrefixMatch& match) {
  const auto is_away = [](const CacheNode* node) { return !node->is_resident(); };
  return (match.partial != nullptr && is_away(match.partial)) ||
         std::any_of(match.pages.begin(), match.pages.end(), is_away);
}

}  // namespace

RestoreMode TieredCache::Impl::mode_for(const BeginOptions& begin) const {
  return begin.restore == RestoreMode::kAuto ? options.restore : begin.restore;
}

bool TieredCache::Impl::is_worth_restoring(uint32_t root_index, const PrefixMatch& match) const {
  if (restore_bytes_per_second <= 0 || prefill_tokens_per_second <= 0) return true;
  size_t n_pages_away = match.partial != nullptr && !match.partial->is_resident() ? 1 : 0;
  size_t n_front = 0;  // pages in memory before the first that is not
  for (const CacheNode* node : match.pages) {
    if (!node->is_resident()) {
      ++n_pages_away;
    } else if (n_pages_away == 0) {
      ++n_front;
    }
  }
  const size_t page_bytes = roots[root_index].spec->geometry.payload_bytes();
  const double restore_s =
      static_cast<double>(n_pages_away * page_bytes) / restore_bytes_per_second;
  const double prefill_s =
      static_cast<double>(match.n_tokens - n_front * page_tokens) / prefill_tokens_per_second;
  return restore_s <= kRestoreFactorMax * prefill_s ||
         restore_s - prefill_s <= kRestoreExtraSecondsMax;
}

ReusePlan TieredCache::Impl::plan_reuse(uint32_t root_index,
                                        std::span<const TokenId> prompt,
                                        size_t max_reuse,
                                        RestoreMode mode) const {
  ReusePlan plan;
  plan.match = tree.peek(root_index, prompt, max_reuse);
  plan.miss = miss_of(plan.match.end);
  if (!needs_disk(plan.match)) return plan;
  const bool is_wanted =
      disk != nullptr && mode != RestoreMode::kNever &&
      (mode == RestoreMode::kAlways || is_worth_restoring(root_index, plan.match));
  if (is_wanted) return plan;
  const size_t n_known = plan.match.n_tokens;
  plan.match = tree.peek(root_index, prompt, max_reuse, MatchScope::kMemory);
  if (plan.match.n_tokens < n_known) plan.miss = MissReason::kNotWorth;
  return plan;
}

size_t TieredCache::Impl::pages_wanted(const PrefixMatch& match, size_t n_pages) const {
  // Pages that somebody leases already cost nothing more. A page that another sequence's restore
  // will bring is counted until it is here: should it fail, this sequence computes its own.
  size_t n = n_pages;
  for (const CacheNode* node : match.pages) {
    if (node->is_resident() && node->n_leases > 0) --n;
  }
  if (match.partial != nullptr && !match.partial->is_resident() && !match.partial->is_restoring)
    ++n;
  return n;
}

Result<std::unique_ptr<CacheSequence>> TieredCache::begin(uint32_t root_index,
                                                          std::span<const TokenId> prompt,
                                                          const BeginOptions& options) {
  Impl& cache = *impl_;
  CAIRN_CHECK(root_index < cache.roots.size() && cache.roots[root_index].is_live &&
                  cache.roots[root_index].spec,
              "root was never added");
  const size_t n_rows = std::max({options.max_rows, prompt.size(), size_t{1}});
  const size_t n_pages = n_rows / cache.page_tokens + (n_rows % cache.page_tokens == 0 ? 0 : 1);
  CAIRN_RETURN_IF_ERROR(cache.check_can_ever_fit(root_index, n_rows, n_pages));
  ReusePlan plan = cache.plan_reuse(root_index, prompt, options.max_reuse, cache.mode_for(options));
  if (!cache.fits(root_index, cache.pages_wanted(plan.match, n_pages)) &&
      plan.match.partial != nullptr && !plan.match.partial->is_resident()) {
    // The partial page needs a slot of its own while it is read; without it there may be room.
    plan.match.partial = nullptr;
    plan.match.n_tokens -= std::exchange(plan.match.partial_rows, 0);
  }
  if (!cache.fits(root_index, cache.pages_wanted(plan.match, n_pages))) {
    return Status::overloaded(
        fmt::format("no room for {} tokens now: the cache's {} bytes are promised to other "
                    "requests; try again later "
                    "or raise --cache-ram",
                    n_rows,
                    cache.pool.limit_bytes()));
  }
  auto impl = std::make_unique<CacheSequence::Impl>();
  CacheSequence::Impl* seq = impl.get();
  seq->cache = &cache;
  seq->root_index = root_index;
  seq->keep = options.keep;
  seq->persist = options.persist && options.keep;
  seq->conversation = options.conversation;
  seq->n_pages_max = n_pages;
  seq->max_reuse = options.max_reuse;
  seq->begun = cache.clock.now();
  ++cache.counters.lookups;
  ++cache.n_sequences;
  cache.sequences.insert(seq);
  ++cache.roots[root_index].n_sequences;
  std::unique_ptr<CacheSequence> sequence(new CacheSequence(std::move(impl)));

  cache.adopt_match(seq, plan);
  if (needs_disk(plan.match)) seq->prompt.assign(prompt.begin(), prompt.end());
  cache.restore_or_complete(seq, plan);
  return sequence;
}

ReuseReport TieredCache::explain(uint32_t root_index,
                                 std::span<const TokenId> prompt,
                                 size_t n_known_max) const {
  const Impl& cache = *impl_;
  const ReusePlan plan = cache.plan_reuse(root_index, prompt, SIZE_MAX, cache.options.restore);
  ReuseReport report;
  report.miss = plan.miss;
  report.miss_token = plan.match.n_tokens;
  for (const CacheNode* node : plan.match.pages) {
    (node->is_resident() ? report.device_tokens : report.disk_tokens) += node->tokens.size();
  }
  if (plan.match.partial != nullptr) {
    (plan.match.partial->is_resident() ? report.device_tokens : report.disk_tokens) +=
        plan.match.partial_rows;
  }
  if (plan.miss == MissReason::kDiverged)
    report.known = cache.tree.continuation(root_index, plan.match, n_known_max);
  return report;
}

void TieredCache::Impl::adopt_match(CacheSequence::Impl* seq, const ReusePlan& plan) {
  seq->reuse = {};
  seq->reuse.miss = plan.miss;
  if (plan.miss == MissReason::kDiverged)
    seq->reuse.known = tree.continuation(seq->root_index, plan.match, kKnownIdsMax);
  seq->path = plan.match.pages;
  seq->partial = plan.match.partial;
  seq->partial_rows = plan.match.partial_rows;
  for (CacheNode* node : seq->path) {
    tree.lease(node);
    if (seq->persist) tree.set_may_persist(node, true);
    note_use(*node);
    if (node->is_resident()) continue;
    ++seq->n_joined;
    seq->reuse.disk_tokens += page_tokens;
  }
  if (seq->partial != nullptr) {
    tree.lease(seq->partial);
    if (!seq->partial->is_resident()) seq->reuse.disk_tokens += seq->partial_rows;
    note_use(*seq->partial);
    // Its timeline goes on: it is not idle, and will most likely be overtaken.
    planner.set_idle_since(seq->partial, clock.now());
    tree.touch(seq->partial);
  } else if (!seq->path.empty()) {
    tree.touch(seq->path.back());
  }
  reserve(seq, seq->n_pages_max - seq->path.size() + seq->n_joined);
}

Status TieredCache::Impl::start_restores(CacheSequence::Impl* seq) {
  std::map<uint64_t, std::vector<CacheNode*>> by_object;
  std::set<uint64_t> tickets;
  const auto want = [&](CacheNode* node) {
    if (node->is_resident()) return;
    if (!node->is_restoring) {
      by_object[node->disk.object_id].push_back(node);
      return;
    }
    Restore* other = restore_of(node);
    const bool is_new =
        std::find(other->waiters.begin(), other->waiters.end(), seq) == other->waiters.end();
    if (!is_new) return;
    other->waiters.push_back(seq);
    ++seq->n_pending;
  };
  for (CacheNode* node : seq->path) want(node);
  if (seq->partial != nullptr) want(seq->partial);
  for (auto& [object_id, nodes] : by_object) {
    CAIRN_RETURN_IF_ERROR(read_object(seq, object_id, std::move(nodes)));
  }
  return Status::ok();
}

Status TieredCache::Impl::read_object(CacheSequence::Impl* seq,
                                      uint64_t object_id,
                                      std::vector<CacheNode*> nodes) {
  DiskObject* object = index.find(object_id);
  CAIRN_CHECK(object != nullptr, "a node names an object that is gone");
  Restore restore{.object_id = object_id,
                  .root_index = seq->root_index,
                  .nodes = std::move(nodes),
                  .slots = {},
                  .waiters = {seq}};
  std::vector<PageTarget> targets;
  for (CacheNode* node : restore.nodes) {
    Result<PageSlots> slots = take_page(seq->root_index);
    if (!slots.is_ok()) {
      for (PageSlots& taken : restore.slots) drop_page(std::move(taken));
      return slots.status();
    }
    PageTarget target{.page_index = node->disk.page_index, .bytes = {}};
    for (Slot& slot : *slots) {
      target.bytes.push_back(backend.begin_write_page(slot.data(), slot.n_bytes(), nullptr));
    }
    targets.push_back(std::move(target));
    restore.slots.push_back(std::move(*slots));
  }
  for (CacheNode* node : restore.nodes) {
    tree.lease(node);
    node->is_restoring = true;
    // The slot is private now, so the promise for it is kept.
    if (node != seq->partial) {
      unreserve(seq, 1);
      --seq->n_joined;
    }
  }
  ++seq->n_pending;
  const uint64_t ticket = ++last_ticket;
  disk->read(ticket, index.entry_of(*object), roots[seq->root_index].layouts, std::move(targets));
  restores.emplace(ticket, std::move(restore));
  return Status::ok();
}

Restore* TieredCache::Impl::restore_of(const CacheNode* node) {
  for (auto& [ticket, restore] : restores) {
    if (std::find(restore.nodes.begin(), restore.nodes.end(), node) != restore.nodes.end())
      return &restore;
  }
  check_failed("restore_of", __FILE__, __LINE__, "a node is being restored by nobody");
}

void TieredCache::Impl::on_read(const ReadReply& reply) {
  const auto it = restores.find(reply.ticket);
  CAIRN_CHECK(it != restores.end(), "an answer to a read that was never asked for");
  Restore restore = std::move(it->second);
  restores.erase(it);
  for (size_t i = 0; i < restore.nodes.size(); ++i) {
    CacheNode* node = restore.nodes[i];
    node->is_restoring = false;
    for (Slot& slot : restore.slots[i])
      backend.end_write_page(slot.data(), slot.n_bytes(), nullptr);
    // Another sequence may have computed the page meanwhile.
    if (reply.status.is_ok() && !node->is_resident()) {
      give_page(node, std::move(restore.slots[i]));
    } else {
      drop_page(std::move(restore.slots[i]));
    }
  }
  if (reply.status.is_ok()) {
    ++counters.objects_restored;
    counters.bytes_restored += reply.n_bytes;
    measure_restore(reply);
  } else {
    ++counters.restore_errors;
    lose_object(restore.object_id, reply.status);
  }
  for (CacheNode* node : restore.nodes) release_node(node);
  for (CacheSequence::Impl* seq : restore.waiters) {
    --seq->n_pending;
    seq->has_failed = seq->has_failed || !reply.status.is_ok();
    if (seq->n_pending == 0) complete(seq);
  }
}

// Reads that are asked for together share the disk, and each one's time includes its wait: the
// speed is that of the whole burst, from the first question to the last answer.
void TieredCache::Impl::measure_restore(const ReadReply& reply) {
  burst_bytes += reply.n_bytes;
  burst_micros = std::max(burst_micros, reply.micros);
  if (!restores.empty() || burst_micros == 0) return;
  const double rate = static_cast<double>(burst_bytes) * 1e6 / static_cast<double>(burst_micros);
  const bool is_first = restore_bytes_per_second <= 0;
  restore_bytes_per_second += (is_first ? 1.0 : kRateWeight) * (rate - restore_bytes_per_second);
  burst_bytes = 0;
  burst_micros = 0;
}

void TieredCache::Impl::lose_object(uint64_t object_id, const Status& status) {
  DiskObject* object = index.find(object_id);
  if (object == nullptr) return;  // another read of it failed before
  const ObjectEntry entry = index.entry_of(*object);
  if (status.code() == StatusCode::kNotFound) {
    log_warning("cache object {} is gone: {}; it will be recomputed",
                to_hex(entry.key()).substr(0, 16),
                status.message());
    disk->remove(entry);
    disk_bytes -= std::min(disk_bytes, entry.file_bytes);
    count_log_record(sizeof(PageKey) * 2, true);
  } else if (status.code() == StatusCode::kUnsupported) {
    // Another version's, which can read it: left as it is.
    log_warning("cache object {} is left alone: {}; it will be recomputed",
                to_hex(entry.key()).substr(0, 16),
                status.message());
  } else {
    // Set aside it still counts for the folder's size. The store logs why.
    ++counters.quarantined;
    disk->quarantine(entry, status.to_string());
    count_log_record(sizeof(PageKey) * 2, true);
  }
  used_objects.erase(object_id);
  const uint32_t root_index = object->root_index;
  for (CacheNode* node : index.remove(object)) tree.prune(node);
  // One that was left alone keeps its folder: it is not empty.
  drop_empty_root(root_index);
}

void TieredCache::Impl::complete(CacheSequence::Impl* seq) {
  if (seq->has_failed) {
    fall_back(seq);
    return;
  }
  unreserve(seq, std::exchange(seq->n_joined, 0));
  const bool was_away = !seq->prompt.empty();
  seq->tables.assign(roots[seq->root_index].layouts.size(), {});
  for (const CacheNode* node : seq->path) {
    CAIRN_CHECK(node->is_resident(), "a sequence is ready before its pages are");
    for (size_t g = 0; g < seq->tables.size(); ++g) seq->tables[g].push_back(node->slots[g].data());
  }
  seq->n_rows = seq->path.size() * page_tokens;
  if (seq->partial != nullptr) copy_partial(seq);
  seq->n_rows_touched = seq->n_rows;
  seq->reuse.disk_tokens = std::min<uint64_t>(seq->reuse.disk_tokens, seq->n_rows);
  seq->reuse.device_tokens = seq->n_rows - seq->reuse.disk_tokens;
  seq->reuse.miss_token = seq->n_rows;
  counters.hit_tokens_device += seq->reuse.device_tokens;
  counters.hit_tokens_disk += seq->reuse.disk_tokens;
  if (was_away) {
    const std::chrono::duration<double, std::milli> waited = clock.now() - seq->begun;
    seq->reuse.restore_ms = waited.count();
  }
  seq->prompt = {};
}

void TieredCache::Impl::copy_partial(CacheSequence::Impl* seq) {
  CacheNode* source = std::exchange(seq->partial, nullptr);
  // One slot more than was promised while both exist; without it the rows are computed instead.
  Result<PageSlots> slots = take_page(seq->root_index);
  if (slots.is_ok()) {
    unreserve(seq, 1);
    for (size_t g = 0; g < slots->size(); ++g) {
      backend.copy_rows({.layout = &roots[seq->root_index].layouts[g],
                         .src = source->slots[g].data(),
                         .dst = (*slots)[g].data(),
                         .n_rows = seq->partial_rows});
      seq->tables[g].push_back((*slots)[g].data());
    }
    seq->own.push_back(std::move(*slots));
    seq->tail.assign(source->tokens.begin(), source->tokens.begin() + seq->partial_rows);
    seq->n_rows += seq->partial_rows;
  }
  release_node(source);
}

// What is still there, on disk too: a shorter leaf may serve where a longer one was damaged. Each
// time around something has left the index, and after a few the rest is computed.
ReusePlan TieredCache::Impl::plan_fall_back(const CacheSequence::Impl& seq) const {
  ReusePlan plan;
  plan.miss = MissReason::kDamaged;
  if (seq.n_fall_backs < kFallBacksMax) {
    plan.match = tree.peek(seq.root_index, seq.prompt, seq.max_reuse);
    if (fits(seq.root_index, pages_wanted(plan.match, seq.n_pages_max))) return plan;
  }
  plan.match = tree.peek(seq.root_index, seq.prompt, seq.max_reuse, MatchScope::kMemory);
  return plan;
}

void TieredCache::Impl::fall_back(CacheSequence::Impl* seq) {
  if (seq->n_fall_backs++ == 0) ++counters.misses_damaged;
  if (seq->partial != nullptr) release_node(std::exchange(seq->partial, nullptr));
  std::vector<CacheNode*> old_path = std::move(seq->path);
  unreserve(seq, seq->n_reserved);
  seq->n_joined = 0;
  seq->has_failed = false;
  const ReusePlan plan = plan_fall_back(*seq);
  adopt_match(seq, plan);
  for (auto it = old_path.rbegin(); it != old_path.rend(); ++it) release_node(*it);
  restore_or_complete(seq, plan);
}

void TieredCache::Impl::restore_or_complete(CacheSequence::Impl* seq, const ReusePlan& plan) {
  if (needs_disk(plan.match)) {
    if (const Status status = start_restores(seq); !status.is_ok()) {
      log_warning("restore could not start: {}; recomputing", status.message());
      seq->has_failed = true;
      seq->n_fall_backs = std::max(seq->n_fall_backs, kFallBacksMax);
    }
  }
  if (seq->n_pending == 0) complete(seq);
}

void TieredCache::Impl::forget_waiter(CacheSequence::Impl* seq) {
  if (seq->n_pending == 0) return;
  for (auto& [ticket, restore] : restores) std::erase(restore.waiters, seq);
}

}  // namespace cairn
