// One timeline of tokens: pages shared with the tree, then private pages.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "store/tiered_cache_impl.h"

namespace cairn {

CacheSequence::CacheSequence(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

CacheSequence::~CacheSequence() {
  impl_->release();
  --impl_->cache->n_sequences;
  impl_->cache->sequences.erase(impl_.get());
  --impl_->cache->roots[impl_->root_index].n_sequences;
}

bool CacheSequence::is_ready() const {
  return impl_->n_pending == 0;
}

const ReuseReport& CacheSequence::reuse() const {
  return impl_->reuse;
}

size_t CacheSequence::n_rows() const {
  return impl_->n_rows;
}

CacheNode* CacheSequence::Impl::parent() const {
  return path.empty() ? cache->tree.root(root_index) : path.back();
}

Status CacheSequence::prepare(size_t n) {
  Impl& seq = *impl_;
  CAIRN_CHECK(seq.n_pending == 0 && !seq.is_finished,
              "prepare() of a sequence that is not running");
  TieredCache::Impl& cache = *seq.cache;
  const size_t n_pages = (seq.n_rows + n + cache.page_tokens - 1) / cache.page_tokens;
  if (n_pages > seq.n_pages_max) {
    return Status::overloaded("a sequence asked for more rows than were reserved for it");
  }
  while (seq.path.size() + seq.own.size() < n_pages) {
    CAIRN_CHECK(seq.n_reserved > 0, "reservation does not cover max_rows");
    CAIRN_ASSIGN_OR_RETURN(PageSlots slots, cache.take_page(seq.root_index));
    cache.unreserve(&seq, 1);
    for (size_t g = 0; g < slots.size(); ++g) {
      cache.backend.zero_page(slots[g].data(), slots[g].n_bytes());
      seq.tables[g].push_back(slots[g].data());
    }
    seq.own.push_back(std::move(slots));
  }
  seq.n_rows_touched = std::max(seq.n_rows_touched, seq.n_rows + n);
  return Status::ok();
}

std::byte* const* CacheSequence::pages(size_t group) const {
  return impl_->tables.at(group).data();
}

void CacheSequence::advance(std::span<const TokenId> tokens) {
  Impl& seq = *impl_;
  const size_t page_tokens = seq.cache->page_tokens;
  CAIRN_CHECK(seq.n_pending == 0 && !seq.is_finished,
              "advance() of a sequence that is not running");
  CAIRN_CHECK(tokens.size() <= (seq.path.size() + seq.own.size()) * page_tokens - seq.n_rows,
              "rows that were not prepared");
  seq.tail.insert(seq.tail.end(), tokens.begin(), tokens.end());
  seq.n_rows += tokens.size();
  seq.n_rows_touched = std::max(seq.n_rows_touched, seq.n_rows);
  // What is not kept stays private to the end.
  while (seq.keep && seq.tail.size() >= page_tokens) {
    seq.advance_page();
    seq.tail.erase(seq.tail.begin(), seq.tail.begin() + static_cast<std::ptrdiff_t>(page_tokens));
  }
}

// Turns the first private page, which is full, into a node.
void CacheSequence::Impl::advance_page() {
  const std::span<const TokenId> ids(tail.data(), cache->page_tokens);
  CacheNode* above = parent();
  const PageKey key = chain_key(above->key, ids);
  CacheNode* node = cache->tree.insert(above, ids, key);
  cache->tree.lease(node);
  if (persist || !node->has_bytes()) cache->tree.set_may_persist(node, persist);

  PageSlots slots = std::move(own.front());
  own.erase(own.begin());
  const size_t page = path.size();
  if (node->is_resident()) {
    cache->check_same_bytes(*node, slots);
    for (size_t g = 0; g < tables.size(); ++g) tables[g][page] = node->slots[g].data();
    cache->drop_page(std::move(slots));
  } else {
    cache->give_page(node, std::move(slots));
  }
  path.push_back(node);
  cache->tree.touch(node);
  cache->note_use(*node);
  cache->remove_superseded(node);
  cache->continue_found(node);
}

size_t CacheSequence::adopt(std::span<const TokenId> upcoming) {
  Impl& seq = *impl_;
  TieredCache::Impl& cache = *seq.cache;
  const size_t page_tokens = cache.page_tokens;
  CAIRN_CHECK(seq.n_pending == 0 && !seq.is_finished, "adopt() of a sequence that is not running");
  if (!seq.tail.empty()) return 0;
  size_t n_adopted = 0;
  while (upcoming.size() - n_adopted >= page_tokens) {
    const auto& children = seq.parent()->children;
    const auto it = children.find(upcoming.subspan(n_adopted, page_tokens));
    if (it == children.end() || !it->second->is_resident() || it->second->is_forgotten) break;
    CacheNode* node = it->second.get();
    // The page takes the room of one that was promised or prepared.
    if (seq.n_reserved == 0 && seq.own.empty()) break;
    cache.tree.lease(node);
    if (seq.n_reserved > 0) {
      cache.unreserve(&seq, 1);
    } else {
      cache.drop_page(std::move(seq.own.back()));
      seq.own.pop_back();
      for (auto& table : seq.tables) table.pop_back();
    }
    for (size_t g = 0; g < seq.tables.size(); ++g) {
      seq.tables[g].insert(seq.tables[g].begin() + static_cast<std::ptrdiff_t>(seq.path.size()),
                           node->slots[g].data());
    }
    seq.path.push_back(node);
    if (seq.persist) cache.tree.set_may_persist(node, true);
    cache.tree.touch(node);
    cache.note_use(*node);
    n_adopted += page_tokens;
  }
  seq.n_rows += n_adopted;
  seq.n_rows_touched = std::max(seq.n_rows_touched, seq.n_rows);
  seq.reuse.device_tokens += n_adopted;
  cache.counters.hit_tokens_device += n_adopted;
  if (seq.n_rows == seq.reuse.miss_token + n_adopted) seq.reuse.miss_token = seq.n_rows;
  return n_adopted;
}

Status CacheSequence::truncate(size_t n) {
  Impl& seq = *impl_;
  const size_t n_shared = seq.path.size() * seq.cache->page_tokens;
  CAIRN_CHECK(seq.n_pending == 0 && n <= seq.n_rows, "truncate() past the end");
  if (n < n_shared) {
    return Status::invalid_argument("rows of full pages are shared and cannot be given back");
  }
  seq.tail.resize(n - n_shared);
  seq.n_rows = n;
  return Status::ok();
}

void CacheSequence::finish() {
  Impl& seq = *impl_;
  if (seq.n_pending == 0 && !seq.is_finished && seq.keep) {
    const CacheNode* end = seq.tail.empty() ? seq.parent() : seq.keep_tail();
    if (!end->is_root() && !seq.conversation.empty()) {
      seq.cache->labels.record(seq.root_index, seq.conversation, end->key);
    }
  }
  seq.release();
}

// Turns the unfinished page into a leaf, unless what is known serves its rows already.
CacheNode* CacheSequence::Impl::keep_tail() {
  PrefixTree& tree = cache->tree;
  CacheNode* above = parent();
  const bool is_on_disk =
      tree.any_covering(*above, tail, [](const CacheNode& node) { return node.disk.is_set(); });
  const bool may_persist = persist && n_rows >= cache->options.shortest_prefix && !is_on_disk;
  const bool is_served = tree.any_covering(*above, tail, [&](const CacheNode& node) {
    return node.is_resident() && (node.disk.is_set() || node.may_persist || !may_persist);
  });
  if (is_served) return above;
  PageSlots slots = std::move(own.front());
  own.erase(own.begin());
  if (n_rows_touched > n_rows) {
    // Rejected rows lie behind the last one. A leaf's unused rows are zero, so that equal ids are
    // equal bytes; the room comes from what this sequence had reserved or from pages nobody uses.
    Result<PageSlots> fresh = cache->take_page(root_index);
    if (!fresh.is_ok()) {
      cache->drop_page(std::move(slots));
      return above;
    }
    for (size_t g = 0; g < slots.size(); ++g) {
      cache->backend.copy_rows({.layout = &cache->roots[root_index].layouts[g],
                                .src = slots[g].data(),
                                .dst = (*fresh)[g].data(),
                                .n_rows = tail.size()});
    }
    std::swap(slots, *fresh);
    cache->drop_page(std::move(*fresh));
  }
  CacheNode* leaf = tree.insert(above, tail, chain_key(above->key, tail));
  tree.lease(leaf);
  if (may_persist || !leaf->has_bytes()) tree.set_may_persist(leaf, may_persist);
  cache->planner.set_idle_since(leaf, cache->clock.now());
  if (leaf->is_resident()) {
    cache->drop_page(std::move(slots));
  } else {
    cache->give_page(leaf, std::move(slots));
  }
  tree.touch(leaf);
  cache->note_use(*leaf);
  cache->remove_superseded(leaf);
  cache->release_node(leaf);
  return leaf;
}

void CacheSequence::Impl::release() {
  if (is_finished) return;
  is_finished = true;
  cache->forget_waiter(this);
  n_pending = 0;
  for (PageSlots& slots : own) cache->drop_page(std::move(slots));
  own.clear();
  cache->unreserve(this, n_reserved);
  if (partial != nullptr) cache->release_node(std::exchange(partial, nullptr));
  // Deepest first, so that a chain without bytes goes as a whole.
  for (auto it = path.rbegin(); it != path.rend(); ++it) cache->release_node(*it);
  path.clear();
  tables.clear();
}

// P2 made visible: two computations of one prefix gave the same bytes.
void TieredCache::Impl::check_same_bytes([[maybe_unused]] const CacheNode& node,
                                         [[maybe_unused]] const PageSlots& ours) const {
#ifndef NDEBUG
  const std::vector<PageLayout>& layouts = roots[node.root_index].layouts;
  for (size_t g = 0; g < ours.size(); ++g) {
    const size_t n_bytes = layouts[g].payload_bytes();
    std::vector<std::byte> theirs(n_bytes);
    std::vector<std::byte> mine(n_bytes);
    backend.read_back(theirs, node.slots[g].data());
    backend.read_back(mine, ours[g].data());
    CAIRN_CHECK(theirs == mine, "one prefix was computed twice with different bits");
  }
#endif
}

}  // namespace cairn
