#include "cache/anchor_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cairn {
namespace {

// A list node, a table entry and their allocations, measured roughly.
constexpr size_t kOverheadBytes = 192;

}  // namespace

size_t AnchorTable::memory_of(const Anchor& anchor) {
  return kOverheadBytes + sizeof(Anchor) + anchor.ids.size() * sizeof(TokenId);
}

std::optional<std::vector<TokenId>> AnchorTable::find(const AnchorKey& key) {
  MutexLock lock(mutex_);
  std::vector<Entries::iterator> chain;  // from the whole text to its front
  for (std::optional<AnchorKey> next = key; next; next = chain.back()->parent) {
    const auto found = by_key_.find(*next);
    // A damaged file may name a parent in a circle.
    if (found == by_key_.end() || chain.size() == by_key_.size()) return std::nullopt;
    chain.push_back(found->second);
  }
  // The front last, so that it is the most recent: an anchor is of no use without its parent.
  for (const auto it : chain) entries_.splice(entries_.begin(), entries_, it);
  std::vector<TokenId> ids;
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    ids.insert(ids.end(), (*it)->ids.begin(), (*it)->ids.end());
  }
  return ids;
}

void AnchorTable::add(Anchor anchor) {
  const size_t n_new = memory_of(anchor);
  if (anchor.ids.empty() || n_new > max_bytes_) return;
  MutexLock lock(mutex_);
  if (const auto old = by_key_.find(anchor.key); old != by_key_.end()) erase(old->second);
  while (n_bytes_ + n_new > max_bytes_) erase(std::prev(entries_.end()));
  entries_.push_front(std::move(anchor));
  by_key_[entries_.front().key] = entries_.begin();
  n_bytes_ += n_new;
}

void AnchorTable::remove(const AnchorKey& key) {
  MutexLock lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) erase(found->second);
}

void AnchorTable::erase(Entries::iterator it) {
  n_bytes_ -= memory_of(*it);
  by_key_.erase(it->key);
  entries_.erase(it);
}

size_t AnchorTable::n_anchors() const {
  MutexLock lock(mutex_);
  return entries_.size();
}

size_t AnchorTable::memory_bytes() const {
  MutexLock lock(mutex_);
  return n_bytes_;
}

}  // namespace cairn
