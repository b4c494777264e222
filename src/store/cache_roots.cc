// Roots: a model's own, those of its namespaces, and those found on disk.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "store/tiered_cache_impl.h"

namespace cairn {

namespace {

// Roots that are used for nothing are looked for when there are twice as many as after the last
// look, and so many more: each look is paid for by the roots that came meanwhile.
constexpr size_t kRootsBetweenSweeps = 64;
// A root's node, its spec and its place in the tables, measured roughly.
constexpr size_t kRootBytes = 1024;

}  // namespace

CacheRoot& TieredCache::Impl::root_state(uint32_t root_index) {
  if (root_index >= roots.size()) roots.resize(root_index + 1);
  CacheRoot& root = roots[root_index];
  if (!root.is_live) {
    root.is_live = true;
    ++n_roots;
  }
  return root;
}

void TieredCache::Impl::specify_root(uint32_t root_index, const RootSpec& spec) {
  CacheRoot& root = root_state(root_index);
  if (root.spec) return;
  root.spec = spec;
  for (const CacheGroup& group : spec.geometry.groups) {
    root.layouts.push_back(group.layout);
    ++root.page_slots[group.layout.page_bytes()];
    slot_sizes.insert(group.layout.page_bytes());
  }
}

bool TieredCache::Impl::is_unused(uint32_t root_index) const {
  const CacheRoot& root = roots[root_index];
  return root.is_live && !root.is_pinned && root.n_sequences == 0 &&
         index.n_objects_of(root_index) == 0 && !tree.has_nodes(root_index);
}

void TieredCache::Impl::sweep_roots() {
  std::set<uint32_t> awaited;  // by anchors that are not written yet
  for (const PendingAnchor& pending : new_anchors) awaited.insert(pending.root_index);
  for (const auto& [ticket, write] : writes) awaited.insert(write.root_index);
  for (uint32_t i = 0; i < roots.size(); ++i) {
    if (!is_unused(i) || awaited.contains(i)) continue;
    labels.forget_root(i);
    tree.remove_root(i);
    roots[i] = {};
    --n_roots;
  }
  n_roots_kept = n_roots;
}

size_t TieredCache::Impl::roots_bytes() const {
  // The first few are the models' own and were always there.
  const auto n_pinned = static_cast<size_t>(
      std::count_if(roots.begin(), roots.end(), [](const auto& root) { return root.is_pinned; }));
  return (n_roots - n_pinned) * kRootBytes + labels.memory_bytes();
}

// A root's folder is made when something is written into it.
void TieredCache::Impl::describe_root(uint32_t root_index) {
  CacheRoot& root = roots[root_index];
  if (root.is_described) return;
  root.is_described = true;
  disk->describe_root(*root.spec);
}

uint32_t TieredCache::add_root(const RootSpec& spec) {
  CAIRN_CHECK(spec.geometry.page_tokens == impl_->page_tokens && !spec.geometry.groups.empty(),
              "a root's geometry does not fit the cache");
  const uint32_t root_index = impl_->tree.add_root(root_key(spec));
  impl_->specify_root(root_index, spec);
  impl_->roots[root_index].is_pinned = true;
  return root_index;
}

uint32_t TieredCache::namespace_root(uint32_t base_root, std::string_view key_namespace) {
  Impl& cache = *impl_;
  CAIRN_CHECK(base_root < cache.roots.size() && cache.roots[base_root].is_pinned,
              "a namespace of a root that was never added");
  RootSpec spec = *cache.roots[base_root].spec;
  if (spec.key_namespace == key_namespace) return base_root;
  spec.key_namespace = key_namespace;
  if (cache.n_roots >= 2 * cache.n_roots_kept + kRootsBetweenSweeps) cache.sweep_roots();
  const uint32_t root_index = cache.tree.add_root(root_key(spec));
  cache.specify_root(root_index, spec);
  return root_index;
}

}  // namespace cairn
