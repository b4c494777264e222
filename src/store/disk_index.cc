#include "store/disk_index.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "base/check.h"

namespace cairn {

namespace {

// An entry in the table, its places in the orders, and the vector of nodes, measured roughly.
constexpr size_t kObjectOverheadBytes = 256;

size_t memory_of(const ObjectEntry& entry) {
  size_t n_bytes = sizeof(ObjectEntry);
  for (const PageRecord& page : entry.pages) {
    n_bytes += sizeof(PageRecord) + page.tokens.size() * sizeof(TokenId);
  }
  return n_bytes;
}

// Whether the entry's ids are what its keys say, and of sizes this tree can hold.
bool fits(const ObjectEntry& entry, uint32_t page_tokens) {
  if (entry.pages.empty() || entry.kind == ObjectKind::kAnchor) return false;
  PageKey parent = entry.parent;
  for (const PageRecord& page : entry.pages) {
    const size_t n = page.tokens.size();
    const bool is_sized =
        entry.kind == ObjectKind::kLeaf ? n > 0 && n < page_tokens : n == page_tokens;
    if (!is_sized || chain_key(parent, page.tokens) != page.key) return false;
    parent = page.key;
  }
  return entry.kind == ObjectKind::kRun || entry.pages.size() == 1;
}

}  // namespace

uint64_t DiskObject::last_use() const {
  for (const CacheNode* node : nodes) {
    if (node != nullptr) return node->last_use;
  }
  return own_use;
}

uint32_t DiskObject::depth() const {
  for (const CacheNode* node : nodes) {
    if (node != nullptr) return node->depth;
  }
  return 0;
}

bool DiskIndex::ByUse::operator()(const DiskObject* a, const DiskObject* b) const {
  if (a->queued_use != b->queued_use) return a->queued_use < b->queued_use;
  // Children have at most their parent's recency and larger depth. The depth of an object never
  // changes while it is in this order.
  if (a->depth() != b->depth()) return a->depth() > b->depth();
  return a->id < b->id;
}

DiskObject* DiskIndex::add(std::unique_ptr<DiskObject> object) {
  object->id = ++last_id_;
  ++n_by_root_[object->root_index];
  DiskObject* added = object.get();
  objects_.emplace(added->id, std::move(object));
  return added;
}

DiskObject* DiskIndex::add_written(uint32_t root_index,
                                   ObjectKind kind,
                                   std::span<CacheNode* const> nodes,
                                   uint64_t file_bytes) {
  auto made = std::make_unique<DiskObject>();
  made->root_index = root_index;
  made->kind = kind;
  made->file_bytes = file_bytes;
  made->nodes.assign(nodes.begin(), nodes.end());
  DiskObject* object = add(std::move(made));
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    CAIRN_CHECK(!nodes[i]->disk.is_set(), "a page was written twice");
    tree_.set_disk(nodes[i], DiskPlace{.object_id = object->id, .page_index = i});
  }
  n_pages_ += nodes.size();
  object->queued_use = object->last_use();
  by_use_.insert(object);
  return object;
}

DiskObject* DiskIndex::add_entry(uint32_t root_index, ObjectEntry entry) {
  auto made = std::make_unique<DiskObject>();
  made->root_index = root_index;
  made->kind = entry.kind;
  made->file_bytes = entry.file_bytes;
  made->last_use_unix = entry.last_use_unix;
  made->entry = std::make_unique<ObjectEntry>(std::move(entry));
  DiskObject* object = add(std::move(made));
  n_pages_ += object->entry->pages.size();
  entry_bytes_ += memory_of(*object->entry);
  by_use_.insert(object);
  return object;
}

void DiskIndex::add_found(uint32_t root_index, ObjectEntry entry) {
  DiskObject* object = add_entry(root_index, std::move(entry));
  waiting_.emplace(object->entry->parent, object);
}

DiskObject* DiskIndex::add_anchor(uint32_t root_index, ObjectEntry entry) {
  DiskObject* object = add_entry(root_index, std::move(entry));
  const bool is_new = anchors_.emplace(object->entry->key(), object).second;
  CAIRN_CHECK(is_new, "an anchor was added twice");
  return object;
}

std::vector<uint64_t> DiskIndex::anchors_of(uint32_t root_index) const {
  std::vector<uint64_t> ids;
  for (const auto& [key, object] : anchors_) {
    if (object->root_index == root_index) ids.push_back(object->id);
  }
  return ids;
}

DiskObject* DiskIndex::find_anchor(const PageKey& key) {
  const auto it = anchors_.find(key);
  return it == anchors_.end() ? nullptr : it->second;
}

bool DiskIndex::attach(DiskObject* object, CacheNode* parent, uint32_t page_tokens) {
  const ObjectEntry& entry = *object->entry;
  if (object->root_index != parent->root_index || !fits(entry, page_tokens)) return false;
  by_use_.erase(object);
  bool is_whole = true;
  CacheNode* above = parent;
  for (uint32_t i = 0; i < entry.pages.size(); ++i) {
    CacheNode* node = tree_.insert(above, entry.pages[i].tokens, entry.pages[i].key);
    // Served already, or about to be: one object a page.
    const bool is_taken = node->disk.is_set() || node->is_writing;
    if (!is_taken) tree_.set_disk(node, DiskPlace{.object_id = object->id, .page_index = i});
    is_whole = is_whole && !is_taken;
    object->nodes.push_back(is_taken ? nullptr : node);
    above = node;
  }
  if (is_whole) {
    entry_bytes_ -= memory_of(entry);
    object->entry.reset();
  }
  object->queued_use = object->last_use();
  by_use_.insert(object);
  return true;
}

std::vector<DiskObject*> DiskIndex::attach_below(CacheNode* parent, uint32_t page_tokens) {
  std::vector<DiskObject*> attached;
  std::deque<CacheNode*> parents{parent};
  while (!parents.empty()) {
    CacheNode* above = parents.front();
    parents.pop_front();
    const auto [begin, end] = waiting_.equal_range(above->key);
    std::vector<DiskObject*> here;
    for (auto it = begin; it != end; ++it) here.push_back(it->second);
    if (here.empty()) continue;
    waiting_.erase(begin, end);
    // The multimap's order is no order; ids are in the order of the log.
    std::sort(here.begin(), here.end(), [](auto* a, auto* b) { return a->id < b->id; });
    for (DiskObject* object : here) {
      if (!attach(object, above, page_tokens)) continue;  // unreachable for good
      attached.push_back(object);
      if (object->kind == ObjectKind::kLeaf) continue;
      for (CacheNode* node : object->nodes) {
        if (node != nullptr) parents.push_back(node);
      }
    }
  }
  return attached;
}

size_t DiskIndex::n_objects_of(uint32_t root_index) const {
  const auto it = n_by_root_.find(root_index);
  return it == n_by_root_.end() ? 0 : it->second;
}

std::vector<uint64_t> DiskIndex::objects_of(uint32_t root_index) const {
  std::vector<uint64_t> ids;
  for (const auto& [id, object] : objects_) {
    if (object->root_index == root_index) ids.push_back(id);
  }
  return ids;
}

std::vector<uint64_t> DiskIndex::waiting_below(std::vector<PageKey> parents) const {
  std::vector<uint64_t> found;
  while (!parents.empty()) {
    const auto [begin, end] = waiting_.equal_range(parents.back());
    parents.pop_back();
    for (auto it = begin; it != end; ++it) {
      found.push_back(it->second->id);
      for (const PageRecord& page : it->second->entry->pages) parents.push_back(page.key);
    }
  }
  return found;
}

std::vector<uint64_t> DiskIndex::waiting_on(const PageKey& parent,
                                            std::span<const TokenId> ids) const {
  std::vector<uint64_t> found;
  std::vector<PageKey> parents;
  const auto [begin, end] = waiting_.equal_range(parent);
  for (auto it = begin; it != end; ++it) {
    const std::vector<PageRecord>& pages = it->second->entry->pages;
    const std::vector<TokenId>& first = pages.front().tokens;
    const size_t n = std::min(first.size(), ids.size());
    if (!std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(n), ids.begin()))
      continue;
    found.push_back(it->second->id);
    for (const PageRecord& page : pages) parents.push_back(page.key);
  }
  for (const uint64_t id : waiting_below(std::move(parents))) found.push_back(id);
  return found;
}

DiskObject* DiskIndex::find(uint64_t id) {
  const auto it = objects_.find(id);
  return it == objects_.end() ? nullptr : it->second.get();
}

ObjectEntry DiskIndex::entry_of(const DiskObject& object) const {
  if (object.entry != nullptr) return *object.entry;
  ObjectEntry entry;
  entry.root = tree_.root(object.root_index)->key;
  entry.kind = object.kind;
  entry.parent = object.nodes.front()->parent->key;
  for (const CacheNode* node : object.nodes) {
    entry.pages.push_back(PageRecord{.key = node->key, .tokens = node->tokens});
  }
  entry.file_bytes = object.file_bytes;
  return entry;
}

std::vector<CacheNode*> DiskIndex::remove(DiskObject* object) {
  by_use_.erase(object);
  if (object->kind == ObjectKind::kAnchor) {
    const auto it = anchors_.find(object->entry->key());
    if (it != anchors_.end() && it->second == object) anchors_.erase(it);
  }
  if (--n_by_root_.at(object->root_index) == 0) n_by_root_.erase(object->root_index);
  if (object->entry != nullptr) {
    entry_bytes_ -= memory_of(*object->entry);
    const auto [begin, end] = waiting_.equal_range(object->entry->parent);
    const auto it = std::find_if(begin, end, [&](const auto& w) { return w.second == object; });
    if (it != end) waiting_.erase(it);
  }
  n_pages_ -= object->entry != nullptr ? object->entry->pages.size() : object->nodes.size();
  std::vector<CacheNode*> nodes;
  for (CacheNode* node : object->nodes) {
    if (node == nullptr) continue;
    tree_.set_disk(node, DiskPlace{});
    nodes.push_back(node);
  }
  objects_.erase(object->id);
  return nodes;
}

DiskObject* DiskIndex::next_to_evict(const std::function<bool(const CacheNode&)>& is_held) {
  for (auto it = by_use_.begin(); it != by_use_.end();) {
    DiskObject* object = *it;
    if (object->queued_use != object->last_use()) {
      // Recency only grows, so the object comes up again later in this walk.
      it = by_use_.erase(it);
      object->queued_use = object->last_use();
      const auto placed = by_use_.insert(object).first;
      if (it == by_use_.end() || by_use_.key_comp()(object, *it)) it = placed;
      continue;
    }
    const bool is_free = std::none_of(object->nodes.begin(), object->nodes.end(), [&](auto* node) {
      return node != nullptr && is_held(*node);
    });
    if (is_free) return object;
    ++it;
  }
  return nullptr;
}

size_t DiskIndex::memory_bytes() const {
  return objects_.size() * kObjectOverheadBytes + n_pages_ * sizeof(CacheNode*) + entry_bytes_;
}

std::vector<ObjectEntry> DiskIndex::all_entries() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, object] : objects_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  std::vector<ObjectEntry> entries;
  entries.reserve(ids.size());
  for (const uint64_t id : ids) entries.push_back(entry_of(*objects_.at(id)));
  return entries;
}

Status DiskIndex::check_invariants() const {
  size_t n_placed = 0;
  for (const auto& [id, object] : objects_) {
    if (by_use_.count(object.get()) != 1)
      return Status::internal("object outside the eviction order");
    if (object->entry == nullptr && object->nodes.empty()) {
      return Status::internal("object with neither nodes nor entry");
    }
    for (uint32_t i = 0; i < object->nodes.size(); ++i) {
      const CacheNode* node = object->nodes[i];
      if (node == nullptr && object->entry == nullptr)
        return Status::internal("object without a page");
      if (node == nullptr) continue;
      ++n_placed;
      if (node->disk.object_id != id || node->disk.page_index != i) {
        return Status::internal(fmt::format("object {}: page {} lies elsewhere", id, i));
      }
    }
  }
  size_t n_set = 0;
  tree_.for_each([&](CacheNode& node) { n_set += node.disk.is_set() ? 1 : 0; });
  if (n_set != n_placed) return Status::internal("nodes with places in objects that are gone");
  if (by_use_.size() != objects_.size()) return Status::internal("eviction order of objects");
  return Status::ok();
}

}  // namespace cairn
