#include "store/tiered_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "store/tiered_cache_impl.h"

namespace cairn {

namespace {

// What anchors may take of the budget: 4 bytes a token, so 64 MiB are 16 million tokens of
// conversations.
constexpr size_t kAnchorBytesMax = size_t{64} << 20;
constexpr size_t kAnchorShare = 16;

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;  // clang 16 does not deduce it

}  // namespace

std::string_view to_string(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      return "none";
    case MissReason::kEmpty:
      return "empty";
    case MissReason::kDiverged:
      return "diverged";
    case MissReason::kEnded:
      return "ended";
    case MissReason::kDropped:
      return "dropped";
    case MissReason::kDamaged:
      return "damaged";
    case MissReason::kNotWorth:
      return "not_worth";
  }
  check_failed("reason", __FILE__, __LINE__, "unknown miss reason");
}

TieredCache::Impl::Impl(Backend& backend_, const Clock& clock_, const TieredCacheOptions& options_)
    : backend(backend_),
      clock(clock_),
      options(options_),
      page_tokens(options_.page_tokens),
      pool(backend_, options_.ram_budget_bytes, options_.chunk_bytes),
      tree(options_.page_tokens),
      planner(options_.page_tokens),
      index(tree),
      anchors(std::make_shared<AnchorTable>(
          std::min(kAnchorBytesMax, options_.ram_budget_bytes / kAnchorShare))) {
  tree.set_observer(&planner);
}

TieredCache::TieredCache(Backend& backend, const Clock& clock, const TieredCacheOptions& options)
    : impl_(std::make_unique<Impl>(backend, clock, options)) {
  impl_->self = this;
}

TieredCache::~TieredCache() {
  impl_->forgets.clear();  // they hold sequences
  CAIRN_CHECK(impl_->n_sequences == 0, "a sequence outlived its cache");
}

void TieredCache::attach_disk(std::unique_ptr<StoreFiles> files,
                              OpenReport report,
                              std::function<void(StoreReply)> wake) {
  CAIRN_CHECK(impl_->disk == nullptr, "a disk tier is attached already");
  impl_->disk = std::make_unique<DiskStore>(std::move(files), std::move(wake));
  impl_->disk_disabled_reason.clear();
  impl_->disk_bytes = report.total_bytes;
  impl_->counters.quarantined += report.n_quarantined;
  impl_->counters.index_damage += report.n_bad_records + (report.index_was_rebuilt ? 1 : 0);
  impl_->counters.left_alone += report.n_unknown_version;
  impl_->attach_found(std::move(report.objects));
}

void TieredCache::set_disk_disabled(std::string reason) {
  impl_->disk_disabled_reason = std::move(reason);
}

size_t TieredCache::probe(uint32_t root_index, std::span<const TokenId> prompt) {
  return impl_->plan_reuse(root_index, prompt, SIZE_MAX, impl_->options.restore).match.n_tokens;
}

void TieredCache::on_reply(StoreReply reply) {
  std::visit(Overloaded{[&](const WriteReply& r) { impl_->on_write(r); },
                        [&](const ReadReply& r) { impl_->on_read(r); },
                        [&](const SyncReply& r) { impl_->on_sync(r); },
                        [&](const ForgetReply& r) { impl_->on_forgotten(r); }},
             reply);
  poll();
}

void TieredCache::poll() {
  impl_->demote();
  impl_->pump_forgets();
  impl_->pump_writes();
  impl_->pump_flushes();
  impl_->pump_sync();
  impl_->run_completions();
}

std::chrono::steady_clock::time_point TieredCache::next_deadline() const {
  return impl_->next_deadline();
}

void TieredCache::flush(std::function<void(FlushReport)> done) {
  PendingFlush flush;
  flush.serial = impl_->planner.last_serial();
  flush.anchor_serial = impl_->last_anchor_serial;
  flush.done = std::move(done);
  if (impl_->disk == nullptr) {
    flush.report.status =
        Status::unsupported("there is no disk tier to flush to: " + impl_->disk_disabled_reason);
    impl_->end_flush(std::move(flush));
    return;
  }
  // Somebody asks now: a pause after an earlier fault does not count.
  impl_->paused_until = {};
  impl_->flushes.push_back(std::move(flush));
  impl_->pump_writes();
  impl_->pump_flushes();
}

const std::shared_ptr<AnchorTable>& TieredCache::anchors() const {
  return impl_->anchors;
}

void TieredCache::keep_anchor(uint32_t root_index, const Anchor& anchor) {
  impl_->keep_anchor(root_index, anchor);
}

RootKey TieredCache::root_key_of(uint32_t root_index) const {
  return impl_->tree.root(root_index)->key;
}

void TieredCache::set_prefill_rate(double tokens_per_second) {
  impl_->prefill_tokens_per_second = tokens_per_second;
}

CacheStats TieredCache::stats() const {
  const Impl& cache = *impl_;
  CacheStats stats = cache.counters;
  stats.nodes = cache.tree.n_nodes();
  stats.resident_pages = cache.tree.n_resident();
  stats.dirty_pages = cache.tree.n_dirty();
  stats.ram_bytes = cache.pool.chunk_bytes() + cache.tree.memory_bytes() +
                    cache.index.memory_bytes() + cache.anchors->memory_bytes() +
                    cache.roots_bytes();
  stats.anchors = cache.anchors->n_anchors();
  stats.namespaces = cache.n_roots;
  stats.ram_budget_bytes = cache.options.ram_budget_bytes;
  stats.disk_enabled = cache.disk != nullptr;
  stats.disk_disabled_reason = cache.disk_disabled_reason;
  stats.reads_in_flight = cache.restores.size();
  stats.writes_in_flight = cache.writes.size();
  stats.syncs_in_flight =
      cache.n_syncs + static_cast<size_t>(std::count_if(
                          cache.forgets.begin(), cache.forgets.end(), [](const auto& forget) {
                            return forget.phase == PendingForget::Phase::kRemoving;
                          }));
  stats.disk_objects = cache.index.n_objects();
  stats.disk_bytes = cache.disk_bytes;
  stats.disk_max_bytes = cache.options.store_max_bytes;
  return stats;
}

Status TieredCache::check_invariants() const {
  return impl_->check_invariants();
}

}  // namespace cairn
