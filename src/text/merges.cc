#include "text/merges.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace cairn {

namespace {

constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// Up to here a scan over all pairs is faster than the heap (words of ordinary text are 1 to 15
// bytes).
constexpr size_t kShortPiece = 48;

size_t table_size(size_t n) {
  return std::bit_ceil(std::max<size_t>(n * 2, 16));
}

uint64_t mix(uint64_t key) {
  // The finaliser of SplitMix64: every input bit reaches every output bit.
  key ^= key >> 30U;
  key *= 0xBF58476D1CE4E5B9U;
  key ^= key >> 27U;
  key *= 0x94D049BB133111EBU;
  return key ^ (key >> 31U);
}

uint64_t pair_key(TokenId left, TokenId right) {
  return (uint64_t{left} << 32U) | right;
}

// Lowest rank first, then leftmost; std heaps keep the greatest on top.
bool comes_later(const MergeScratch::Candidate& a, const MergeScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.pos > b.pos;
}

}  // namespace

MergeTable::MergeTable(size_t n_merges) : slots_(table_size(n_merges)), mask_(slots_.size() - 1) {}

void MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  const uint64_t key = pair_key(left, right);
  size_t slot = mix(key) & mask_;
  while (slots_[slot].key != kEmpty) {
    if (slots_[slot].key == key) return;
    slot = (slot + 1) & mask_;
  }
  slots_[slot] = {key, merge};
}

const MergeTable::Merge* MergeTable::find(TokenId left, TokenId right) const {
  const uint64_t key = pair_key(left, right);
  for (size_t slot = mix(key) & mask_; slots_[slot].key != kEmpty; slot = (slot + 1) & mask_) {
    if (slots_[slot].key == key) return &slots_[slot].merge;
  }
  return nullptr;
}

void MergeTable::apply(MergeScratch& scratch) const {
  if (scratch.ids.size() <= kShortPiece) {
    apply_short(scratch);
  } else {
    apply_long(scratch);
  }
}

// ranks[i] and merged[i] belong to the pair (ids[i], ids[i + 1]).
void MergeTable::apply_short(MergeScratch& scratch) const {
  auto& ids = scratch.ids;
  auto& ranks = scratch.ranks;
  auto& merged = scratch.merged;
  if (ids.size() < 2) return;
  size_t n_pairs = ids.size() - 1;
  ranks.resize(n_pairs);
  merged.resize(n_pairs);
  const auto look_up = [&](size_t i) {
    const Merge* merge = find(ids[i], ids[i + 1]);
    ranks[i] = merge == nullptr ? kNoRank : merge->rank;
    merged[i] = merge == nullptr ? 0 : merge->id;
  };
  for (size_t i = 0; i < n_pairs; ++i) look_up(i);
  while (n_pairs > 0) {
    // Strictly less: the leftmost of equal ranks wins.
    size_t best = 0;
    for (size_t i = 1; i < n_pairs; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    const auto at = static_cast<std::ptrdiff_t>(best);
    ids[best] = merged[best];
    ids.erase(ids.begin() + at + 1);
    ranks.erase(ranks.begin() + at);
    merged.erase(merged.begin() + at);
    --n_pairs;
    if (best < n_pairs) look_up(best);
    if (best > 0) look_up(best - 1);
  }
}

// A heap of candidates over a linked list. A candidate whose symbols changed meanwhile is stale and
// is dropped when it comes up.
void MergeTable::apply_long(MergeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const size_t n = scratch.ids.size();
  CAIRN_CHECK(n < kNone);
  symbols.clear();
  heap.clear();
  for (uint32_t i = 0; i < n; ++i) {
    symbols.push_back({scratch.ids[i], i == 0 ? kNone : i - 1, i + 1 == n ? kNone : i + 1, true});
  }
  const auto push = [&](uint32_t pos) {
    const uint32_t next = symbols[pos].next;
    if (next == kNone) return;
    const Merge* merge = find(symbols[pos].id, symbols[next].id);
    if (merge == nullptr) return;
    heap.push_back({merge->rank, pos, symbols[pos].id, symbols[next].id, merge->id});
    std::push_heap(heap.begin(), heap.end(), comes_later);
  };
  for (uint32_t i = 0; i < n; ++i) push(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const MergeScratch::Candidate candidate = heap.back();
    heap.pop_back();
    MergeScratch::Symbol& left = symbols[candidate.pos];
    if (!left.is_live || left.id != candidate.left || left.next == kNone) continue;
    MergeScratch::Symbol& right = symbols[left.next];
    if (right.id != candidate.right) continue;
    left.id = candidate.merged;
    left.next = right.next;
    right.is_live = false;
    if (left.next != kNone) symbols[left.next].prev = candidate.pos;
    push(candidate.pos);
    if (left.prev != kNone) push(left.prev);
  }
  scratch.ids.clear();
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) scratch.ids.push_back(symbols[i].id);
}

}  // namespace cairn
