// Exact token ids of texts that were rendered or generated before, found by a digest of the text.
//
// Clients send a conversation back as text, and tokenising it anew may give other ids than the ones
// that were generated: then nothing behind them would be found in the cache. An anchor keeps the
// ids. It names the anchor that its text continues and holds only the ids since, so that a growing
// conversation costs what it adds. Whoever uses ids found here checks that they decode to the text:
// a wrong anchor costs a look-up and changes nothing. Design: DESIGN.md 3.4. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "cache/token.h"

namespace cairn {

// A digest of what the text means to one cache: root, namespace, tokenizer and the text itself.
using AnchorKey = Digest;

struct Anchor {
  AnchorKey key;
  std::optional<AnchorKey> parent;  // of the shorter text that this one continues
  std::vector<TokenId> ids;         // behind the parent's; at least one
};

class AnchorTable {
 public:
  // The least recently used anchors go when all of them would take more than max_bytes.
  explicit AnchorTable(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Ids of the whole text, from its front. Nullopt when the anchor, or one that it continues, is
  // not known. A hit makes all of them recent.
  std::optional<std::vector<TokenId>> find(const AnchorKey& key);

  // The newest one with a key wins. Without ids, or larger than everything may be: ignored.
  void add(Anchor anchor);
  void remove(const AnchorKey& key);

  size_t n_anchors() const;
  size_t memory_bytes() const;

 private:
  using Entries = std::list<Anchor>;

  static size_t memory_of(const Anchor& anchor);
  void erase(Entries::iterator it) CAIRN_REQUIRES(mutex_);

  const size_t max_bytes_;
  mutable Mutex mutex_;
  Entries entries_ CAIRN_GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<AnchorKey, Entries::iterator, DigestHash> by_key_ CAIRN_GUARDED_BY(mutex_);
  size_t n_bytes_ CAIRN_GUARDED_BY(mutex_) = 0;
};

}  // namespace cairn
