// Finds all pieces of a vocabulary that a text begins with.
//
// A radix tree over the sorted pieces: at most two nodes a piece, so its memory is bounded by the
// number of pieces, not by their bytes. Thread: any, once built.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cache/token.h"

namespace cairn {

class PieceTrie {
 public:
  struct Entry {
    std::string_view piece;  // outlives the trie
    TokenId id = 0;
  };

  // Empty pieces are left out. Of equal pieces the last wins. Fewer than 2^31 of fewer than 2^32
  // bytes.
  explicit PieceTrie(std::vector<Entry> entries);

  // Calls take(n_bytes, id) for every piece that is a prefix of `text`, shortest first.
  template <typename Take>
  void for_each_prefix(std::string_view text, Take&& take) const {
    const Node* node = &nodes_[0];
    for (size_t pos = 0; pos < text.size();) {
      node = find_child(*node, text[pos]);
      if (node == nullptr || !text.substr(pos).starts_with(node->label)) return;
      pos += node->label.size();
      if (node->is_piece) take(pos, node->id);
    }
  }

  std::optional<TokenId> find(std::string_view piece) const;

 private:
  struct Node {
    std::string_view label;    // bytes between the parent's piece and this one's
    uint32_t first_child = 0;  // children lie side by side, by their first byte
    uint16_t n_children = 0;
    bool is_piece = false;
    TokenId id = 0;
  };

  const Node* find_child(const Node& node, char first) const {
    const auto begin = nodes_.begin() + node.first_child;
    const auto end = begin + node.n_children;
    const auto found =
        std::lower_bound(begin, end, static_cast<uint8_t>(first), [](const Node& n, uint8_t byte) {
          return static_cast<uint8_t>(n.label[0]) < byte;
        });
    return found == end || found->label[0] != first ? nullptr : &*found;
  }

  std::vector<Node> nodes_;
};

}  // namespace cairn
