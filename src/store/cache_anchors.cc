// Text anchors in the store: small objects without a payload, written like leaves once their
// conversation is idle, found again at the start.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "store/tiered_cache_impl.h"

namespace cairn {

namespace {

// Waiting to be written; the oldest go unwritten when the disk does not keep up.
constexpr size_t kNewAnchorsMax = 4096;

// Nullopt for one that is longer than an object may be.
std::optional<ObjectEntry> entry_of_anchor(const RootKey& root, const Anchor& anchor) {
  ObjectEntry entry;
  entry.root = root;
  entry.kind = ObjectKind::kAnchor;
  entry.parent = anchor.parent.value_or(root);
  PageKey above = entry.parent;
  for (std::span<const TokenId> rest = anchor.ids; !rest.empty();) {
    const auto ids = rest.first(std::min<size_t>(rest.size(), kMaxObjectPageTokens));
    rest = rest.subspan(ids.size());
    above = rest.empty() ? anchor.key : chain_key(above, ids);
    entry.pages.push_back({.key = above, .tokens = {ids.begin(), ids.end()}});
  }
  if (entry.pages.empty() || entry.pages.size() > kMaxRunPages) return std::nullopt;
  return entry;
}

// What the index's log says of it, rounded up.
uint64_t record_bytes(const ObjectEntry& entry) {
  uint64_t n_bytes = 256;
  for (const PageRecord& page : entry.pages) n_bytes += 48 + page.tokens.size() * sizeof(TokenId);
  return n_bytes;
}

Anchor anchor_of_entry(const ObjectEntry& entry) {
  Anchor anchor{.key = entry.key(), .parent = std::nullopt, .ids = {}};
  if (entry.parent != entry.root) anchor.parent = entry.parent;
  for (const PageRecord& record : entry.pages) {
    anchor.ids.insert(anchor.ids.end(), record.tokens.begin(), record.tokens.end());
  }
  return anchor;
}

bool has_same_ids(const ObjectEntry& a, const ObjectEntry& b) {
  return a.parent == b.parent &&
         std::equal(a.pages.begin(),
                    a.pages.end(),
                    b.pages.begin(),
                    b.pages.end(),
                    [](const PageRecord& x, const PageRecord& y) { return x.tokens == y.tokens; });
}

}  // namespace

// Null when its key is taken, which only a damaged store can do: it is evicted first.
DiskObject* TieredCache::Impl::attach_anchor(uint32_t root_index, ObjectEntry entry) {
  if (index.find_anchor(entry.key()) != nullptr) {
    index.add_found(root_index, std::move(entry));
    return nullptr;
  }
  anchors->add(anchor_of_entry(entry));
  return index.add_anchor(root_index, std::move(entry));
}

void TieredCache::Impl::keep_anchor(uint32_t root_index, const Anchor& anchor) {
  if (disk == nullptr) return;
  std::optional<ObjectEntry> entry = entry_of_anchor(tree.root(root_index)->key, anchor);
  if (!entry) return;
  // The whole chain is of use now. In a damaged file it may be a circle.
  const uint64_t now = tree.tick();
  for (DiskObject* above = index.find_anchor(entry->parent);
       above != nullptr && above->own_use != now;
       above = index.find_anchor(above->entry->parent)) {
    note_anchor_use(above, now);
  }
  if (DiskObject* known = index.find_anchor(anchor.key)) {
    note_anchor_use(known, now);
    if (has_same_ids(*known->entry, *entry)) return;
  }
  if (new_anchors.size() == kNewAnchorsMax) new_anchors.pop_front();
  new_anchors.push_back({root_index, std::move(*entry), clock.now(), ++last_anchor_serial});
}

void TieredCache::Impl::note_anchor_use(DiskObject* object, uint64_t now) {
  object->own_use = now;
  if (used_objects.empty()) use_due = clock.now() + kUseInterval;
  used_objects.insert(object->id);
}

void TieredCache::Impl::pump_anchors(TimePoint cutoff) {
  while (!new_anchors.empty() && new_anchors.front().idle_since <= cutoff) {
    if (writes.size() >= kWritesInFlight) return;
    PendingAnchor pending = std::move(new_anchors.front());
    new_anchors.pop_front();
    PendingWrite write;
    write.kind = ObjectKind::kAnchor;
    write.root_index = pending.root_index;
    write.record_bytes = record_bytes(pending.entry);
    // A header with the same ids, in blocks, and the record.
    write.file_bytes = 2 * write.record_bytes + kHeaderBlockBytes;
    if (!make_disk_room(write)) continue;  // costs a later look-up its exact ids, nothing else
    ObjectSource source;
    source.root = pending.entry.root;
    source.kind = ObjectKind::kAnchor;
    source.parent = pending.entry.parent;
    source.pages = pending.entry.pages;
    write.anchor = std::move(pending.entry);
    describe_root(pending.root_index);
    const uint64_t ticket = ++last_ticket;
    writes.emplace(ticket, std::move(write));
    disk->write(ticket, std::move(source));
  }
}

DiskObject* TieredCache::Impl::index_anchor(uint32_t root_index,
                                            ObjectEntry entry,
                                            uint64_t file_bytes) {
  entry.file_bytes = file_bytes;
  if (DiskObject* old = index.find_anchor(entry.key())) {
    // The new file has taken its name.
    disk_bytes -= std::min(disk_bytes, old->file_bytes);
    used_objects.erase(old->id);
    index.remove(old);
  }
  DiskObject* object = index.add_anchor(root_index, std::move(entry));
  note_anchor_use(object, tree.tick());
  return object;
}

// Those of a whole root that no object holds yet.
void TieredCache::Impl::forget_anchors(uint32_t root_index, PendingForget* forget) {
  std::erase_if(new_anchors, [&](const PendingAnchor& pending) {
    if (pending.root_index != root_index) return false;
    anchors->remove(pending.entry.key());
    return true;
  });
  for (const auto& [ticket, write] : writes) {
    if (write.root_index == root_index && write.anchor) {
      anchors->remove(write.anchor->key());
      forget->writes.insert(ticket);
    }
  }
}

bool TieredCache::Impl::has_new_anchors_until(uint64_t serial) const {
  return !new_anchors.empty() && new_anchors.front().serial <= serial;
}

}  // namespace cairn
