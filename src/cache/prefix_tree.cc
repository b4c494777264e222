#include "cache/prefix_tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "cache/prefix_tree_impl.h"

namespace cairn {

namespace {

bool ids_less(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

// Map node, hash entry, control blocks and the slot vector beside the node itself, measured
// roughly.
constexpr size_t kNodeOverheadBytes = 256;

}  // namespace

CacheNode::CacheNode() : children(&ids_less) {}

void PrefixTree::Impl::count(const CacheNode& node, bool add) {
  const size_t one = add ? size_t{1} : ~size_t{0};  // wraps: adds or takes away
  if (node.is_resident()) n_resident += one;
  if (node.is_dirty()) n_dirty += one;
  if (node.n_leases == 0) return;
  for (const Slot& slot : node.slots) leased_slots[slot.n_bytes()] += one;
}

template <typename Change>
void PrefixTree::Impl::transition(CacheNode* node, const Change& change) {
  count(*node, false);
  change();
  count(*node, true);
  requeue(node);
}

EvictionQueue* PrefixTree::Impl::queue_of(CacheNode::Queue queue) {
  switch (queue) {
    case CacheNode::Queue::kNone:
      return nullptr;
    case CacheNode::Queue::kClean:
      return &clean;
    case CacheNode::Queue::kDirty:
      return &dirty;
  }
  check_failed("queue", __FILE__, __LINE__, "unknown eviction queue");
}

void PrefixTree::Impl::requeue(CacheNode* node) {
  auto wanted = CacheNode::Queue::kNone;
  if (node->is_resident() && node->n_leases == 0) {
    wanted = node->disk.is_set() ? CacheNode::Queue::kClean : CacheNode::Queue::kDirty;
  }
  if (wanted == node->queue) return;
  if (EvictionQueue* queue = queue_of(node->queue)) queue->erase(node);
  node->queue = wanted;
  node->queued_use = node->last_use;
  if (EvictionQueue* queue = queue_of(wanted)) queue->insert(node);
}

CacheNode* PrefixTree::Impl::next_to_evict() {
  for (EvictionQueue* queue : {&clean, &dirty}) {
    while (!queue->empty()) {
      CacheNode* node = *queue->begin();
      if (node->queued_use == node->last_use) return node;
      queue->erase(queue->begin());
      node->queued_use = node->last_use;
      queue->insert(node);
    }
  }
  return nullptr;
}

void PrefixTree::Impl::destroy(CacheNode* node) {
  CAIRN_CHECK(node->children.empty() && node->n_leases == 0 && !node->is_root());
  if (observer != nullptr) observer->on_removed(*node);
  if (node->is_resident()) transition(node, [&] { node->slots.clear(); });
  by_key.erase(node->key);
  n_ids -= node->tokens.size();
  auto& siblings = node->parent->children;
  siblings.erase(siblings.find(std::span<const TokenId>(node->tokens)));
}

PrefixTree::PrefixTree(uint32_t page_tokens) : impl_(new Impl) {
  CAIRN_CHECK(page_tokens > 0);
  impl_->page_tokens = page_tokens;
}

PrefixTree::~PrefixTree() {
  // Children are taken out before their parent goes: destructors that nest as deep as a chain is
  // long would need megabytes of stack.
  std::vector<std::unique_ptr<CacheNode>> pending = std::move(impl_->roots);
  std::erase(pending, nullptr);
  while (!pending.empty()) {
    const std::unique_ptr<CacheNode> node = std::move(pending.back());
    pending.pop_back();
    for (auto& [ids, child] : node->children) pending.push_back(std::move(child));
  }
}

void PrefixTree::set_observer(TreeObserver* observer) {
  impl_->observer = observer;
}

uint32_t PrefixTree::add_root(const RootKey& key) {
  const auto it = impl_->root_indices.find(key);
  if (it != impl_->root_indices.end()) return it->second;
  if (impl_->free_root_indices.empty()) {
    impl_->free_root_indices.push_back(static_cast<uint32_t>(impl_->roots.size()));
    impl_->roots.emplace_back();
  }
  const uint32_t root_index = impl_->free_root_indices.back();
  impl_->free_root_indices.pop_back();
  auto root = std::make_unique<CacheNode>();
  root->key = key;
  root->root_index = root_index;
  impl_->roots[root_index] = std::move(root);
  impl_->root_indices.emplace(key, root_index);
  return root_index;
}

void PrefixTree::remove_root(uint32_t root_index) {
  CAIRN_CHECK(root(root_index)->children.empty(), "a root that still has nodes");
  impl_->root_indices.erase(impl_->roots[root_index]->key);
  impl_->roots[root_index].reset();
  impl_->free_root_indices.push_back(root_index);
}

CacheNode* PrefixTree::root(uint32_t root_index) {
  CAIRN_CHECK(root_index < impl_->roots.size() && impl_->roots[root_index] != nullptr,
              "root was never added");
  return impl_->roots[root_index].get();
}

bool PrefixTree::has_nodes(uint32_t root_index) const {
  return !impl_->roots[root_index]->children.empty();
}

CacheNode* PrefixTree::find(uint32_t root_index, const PageKey& key) {
  const auto it = impl_->by_key.find(key);
  if (it == impl_->by_key.end() || it->second->root_index != root_index) return nullptr;
  return it->second;
}

CacheNode* PrefixTree::insert(CacheNode* parent,
                              std::span<const TokenId> tokens,
                              const PageKey& key) {
  CAIRN_CHECK(!tokens.empty() && tokens.size() <= impl_->page_tokens, "ids of a node");
  CAIRN_CHECK(parent->is_root() || parent->tokens.size() == impl_->page_tokens,
              "a leaf cannot have children");
  if (const auto it = parent->children.find(tokens); it != parent->children.end()) {
    it->second->is_forgotten = false;
    return it->second.get();
  }
  auto owned = std::make_unique<CacheNode>();
  CacheNode* node = owned.get();
  node->key = key;
  node->parent = parent;
  node->tokens.assign(tokens.begin(), tokens.end());
  node->root_index = parent->root_index;
  node->depth = parent->is_root() ? 0 : parent->depth + 1;
  node->serial = ++impl_->n_made;
  CAIRN_CHECK(impl_->by_key.emplace(key, node).second, "two nodes with one key");
  impl_->n_ids += tokens.size();
  parent->children.emplace(std::span<const TokenId>(node->tokens), std::move(owned));
  touch(node);
  impl_->notify(node);
  return node;
}

void PrefixTree::remove_superseded(const CacheNode& by,
                                   const std::function<bool(CacheNode&)>& may_remove) {
  auto& siblings = by.parent->children;
  if (siblings.size() < 2) return;
  const std::span<const TokenId> ids(by.tokens);
  for (size_t n = 1; n < ids.size(); ++n) {
    const auto it = siblings.find(ids.first(n));
    if (it == siblings.end()) continue;
    CacheNode* leaf = it->second.get();
    if (leaf->n_leases > 0 || !may_remove(*leaf)) continue;
    impl_->destroy(leaf);
  }
}

bool PrefixTree::any_covering(const CacheNode& parent,
                              std::span<const TokenId> ids,
                              const std::function<bool(const CacheNode&)>& is_enough) const {
  for (auto it = parent.children.lower_bound(ids); it != parent.children.end(); ++it) {
    const std::span<const TokenId> theirs = it->first;
    if (theirs.size() < ids.size() || !std::equal(ids.begin(), ids.end(), theirs.begin())) break;
    const CacheNode& node = *it->second;
    if (node.has_bytes() && !node.is_forgotten && is_enough(node)) return true;
  }
  return false;
}

void PrefixTree::forget(CacheNode* node) {
  node->is_forgotten = true;
  set_may_persist(node, false);
}

void PrefixTree::prune(CacheNode* node) {
  while (!node->is_root() && !node->has_bytes() && node->children.empty() && node->n_leases == 0) {
    CacheNode* parent = node->parent;
    impl_->destroy(node);
    node = parent;
  }
}

uint64_t PrefixTree::tick() {
  return ++impl_->tick;
}

void PrefixTree::touch(CacheNode* node) {
  const uint64_t now = ++impl_->tick;
  for (CacheNode* n = node; n != nullptr; n = n->parent) n->last_use = now;
}

void PrefixTree::lease(CacheNode* node) {
  CAIRN_CHECK(!node->is_root(), "roots need no lease");
  impl_->transition(node, [&] { ++node->n_leases; });
}

void PrefixTree::unlease(CacheNode* node) {
  CAIRN_CHECK(node->n_leases > 0, "lease given back twice");
  impl_->transition(node, [&] { --node->n_leases; });
}

void PrefixTree::give_slots(CacheNode* node, std::vector<Slot> slots) {
  CAIRN_CHECK(!node->is_resident() && !slots.empty(), "slots for a node that has some");
  impl_->transition(node, [&] { node->slots = std::move(slots); });
  impl_->notify(node);
}

void PrefixTree::drop_slots(CacheNode* node) {
  CAIRN_CHECK(node->n_leases == 0, "slots of a leased node");
  impl_->transition(node, [&] { node->slots.clear(); });
  impl_->notify(node);
}

void PrefixTree::set_disk(CacheNode* node, DiskPlace place) {
  impl_->transition(node, [&] { node->disk = place; });
  impl_->notify(node);
}

void PrefixTree::set_may_persist(CacheNode* node, bool may_persist) {
  if (node->may_persist == may_persist) return;
  impl_->transition(node, [&] { node->may_persist = may_persist; });
  impl_->notify(node);
}

void PrefixTree::set_writing(CacheNode* node, bool is_writing) {
  node->is_writing = is_writing;
  impl_->notify(node);
}

bool PrefixTree::evict_until(const std::function<bool()>& enough,
                             const std::function<void(const CacheNode&)>& on_dropped) {
  while (!enough()) {
    CacheNode* node = impl_->next_to_evict();
    if (node == nullptr) return false;
    drop_slots(node);
    on_dropped(*node);
    prune(node);
  }
  return true;
}

void PrefixTree::for_each(const std::function<void(CacheNode&)>& visit) {
  visit_nodes(impl_->roots, visit);
}

size_t PrefixTree::n_nodes() const {
  return impl_->by_key.size();
}

size_t PrefixTree::n_resident() const {
  return impl_->n_resident;
}

size_t PrefixTree::n_dirty() const {
  return impl_->n_dirty;
}

size_t PrefixTree::n_leased_slots(size_t slot_bytes) const {
  const auto it = impl_->leased_slots.find(slot_bytes);
  return it == impl_->leased_slots.end() ? 0 : it->second;
}

size_t PrefixTree::memory_bytes() const {
  return n_nodes() * (sizeof(CacheNode) + kNodeOverheadBytes) + impl_->n_ids * sizeof(TokenId);
}

}  // namespace cairn
