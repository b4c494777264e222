// Lookup: the longest front of a prompt that some tier holds.
#include <algorithm>

#include "base/check.h"
#include "cache/prefix_tree.h"
#include "cache/prefix_tree_impl.h"

namespace cairn {

namespace {

// How many equally good children are looked at for one that is in memory.
constexpr int kTieCandidates = 8;

bool counts(const CacheNode& node, MatchScope scope) {
  if (node.is_forgotten) return false;
  return scope == MatchScope::kMemory ? node.is_resident() : node.has_bytes();
}

size_t common_run(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first -
      a.begin());
}

struct Candidate {
  CacheNode* node = nullptr;
  size_t n_common = 0;
  size_t n_common_any = 0;  // over children without bytes too
};

// Takes `node` if it beats what is there; returns false when nothing further away can.
bool consider(CacheNode* node,
              std::span<const TokenId> rest,
              MatchScope scope,
              Candidate* best,
              int* n_ties) {
  const size_t n_common = common_run(node->tokens, rest);
  best->n_common_any = std::max(best->n_common_any, n_common);
  if (n_common == 0 || n_common < best->n_common) return false;
  if (!counts(*node, scope)) return true;
  const bool is_longer = n_common > best->n_common;
  const bool is_nearer = best->node != nullptr && node->is_resident() && !best->node->is_resident();
  if (best->node == nullptr || is_longer || is_nearer) {
    best->node = node;
    best->n_common = n_common;
  }
  return ++*n_ties < kTieCandidates;
}

// The child that shares the longest run of ids with `rest`. The common run only shrinks with the
// distance from lower_bound, so both walks end at the first child that is worse.
Candidate best_child(const CacheNode& parent, std::span<const TokenId> rest, MatchScope scope) {
  Candidate best;
  const auto middle = parent.children.lower_bound(rest);
  int n_ties = 0;
  for (auto it = middle; it != parent.children.end(); ++it) {
    if (!consider(it->second.get(), rest, scope, &best, &n_ties)) break;
  }
  n_ties = 0;
  for (auto it = middle; it != parent.children.begin();) {
    --it;
    if (!consider(it->second.get(), rest, scope, &best, &n_ties)) break;
  }
  return best;
}

MatchEnd end_of(const PrefixMatch& match, const CacheNode& parent, const Candidate& best) {
  if (best.n_common_any > best.n_common) return MatchEnd::kDropped;
  if (match.n_tokens == 0) return MatchEnd::kEmpty;
  if (match.partial != nullptr) {
    return match.partial_rows < match.partial->tokens.size() ? MatchEnd::kDiverged
                                                             : MatchEnd::kEnded;
  }
  return parent.children.empty() ? MatchEnd::kEnded : MatchEnd::kDiverged;
}

}  // namespace

PrefixMatch PrefixTree::Impl::find_match(uint32_t root_index,
                                         std::span<const TokenId> tokens,
                                         size_t max_tokens,
                                         MatchScope scope) const {
  CAIRN_CHECK(root_index < roots.size() && roots[root_index] != nullptr, "root was never added");
  PrefixMatch match;
  const size_t cap = std::min(max_tokens, tokens.empty() ? 0 : tokens.size() - 1);
  const CacheNode* parent = roots[root_index].get();
  while (cap - match.n_tokens >= page_tokens) {
    const auto it = parent->children.find(tokens.subspan(match.n_tokens, page_tokens));
    if (it == parent->children.end() || !counts(*it->second, scope)) break;
    match.pages.push_back(it->second.get());
    match.n_tokens += page_tokens;
    parent = it->second.get();
  }
  // Ids past the cap do not count, or a longer child would be taken for a better one.
  const size_t n_rest = std::min<size_t>(page_tokens, cap - match.n_tokens);
  const Candidate best = best_child(*parent, tokens.subspan(match.n_tokens, n_rest), scope);
  if (best.node != nullptr) {
    match.partial = best.node;
    match.partial_rows = static_cast<uint32_t>(best.n_common);
    match.n_tokens += best.n_common;
  }
  match.end = match.n_tokens == cap && cap > 0 ? MatchEnd::kComplete : end_of(match, *parent, best);
  return match;
}

std::vector<TokenId> PrefixTree::continuation(uint32_t root_index,
                                              const PrefixMatch& match,
                                              size_t n_max) const {
  std::vector<TokenId> ids;
  const auto take = [&](std::span<const TokenId> more) {
    more = more.first(std::min(more.size(), n_max - ids.size()));
    ids.insert(ids.end(), more.begin(), more.end());
  };
  const CacheNode* node = match.pages.empty() ? impl_->roots[root_index].get() : match.pages.back();
  if (match.partial != nullptr) {
    node = match.partial;
    take(std::span(node->tokens).subspan(match.partial_rows));
  }
  while (ids.size() < n_max && !node->children.empty()) {
    node = std::max_element(
               node->children.begin(),
               node->children.end(),
               [](const auto& a, const auto& b) { return a.second->last_use < b.second->last_use; })
               ->second.get();
    take(node->tokens);
  }
  return ids;
}

PrefixMatch PrefixTree::peek(uint32_t root_index,
                             std::span<const TokenId> tokens,
                             size_t max_tokens,
                             MatchScope scope) const {
  return impl_->find_match(root_index, tokens, max_tokens, scope);
}

PrefixMatch PrefixTree::match(uint32_t root_index,
                              std::span<const TokenId> tokens,
                              size_t max_tokens,
                              MatchScope scope) {
  PrefixMatch match = impl_->find_match(root_index, tokens, max_tokens, scope);
  if (match.partial != nullptr) {
    touch(match.partial);
  } else if (!match.pages.empty()) {
    touch(match.pages.back());
  }
  return match;
}

}  // namespace cairn
