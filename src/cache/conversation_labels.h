// Which timelines a client has put under one label, so that it can have them forgotten together.
//
// A label ("prompt_cache_key") never takes part in matching. It maps to the keys of the nodes where
// its requests ended; whether these nodes still exist is for the tree to say. Bounded: the label
// that was used longest ago goes first, and so does a label's oldest end. In memory alone: after a
// restart a conversation is forgotten by its prompt or its namespace.
// Thread: engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/key.h"

namespace cairn {

struct ConversationLimits {
  size_t n_labels = 16'384;
  size_t n_ends = 64;  // of one label: regenerated and branched replies
};

class ConversationLabels {
 public:
  explicit ConversationLabels(const ConversationLimits& limits = {}) : limits_(limits) {}

  // `root_index`: labels of different roots have nothing in common. A known end becomes the newest.
  void record(uint32_t root_index, std::string_view label, const PageKey& end);

  // Oldest first; empty for an unknown label.
  std::vector<PageKey> ends(uint32_t root_index, std::string_view label) const;

  // Whether a label other than `label` ends there. Keys of different roots differ.
  bool is_end_of_other(uint32_t root_index, std::string_view label, const PageKey& end) const;

  void forget(uint32_t root_index, std::string_view label);
  void forget_root(uint32_t root_index);

  size_t n_labels() const { return by_name_.size(); }

  size_t memory_bytes() const;  // estimated

 private:
  using Name = std::pair<uint32_t, std::string>;

  struct Entry {
    std::deque<PageKey> ends;  // oldest first
    std::list<Name>::iterator by_use;
  };

  using Entries = std::map<Name, Entry>;

  void remove(Entries::iterator it);
  void remove_end(Entry& entry, std::deque<PageKey>::iterator end);

  ConversationLimits limits_;
  Entries by_name_;
  std::list<Name> by_use_;  // used longest ago first
  std::unordered_map<PageKey, size_t, DigestHash> n_labels_by_end_;
  size_t n_text_bytes_ = 0;
};

}  // namespace cairn
