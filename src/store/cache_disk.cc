// The disk tier as the engine knows it: what was found, what goes, what was used.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "store/tiered_cache_impl.h"

namespace cairn {

namespace {

// Dead records that are not worth a rewrite of the log.
constexpr uint64_t kDeadRecordsMin = 4096;
// A record in the log without keys or ids, rounded up.
constexpr size_t kRecordBytes = 64;

}  // namespace

void TieredCache::Impl::attach_found(std::vector<ObjectEntry> objects) {
  std::set<uint32_t> found;
  std::vector<DiskObject*> attached;
  for (ObjectEntry& entry : objects) {
    const uint32_t root_index = tree.add_root(entry.root);
    root_state(root_index);
    found.insert(root_index);
    if (entry.kind == ObjectKind::kAnchor) {
      if (DiskObject* anchor = attach_anchor(root_index, std::move(entry)))
        attached.push_back(anchor);
    } else {
      index.add_found(root_index, std::move(entry));
    }
  }
  for (const uint32_t root_index : found) {
    for (DiskObject* object : index.attach_below(tree.root(root_index), page_tokens))
      attached.push_back(object);
  }
  order_found(attached);
  // A crash can leave a leaf beside the page that overtook it.
  std::vector<CacheNode*> nodes;
  for (const DiskObject* object : attached) {
    for (CacheNode* node : object->nodes) {
      if (node != nullptr && node->parent->children.size() > 1) nodes.push_back(node);
    }
  }
  for (CacheNode* node : nodes) remove_superseded(node);
  // What was found may not be durable yet: the process that wrote it was perhaps killed.
  if (!superseders.empty()) start_sync();
}

void TieredCache::Impl::order_found(std::vector<DiskObject*> attached) {
  std::sort(attached.begin(), attached.end(), [](const DiskObject* a, const DiskObject* b) {
    return a->last_use_unix != b->last_use_unix ? a->last_use_unix < b->last_use_unix
                                                : a->id < b->id;
  });
  for (DiskObject* object : attached) {
    if (object->kind == ObjectKind::kAnchor) object->own_use = tree.tick();
    const auto it = std::find_if(
        object->nodes.rbegin(), object->nodes.rend(), [](auto* n) { return n != nullptr; });
    if (it != object->nodes.rend()) tree.touch(*it);
  }
}

void TieredCache::Impl::continue_found(CacheNode* parent) {
  if (index.has_unreachable()) order_found(index.attach_below(parent, page_tokens));
}

bool TieredCache::Impl::is_durable(const CacheNode& node) {
  const DiskObject* object = index.find(node.disk.object_id);
  return object != nullptr && object->sync_epoch < sync_epoch;
}

bool TieredCache::Impl::may_remove_superseded(const CacheNode& by, CacheNode* leaf) {
  if (!leaf->disk.is_set()) {
    return by.disk.is_set() || (by.is_resident() && (by.may_persist || !leaf->may_persist));
  }
  // On disk the leaf serves until what replaces it is there too, and durable: a flush may have
  // covered the leaf's rows, and power may fail. In memory it is not needed.
  if (!by.disk.is_set() || !is_durable(by)) {
    if (leaf->is_resident() && by.is_resident()) tree.drop_slots(leaf);
    if (by.disk.is_set()) superseders.emplace(by.root_index, by.key);
    return false;
  }
  DiskObject* object = index.find(leaf->disk.object_id);
  CAIRN_CHECK(object != nullptr, "a leaf names an object that is gone");
  delete_object(object);
  return true;
}

// A sync has ended: what was published before it is durable.
void TieredCache::Impl::remove_outlived() {
  for (const auto& [root_index, key] : std::exchange(superseders, {})) {
    if (CacheNode* node = tree.find(root_index, key)) remove_superseded(node);
  }
}

void TieredCache::Impl::remove_superseded(CacheNode* by) {
  tree.remove_superseded(*by, [&](CacheNode& leaf) { return may_remove_superseded(*by, &leaf); });
}

std::vector<CacheNode*> TieredCache::Impl::delete_object(DiskObject* object) {
  disk->remove(index.entry_of(*object));
  count_log_record(kRecordBytes, true);
  disk_bytes -= std::min(disk_bytes, object->file_bytes);
  used_objects.erase(object->id);
  const uint32_t root_index = object->root_index;
  std::vector<CacheNode*> nodes = index.remove(object);
  drop_empty_root(root_index);
  return nodes;
}

// The folder of a root goes with its last object.
void TieredCache::Impl::drop_empty_root(uint32_t root_index) {
  if (index.n_objects_of(root_index) > 0) return;
  roots[root_index].is_described = false;
  disk->remove_root(tree.root(root_index)->key);
}

bool TieredCache::Impl::make_disk_room(const PendingWrite& write) {
  uint64_t n_coming = write.file_bytes;
  for (const auto& [ticket, pending] : writes) n_coming += pending.file_bytes;
  // Only what is less recent than the new pages may go: their own ancestors are at least as recent,
  // so making room never cuts the chain that is being written.
  const uint64_t use = write.nodes.empty() ? tree.tick() : write.nodes.front()->last_use;
  while (n_coming > options.store_max_bytes || disk_bytes > options.store_max_bytes - n_coming) {
    // Pages of running sequences stay: what these compute next could not be written behind a hole.
    DiskObject* object =
        index.next_to_evict([](const CacheNode& node) { return node.n_leases > 0; });
    if (object == nullptr || object->last_use() >= use) return false;
    ++counters.evicted_objects;
    for (CacheNode* node : delete_object(object)) {
      // Still in memory it would be dirty and come straight back; it may when it is used again.
      tree.set_may_persist(node, false);
      tree.prune(node);
    }
  }
  return true;
}

void TieredCache::Impl::note_use(const CacheNode& node) {
  if (!node.disk.is_set()) return;
  if (used_objects.empty()) use_due = clock.now() + kUseInterval;
  used_objects.insert(node.disk.object_id);
}

void TieredCache::Impl::record_use() {
  std::vector<PageKey> keys;
  for (const uint64_t id : used_objects) {
    const DiskObject* object = index.find(id);
    if (object == nullptr) continue;
    keys.push_back(object->entry != nullptr ? object->entry->key() : object->nodes.back()->key);
  }
  used_objects.clear();
  if (keys.empty()) return;
  count_log_record(kRecordBytes + keys.size() * sizeof(PageKey), true);
  disk->record_use(std::move(keys), clock.unix_seconds());
}

void TieredCache::Impl::count_log_record(size_t n_bytes, bool is_dead) {
  disk_bytes += n_bytes;
  if (!is_dead) return;
  ++n_dead_records;
  dead_log_bytes += n_bytes;
}

void TieredCache::Impl::compact_log() {
  // Copying every key and id takes milliseconds for a big store: only when nobody waits for a
  // token.
  if (n_sequences > 0 || n_dead_records < kDeadRecordsMin + index.n_objects()) return;
  n_dead_records = 0;
  disk_bytes -= std::min(disk_bytes, dead_log_bytes);
  dead_log_bytes = 0;
  disk->compact(index.all_entries());
}

}  // namespace cairn
