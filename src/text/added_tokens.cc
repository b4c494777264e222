#include "text/added_tokens.h"

#include <utility>

#include "text/utf8.h"

namespace cairn {

namespace {

bool touches_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && utf8::is_word(utf8::previous(text, begin).code)) return true;
  return end < text.size() && utf8::is_word(utf8::decode(text.substr(end)).code);
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  roots_.fill(kNone);
  size_t n_bytes = 0;
  for (const AddedToken& token : tokens_) n_bytes += token.content.size();
  nodes_.reserve(n_bytes);
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    if (!tokens_[i].content.empty()) insert(tokens_[i].content, i);
    tokens_[i].content = std::string();  // the trie has it
  }
}

void AddedTokenFinder::insert(std::string_view content, uint32_t token) {
  const auto new_node = [this](unsigned char byte, uint32_t next_sibling) {
    nodes_.push_back({kNone, next_sibling, kNone, byte});
    return static_cast<uint32_t>(nodes_.size() - 1);
  };
  const auto first = static_cast<unsigned char>(content[0]);
  if (roots_[first] == kNone) roots_[first] = new_node(first, kNone);
  uint32_t node = roots_[first];
  for (const char c : content.substr(1)) {
    const auto byte = static_cast<unsigned char>(c);
    uint32_t child = nodes_[node].first_child;
    while (child != kNone && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
    if (child == kNone) {
      child = new_node(byte, nodes_[node].first_child);
      nodes_[node].first_child = child;
    }
    node = child;
  }
  if (nodes_[node].token == kNone) nodes_[node].token = token;
}

AddedTokenFinder::Found AddedTokenFinder::longest_at(std::string_view text, size_t pos) const {
  Found found;
  uint32_t node = roots_[static_cast<unsigned char>(text[pos])];
  for (size_t at = pos; node != kNone;) {
    ++at;
    if (nodes_[node].token != kNone) found = {nodes_[node].token, at};
    if (at == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[at]);
    node = nodes_[node].first_child;
    while (node != kNone && nodes_[node].byte != byte) node = nodes_[node].next_sibling;
  }
  return found;
}

size_t AddedTokenFinder::longest_prefix(std::string_view text) const {
  return text.empty() || nodes_.empty() ? 0 : longest_at(text, 0).end;
}

void AddedTokenFinder::find_all(std::string_view text, std::vector<Match>& out) const {
  if (nodes_.empty()) return;
  size_t done = 0;  // end of the last match, white space that it took along included
  for (size_t pos = 0; pos < text.size();) {
    if (roots_[static_cast<unsigned char>(text[pos])] == kNone) {
      ++pos;
      continue;
    }
    const Found found = longest_at(text, pos);
    if (found.token == kNone) {
      ++pos;
      continue;
    }
    const AddedToken& token = tokens_[found.token];
    size_t begin = pos;
    size_t end = found.end;
    pos = end;
    if (token.is_single_word && touches_word(text, begin, end)) continue;
    while (token.strips_left && begin > done) {
      const utf8::Decoded c = utf8::previous(text, begin);
      if (!utf8::is_white_space(c.code)) break;
      begin -= c.n_bytes;
    }
    while (token.strips_right && end < text.size()) {
      const utf8::Decoded c = utf8::decode(text.substr(end));
      if (!utf8::is_white_space(c.code)) break;
      end += c.n_bytes;
    }
    out.push_back({begin, end, token.id});
    done = pos = end;
  }
}

}  // namespace cairn
