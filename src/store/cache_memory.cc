// One budget: what is promised, what may be taken, what has to go.
#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "store/tiered_cache_impl.h"

namespace cairn {

namespace {

constexpr std::chrono::seconds kDemotionInterval{1};

size_t chunks_for(const PagePool& pool, size_t slot_bytes, size_t n_slots) {
  const size_t n_each = pool.slots_per_chunk(slot_bytes);
  return (n_slots + n_each - 1) / n_each * pool.chunk_size(slot_bytes);
}

}  // namespace

size_t TieredCache::Impl::promised_bytes(uint32_t root_index, size_t n_more) const {
  std::map<size_t, size_t> n_slots = reserved_slots;
  for (const auto& [slot_bytes, n] : private_slots) n_slots[slot_bytes] += n;
  for (const auto& [slot_bytes, n] : roots[root_index].page_slots)
    n_slots[slot_bytes] += n * n_more;
  size_t n_bytes = 0;
  for (const size_t slot_bytes : slot_sizes) {
    n_bytes += chunks_for(pool, slot_bytes, n_slots[slot_bytes] + tree.n_leased_slots(slot_bytes));
  }
  return n_bytes;
}

bool TieredCache::Impl::fits(uint32_t root_index, size_t n_more) const {
  return promised_bytes(root_index, n_more) <= pool.limit_bytes();
}

Status TieredCache::Impl::check_can_ever_fit(uint32_t root_index,
                                             size_t n_rows,
                                             size_t n_pages) const {
  size_t n_bytes = 0;
  for (const auto& [slot_bytes, n] : roots[root_index].page_slots) {
    n_bytes += chunks_for(pool, slot_bytes, n * n_pages);
  }
  // With nothing else alive there is nobody to wait for: then what does not fit now never will.
  const bool is_alone = n_sequences == 0 && restores.empty() && writes.empty();
  if (n_bytes <= (is_alone ? pool.limit_bytes() : pool.budget_bytes())) return Status::ok();
  size_t n_rows_max = SIZE_MAX;
  for (const auto& [slot_bytes, n] : roots[root_index].page_slots) {
    n_rows_max = std::min(n_rows_max, pool.capacity_slots(slot_bytes) / n * page_tokens);
  }
  return Status::invalid_argument(fmt::format(
      "{} tokens need {} bytes of cache memory, and the whole of it ({} bytes) holds {} "
      "tokens of this model; ask for fewer tokens or raise --cache-ram",
      n_rows,
      n_bytes,
      pool.limit_bytes(),
      n_rows_max));
}

void TieredCache::Impl::reserve(CacheSequence::Impl* seq, size_t n_pages) {
  seq->n_reserved += n_pages;
  for (const auto& [slot_bytes, n] : roots[seq->root_index].page_slots) {
    reserved_slots[slot_bytes] += n * n_pages;
  }
}

void TieredCache::Impl::unreserve(CacheSequence::Impl* seq, size_t n_pages) {
  CAIRN_CHECK(n_pages <= seq->n_reserved, "more pages than were reserved");
  seq->n_reserved -= n_pages;
  for (const auto& [slot_bytes, n] : roots[seq->root_index].page_slots) {
    reserved_slots[slot_bytes] -= n * n_pages;
  }
}

void TieredCache::Impl::count_private(const PageSlots& slots, bool add) {
  for (const Slot& slot : slots) private_slots[slot.n_bytes()] += add ? size_t{1} : ~size_t{0};
}

Result<PageSlots> TieredCache::Impl::take_page(uint32_t root_index) {
  PageSlots slots;
  for (const PageLayout& layout : roots[root_index].layouts) {
    const size_t n_bytes = layout.page_bytes();
    const bool has_room = tree.evict_until([&] { return pool.can_acquire(n_bytes); },
                                           [&](const CacheNode& node) {
                                             ++counters.evicted_pages;
                                             if (!node.has_bytes()) ++counters.dropped_dirty;
                                           });
    if (!has_room)
      return Status::overloaded("every page in memory is in use; wait or raise --cache-ram");
    CAIRN_ASSIGN_OR_RETURN(Slot slot, pool.acquire(n_bytes));
    slots.push_back(std::move(slot));
  }
  count_private(slots, true);
  return slots;
}

void TieredCache::Impl::drop_page(PageSlots slots) {
  count_private(slots, false);
}

void TieredCache::Impl::give_page(CacheNode* node, PageSlots slots) {
  count_private(slots, false);
  tree.give_slots(node, std::move(slots));
}

void TieredCache::Impl::release_node(CacheNode* node) {
  tree.unlease(node);
  if (node->is_forgotten && node->n_leases == 0 && node->is_resident()) tree.drop_slots(node);
  tree.prune(node);
}

void TieredCache::Impl::update_other_bytes() {
  const size_t n_other =
      tree.memory_bytes() + index.memory_bytes() + anchors->memory_bytes() + roots_bytes();
  // Promises stand: what they need is never taken away by bookkeeping that grew meanwhile.
  const size_t n_promised = roots.empty() ? 0 : promised_bytes(0, 0);
  const size_t budget = options.ram_budget_bytes;
  pool.set_other_bytes(std::min(n_other, budget > n_promised ? budget - n_promised : 0));
}

void TieredCache::Impl::demote() {
  update_other_bytes();
  if (!pool.is_over_budget() || clock.now() < next_demotion) return;
  // Recency alone would empty a page here and a page there and free no chunk. Walking the tree is
  // slow, so a pass that finds only chunks in use is not repeated at once.
  for (const uint32_t chunk : pool.emptiest_chunks()) {
    if (!pool.is_over_budget()) return;
    if (!empty_chunk(chunk)) break;
  }
  next_demotion = clock.now() + kDemotionInterval;
}

bool TieredCache::Impl::empty_chunk(uint32_t chunk) {
  std::vector<CacheNode*> inside;
  size_t n_free = 0;  // slots in the chunk that eviction may take
  tree.for_each([&](CacheNode& node) {
    if (node.n_leases > 0) return;
    const auto n = std::count_if(
        node.slots.begin(), node.slots.end(), [&](const Slot& s) { return s.chunk() == chunk; });
    if (n == 0) return;
    inside.push_back(&node);
    n_free += static_cast<size_t>(n);
  });
  if (n_free < pool.live_slots(chunk)) return false;
  // Deepest first: pruning a node may take its ancestors along, never its descendants.
  std::sort(inside.begin(), inside.end(), [](auto* a, auto* b) { return a->depth > b->depth; });
  for (CacheNode* node : inside) {
    tree.drop_slots(node);
    ++counters.evicted_pages;
    if (!node->has_bytes()) ++counters.dropped_dirty;
    tree.prune(node);
  }
  return true;
}

}  // namespace cairn
