// Forgetting: nodes leave the tree, their objects leave the disk, and who still runs on them leaves
// nothing behind.
//
// A node in scope goes unless something out of scope hangs on it. An object is a run of consecutive
// pages, so it may hold pages that stay in front of those that go: these are brought into memory
// first and written again as an object of their own. Then the objects go, durably. What a running
// sequence leases stays readable for it alone, marked as forgotten, until it is given back.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "store/tiered_cache_impl.h"

namespace cairn {

namespace {

// The nodes in scope. `fronts` lie before what is to be forgotten and may be shared; `whole` are
// forgotten whatever else goes through them.
struct Scope {
  std::vector<CacheNode*> fronts;
  std::vector<CacheNode*> whole;
};

void add_subtree(CacheNode* top, std::vector<CacheNode*>* out) {
  std::vector<CacheNode*> pending{top};
  while (!pending.empty()) {
    CacheNode* node = pending.back();
    pending.pop_back();
    out->push_back(node);
    for (const auto& [ids, child] : node->children) pending.push_back(child.get());
  }
}

bool share_a_front(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto n = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return std::equal(a.begin(), a.begin() + n, b.begin());
}

// Pages that the prompt holds wholly are fronts; children that go on from there with all that is
// left of it begin with the whole prompt; a leaf that is a front of the rest says nothing else.
Scope scope_of_prompt(CacheNode* root, std::span<const TokenId> prompt, size_t page_tokens) {
  Scope scope;
  CacheNode* parent = root;
  std::span<const TokenId> rest = prompt;
  while (true) {
    CacheNode* next = nullptr;
    for (const auto& [ids, child] : parent->children) {
      if (!share_a_front(ids, rest)) continue;
      if (ids.size() >= rest.size() || ids.size() < page_tokens) {
        add_subtree(child.get(), &scope.whole);
      } else {
        next = child.get();
      }
    }
    if (next == nullptr) return scope;
    scope.fronts.push_back(next);
    rest = rest.subspan(next->tokens.size());
    parent = next;
  }
}

std::vector<TokenId> ids_up_to(const CacheNode& node) {
  std::vector<const CacheNode*> path;
  for (const CacheNode* n = &node; !n->is_root(); n = n->parent) path.push_back(n);
  std::vector<TokenId> ids;
  for (auto it = path.rbegin(); it != path.rend(); ++it)
    ids.insert(ids.end(), (*it)->tokens.begin(), (*it)->tokens.end());
  return ids;
}

// The ends of a conversation and all that leads to them.
std::vector<CacheNode*> paths_to(PrefixTree& tree,
                                 uint32_t root_index,
                                 std::span<const PageKey> ends) {
  std::unordered_set<CacheNode*> seen;
  std::vector<CacheNode*> nodes;
  for (const PageKey& end : ends) {
    CacheNode* node = tree.find(root_index, end);
    for (; node != nullptr && !node->is_root() && seen.insert(node).second; node = node->parent)
      nodes.push_back(node);
  }
  return nodes;
}

void sort_deepest_first(std::vector<CacheNode*>* nodes) {
  std::sort(nodes->begin(), nodes->end(), [](const auto* a, const auto* b) {
    return a->depth != b->depth ? a->depth > b->depth : a->serial < b->serial;
  });
}

}  // namespace

ForgetPlan TieredCache::Impl::plan_forget(uint32_t root_index, const ForgetScope& wanted) {
  CacheNode* root = tree.root(root_index);
  Scope scope;
  const std::string_view label = wanted.conversation;
  if (wanted.what == ForgetScope::What::kNamespace) {
    for (const auto& [ids, child] : root->children) add_subtree(child.get(), &scope.whole);
  } else if (wanted.what == ForgetScope::What::kPrompt) {
    scope = scope_of_prompt(root, wanted.prompt, page_tokens);
  } else {
    scope.fronts = paths_to(tree, root_index, labels.ends(root_index, label));
  }
  // What other sequences stand on is shared though nothing of theirs hangs on it yet.
  std::unordered_set<const CacheNode*> held;
  for (const CacheSequence::Impl* seq : sequences) {
    if (seq->keep) held.insert(seq->path.begin(), seq->path.end());
  }
  ForgetPlan plan;
  plan.nodes = std::move(scope.whole);
  std::unordered_set<const CacheNode*> goes(plan.nodes.begin(), plan.nodes.end());
  sort_deepest_first(&scope.fronts);
  for (CacheNode* node : scope.fronts) {
    const bool is_shared =
        held.contains(node) || labels.is_end_of_other(root_index, label, node->key) ||
        std::any_of(node->children.begin(), node->children.end(), [&](const auto& child) {
          return !goes.contains(child.second.get());
        });
    if (is_shared) {
      plan.report.n_shared_tokens += node->tokens.size();
    } else {
      goes.insert(node);
      plan.nodes.push_back(node);
    }
  }
  plan_forgotten_objects(root_index, wanted, &plan);
  return plan;
}

void TieredCache::Impl::plan_forgotten_objects(uint32_t root_index,
                                               const ForgetScope& wanted,
                                               ForgetPlan* plan) {
  std::vector<PageKey> parents;  // what waits for these goes too
  for (const CacheNode* node : plan->nodes) {
    plan->report.n_tokens += node->tokens.size();
    parents.push_back(node->key);
    if (node->disk.is_set()) plan->objects.insert(node->disk.object_id);
  }
  if (wanted.what == ForgetScope::What::kNamespace) {
    for (const uint64_t id : index.objects_of(root_index)) plan->objects.insert(id);
  } else {
    for (const uint64_t id : index.waiting_below(std::move(parents))) plan->objects.insert(id);
    // An anchor holds the ids of its whole conversation. All of the root's go: those of others cost
    // a look-up its exact ids at worst, one that stays would be what was to be forgotten.
    for (const uint64_t id : index.anchors_of(root_index)) plan->objects.insert(id);
  }
  if (wanted.what == ForgetScope::What::kPrompt) {
    // Behind a page that is nowhere any more: the chain of keys still leads there.
    PageKey key = tree.root(root_index)->key;
    for (size_t at = 0; at < wanted.prompt.size(); at += page_tokens) {
      const std::span<const TokenId> rest = std::span(wanted.prompt).subspan(at);
      for (const uint64_t id : index.waiting_on(key, rest)) plan->objects.insert(id);
      if (rest.size() < page_tokens) break;
      key = chain_key(key, rest.first(page_tokens));
    }
  }
  for (const uint64_t id : plan->objects) {
    ++plan->report.n_objects;
    plan->report.n_bytes += index.find(id)->file_bytes;
  }
}

// The last page of each object that stays although the object goes, if it is on disk alone.
std::vector<CacheNode*> TieredCache::Impl::survivors_on_disk(const ForgetPlan& plan) {
  const std::unordered_set<const CacheNode*> goes(plan.nodes.begin(), plan.nodes.end());
  std::vector<CacheNode*> survivors;
  for (const uint64_t id : plan.objects) {
    CacheNode* last = nullptr;
    for (CacheNode* node : index.find(id)->nodes) {
      if (node != nullptr && !goes.contains(node) && !node->is_resident()) last = node;
    }
    if (last != nullptr) survivors.push_back(last);
  }
  return survivors;
}

void TieredCache::Impl::execute_forget(PendingForget* forget) {
  const uint32_t root_index = forget->root_index;
  ForgetPlan plan = plan_forget(root_index, forget->scope);
  forget->report.n_tokens = plan.report.n_tokens;
  forget->report.n_shared_tokens = plan.report.n_shared_tokens;
  if (forget->scope.what == ForgetScope::What::kNamespace) {
    labels.forget_root(root_index);
  } else if (forget->scope.what == ForgetScope::What::kConversation) {
    labels.forget(root_index, forget->scope.conversation);
  }
  forget_anchors(root_index, forget);
  for (CacheNode* node : plan.nodes) tree.forget(node);
  for (const auto& [ticket, write] : writes) {
    if (std::any_of(
            write.nodes.begin(), write.nodes.end(), [](auto* n) { return n->is_forgotten; }))
      forget->writes.insert(ticket);
  }
  std::vector<CacheNode*> emptied = std::move(plan.nodes);
  for (const uint64_t id : plan.objects) {
    for (CacheNode* node : take_object(index.find(id), forget)) {
      if (node->is_forgotten) continue;
      // On disk alone, and there was no room to bring it into memory: lost with its object.
      if (!node->has_bytes()) {
        forget->report.n_tokens += node->tokens.size();
        forget->report.n_shared_tokens -= node->tokens.size();
      }
      emptied.push_back(node);
    }
  }
  // Front first: pruning takes ancestors along, never descendants.
  std::sort(emptied.begin(), emptied.end(), [](auto* a, auto* b) { return a->depth < b->depth; });
  for (CacheNode* node : emptied) {
    if (node->n_leases > 0) continue;
    if (node->is_forgotten && node->is_resident()) tree.drop_slots(node);
    tree.prune(node);
  }
}

// The index forgets the object; the disk does so when the forget sends its entries.
std::vector<CacheNode*> TieredCache::Impl::take_object(DiskObject* object, PendingForget* forget) {
  forget->entries.push_back(index.entry_of(*object));
  count_log_record(sizeof(PageKey) * 2, true);
  disk_bytes -= std::min(disk_bytes, object->file_bytes);
  used_objects.erase(object->id);
  if (object->kind == ObjectKind::kAnchor) anchors->remove(object->entry->key());
  return index.remove(object);
}

void TieredCache::Impl::begin_forget(PendingForget forget) {
  const ForgetPlan plan = plan_forget(forget.root_index, forget.scope);
  if (forget.scope.dry_run) {
    completions.push_back([done = std::move(forget.done), report = plan.report] { done(report); });
    return;
  }
  for (const CacheNode* node : survivors_on_disk(plan)) {
    std::vector<TokenId> ids = ids_up_to(*node);
    BeginOptions reuse;
    reuse.max_reuse = ids.size();
    reuse.restore = RestoreMode::kAlways;
    reuse.keep = false;
    ids.push_back(0);  // the last id of a prompt is never reused
    auto keeper = self->begin(forget.root_index, ids, reuse);
    // Without room these pages are lost for the others too: what must go, goes.
    if (keeper.is_ok()) forget.keepers.push_back(std::move(*keeper));
  }
  forgets.push_back(std::move(forget));
  pump_forgets();
}

void TieredCache::Impl::pump_forgets() {
  for (size_t i = 0; i < forgets.size();) {
    PendingForget& forget = forgets[i];
    if (forget.phase == PendingForget::Phase::kRestoring) {
      const bool is_ready = std::all_of(forget.keepers.begin(),
                                        forget.keepers.end(),
                                        [](const auto& keeper) { return keeper->is_ready(); });
      if (is_ready) {
        execute_forget(&forget);
        forget.keepers.clear();
        forget.phase = PendingForget::Phase::kWriting;
      }
    }
    if (forget.phase == PendingForget::Phase::kWriting && forget.writes.empty()) {
      if (disk == nullptr) {
        end_forget(i, Status::ok());
        continue;
      }
      send_forget(&forget);
    }
    ++i;
  }
}

void TieredCache::Impl::send_forget(PendingForget* forget) {
  forget->phase = PendingForget::Phase::kRemoving;
  forget->ticket = ++last_ticket;
  std::optional<RootKey> whole_root;
  if (forget->scope.what == ForgetScope::What::kNamespace)
    whole_root = tree.root(forget->root_index)->key;
  disk->forget(forget->ticket, std::move(forget->entries), whole_root);
  drop_empty_root(forget->root_index);
}

void TieredCache::Impl::on_forgotten(const ForgetReply& reply) {
  const auto it = std::find_if(forgets.begin(), forgets.end(), [&](const PendingForget& forget) {
    return forget.phase == PendingForget::Phase::kRemoving && forget.ticket == reply.ticket;
  });
  CAIRN_CHECK(it != forgets.end(), "an answer to a forget that was never asked for");
  it->report.n_objects = reply.n_objects;
  it->report.n_bytes = reply.n_bytes;
  if (!reply.status.is_ok())
    log_warning("store: not everything could be forgotten: {}", reply.status.to_string());
  end_forget(static_cast<size_t>(it - forgets.begin()), reply.status);
}

void TieredCache::Impl::end_forget(size_t forget_idx, const Status& status) {
  PendingForget& forget = forgets[forget_idx];
  forget.report.status = status;
  completions.push_back(
      [done = std::move(forget.done), report = std::move(forget.report)] { done(report); });
  forgets.erase(forgets.begin() + static_cast<std::ptrdiff_t>(forget_idx));
}

// A write that was under way when its pages were forgotten: its object goes again at once.
void TieredCache::Impl::unwrite_forgotten(uint64_t ticket, DiskObject* object) {
  PendingForget* owner = nullptr;
  for (PendingForget& forget : forgets) {
    if (forget.writes.erase(ticket) > 0) owner = &forget;
  }
  if (owner != nullptr && object != nullptr && object->kind == ObjectKind::kAnchor) {
    take_object(object, owner);
    return;
  }
  const bool is_forgotten =
      object != nullptr && std::any_of(object->nodes.begin(), object->nodes.end(), [](auto* node) {
        return node != nullptr && node->is_forgotten;
      });
  if (!is_forgotten) return;
  CAIRN_CHECK(owner != nullptr, "pages were forgotten by nobody");
  take_object(object, owner);
}

void TieredCache::forget(uint32_t root_index,
                         ForgetScope scope,
                         std::function<void(ForgetReport)> done) {
  PendingForget forget;
  forget.root_index = root_index;
  forget.scope = std::move(scope);
  forget.done = std::move(done);
  impl_->begin_forget(std::move(forget));
}

void CacheSequence::forget() {
  impl_->keep = false;
  impl_->persist = false;
}

}  // namespace cairn
