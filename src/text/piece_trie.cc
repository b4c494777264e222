#include "text/piece_trie.h"

namespace cairn {

namespace {

// Sorted by piece, one entry each.
void sort_and_unify(std::vector<PieceTrie::Entry>& entries) {
  std::erase_if(entries, [](const auto& entry) { return entry.piece.empty(); });
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.piece < b.piece;
  });
  size_t n = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i + 1 < entries.size() && entries[i].piece == entries[i + 1].piece) continue;
    entries[n++] = entries[i];
  }
  entries.resize(n);
}

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

PieceTrie::PieceTrie(std::vector<Entry> entries) {
  sort_and_unify(entries);

  // A node and the entries below it, which share their first `depth` bytes.
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
    uint32_t depth = 0;
  };

  nodes_.reserve(2 * entries.size() + 1);
  nodes_.emplace_back();
  std::vector<Range> ranges;  // by node, worked off in order
  ranges.reserve(2 * entries.size() + 1);
  ranges.push_back({0, static_cast<uint32_t>(entries.size()), 0});
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    if (begin < end && depth > 0 && entries[begin].piece.size() == depth) {
      nodes_[node].is_piece = true;
      nodes_[node].id = entries[begin].id;
      ++begin;
    }
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const std::string_view first = entries[begin].piece;
      uint32_t group_end = begin + 1;
      while (group_end < end && entries[group_end].piece[depth] == first[depth]) ++group_end;
      const auto next_depth =
          static_cast<uint32_t>(common_prefix(first, entries[group_end - 1].piece));
      nodes_.push_back({first.substr(depth, next_depth - depth), 0, 0, false, 0});
      ranges.push_back({begin, group_end, next_depth});
      ++nodes_[node].n_children;
      begin = group_end;
    }
  }
}

std::optional<TokenId> PieceTrie::find(std::string_view piece) const {
  std::optional<TokenId> found;
  for_each_prefix(piece, [&](size_t n_bytes, TokenId id) {
    if (n_bytes == piece.size()) found = id;
  });
  return found;
}

}  // namespace cairn
