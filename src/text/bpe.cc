#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "base/coding.h"
#include "base/hash.h"

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
bool comes_later(const Bpe::Scratch::Candidate& a, const Bpe::Scratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.pos > b.pos;
}

}  // namespace

TokenTable::TokenTable(size_t n_tokens) : slots_(table_size(n_tokens)), mask_(slots_.size() - 1) {}

size_t TokenTable::slot_of(std::string_view bytes) const {
  size_t slot = xxh3_64(as_bytes(bytes)) & mask_;
  while (slots_[slot].bytes.data() != nullptr && slots_[slot].bytes != bytes) {
    slot = (slot + 1) & mask_;
  }
  return slot;
}

bool TokenTable::insert(std::string_view bytes, TokenId id) {
  CAIRN_CHECK(bytes.data() != nullptr);
  Entry& entry = slots_[slot_of(bytes)];
  if (entry.bytes.data() != nullptr) return false;
  entry = {bytes, id};
  return true;
}

std::optional<TokenId> TokenTable::find(std::string_view bytes) const {
  const Entry& entry = slots_[slot_of(bytes)];
  if (entry.bytes.data() == nullptr) return std::nullopt;
  return entry.id;
}

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

Bpe::Bpe(TokenTable tokens, MergeTable merges, Options options)
    : tokens_(std::move(tokens)), merges_(std::move(merges)), options_(options) {
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    byte_ids_[byte] = tokens_.find(std::string_view(&c, 1));
    if (!byte_ids_[byte]) byte_ids_[byte] = options_.unknown;
  }
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    if (const auto id = tokens_.find(piece)) {
      out.push_back(*id);
      return;
    }
  }
  scratch.ids.clear();
  for (const char c : piece) {
    if (const auto id = byte_ids_[static_cast<uint8_t>(c)]) scratch.ids.push_back(*id);
  }
  if (scratch.ids.size() <= kShortPiece) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
}

// ranks[i] and merged[i] belong to the pair (ids[i], ids[i + 1]).
void Bpe::merge_short(Scratch& scratch) const {
  auto& ids = scratch.ids;
  auto& ranks = scratch.ranks;
  auto& merged = scratch.merged;
  if (ids.size() < 2) return;
  size_t n_pairs = ids.size() - 1;
  ranks.resize(n_pairs);
  merged.resize(n_pairs);
  const auto look_up = [&](size_t i) {
    const MergeTable::Merge* merge = merges_.find(ids[i], ids[i + 1]);
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
void Bpe::merge_long(Scratch& scratch) const {
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
    const MergeTable::Merge* merge = merges_.find(symbols[pos].id, symbols[next].id);
    if (merge == nullptr) return;
    heap.push_back({merge->rank, pos, symbols[pos].id, symbols[next].id, merge->id});
    std::push_heap(heap.begin(), heap.end(), comes_later);
  };
  for (uint32_t i = 0; i < n; ++i) push(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const Scratch::Candidate candidate = heap.back();
    heap.pop_back();
    Scratch::Symbol& left = symbols[candidate.pos];
    if (!left.is_live || left.id != candidate.left || left.next == kNone) continue;
    Scratch::Symbol& right = symbols[left.next];
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
