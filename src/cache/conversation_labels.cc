#include "cache/conversation_labels.h"

#include <algorithm>

namespace cairn {

namespace {

// Nodes of the map, the list and the table, measured roughly.
constexpr size_t kLabelOverheadBytes = 256;
constexpr size_t kEndOverheadBytes = 128;

}  // namespace

void ConversationLabels::record(uint32_t root_index, std::string_view label, const PageKey& end) {
  const auto [it, is_new] = by_name_.try_emplace(Name(root_index, label));
  Entry& entry = it->second;
  if (is_new) {
    n_text_bytes_ += 2 * label.size();
    entry.by_use = by_use_.insert(by_use_.end(), it->first);
  } else {
    by_use_.splice(by_use_.end(), by_use_, entry.by_use);
  }
  const auto known = std::find(entry.ends.begin(), entry.ends.end(), end);
  if (known != entry.ends.end()) remove_end(entry, known);
  entry.ends.push_back(end);
  ++n_labels_by_end_[end];
  if (entry.ends.size() > limits_.n_ends) remove_end(entry, entry.ends.begin());
  if (by_name_.size() > limits_.n_labels) remove(by_name_.find(by_use_.front()));
}

void ConversationLabels::remove_end(Entry& entry, std::deque<PageKey>::iterator end) {
  const auto counted = n_labels_by_end_.find(*end);
  if (--counted->second == 0) n_labels_by_end_.erase(counted);
  entry.ends.erase(end);
}

void ConversationLabels::remove(Entries::iterator it) {
  Entry& entry = it->second;
  while (!entry.ends.empty()) remove_end(entry, entry.ends.begin());
  n_text_bytes_ -= 2 * it->first.second.size();
  by_use_.erase(entry.by_use);
  by_name_.erase(it);
}

std::vector<PageKey> ConversationLabels::ends(uint32_t root_index, std::string_view label) const {
  const auto it = by_name_.find(Name(root_index, label));
  if (it == by_name_.end()) return {};
  return {it->second.ends.begin(), it->second.ends.end()};
}

bool ConversationLabels::is_end_of_other(uint32_t root_index,
                                         std::string_view label,
                                         const PageKey& end) const {
  const auto counted = n_labels_by_end_.find(end);
  if (counted == n_labels_by_end_.end()) return false;
  const auto it = by_name_.find(Name(root_index, label));
  const bool is_own =
      it != by_name_.end() &&
      std::find(it->second.ends.begin(), it->second.ends.end(), end) != it->second.ends.end();
  return counted->second > (is_own ? 1U : 0U);
}

void ConversationLabels::forget(uint32_t root_index, std::string_view label) {
  const auto it = by_name_.find(Name(root_index, label));
  if (it != by_name_.end()) remove(it);
}

void ConversationLabels::forget_root(uint32_t root_index) {
  auto it = by_name_.lower_bound(Name(root_index, ""));
  while (it != by_name_.end() && it->first.first == root_index) remove(it++);
}

size_t ConversationLabels::memory_bytes() const {
  return by_name_.size() * kLabelOverheadBytes + n_text_bytes_ +
         n_labels_by_end_.size() * kEndOverheadBytes;
}

}  // namespace cairn
