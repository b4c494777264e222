#include "text/sentencepiece_rules.h"

#include "text/utf8.h"

namespace cairn {

namespace {}  // namespace

SentencePieceRules::Part SentencePieceRules::first_part(std::string_view text) const {
  if (const size_t n = user_defined.longest_prefix(text); n > 0) return {n, text.substr(0, n)};
  if (map) {
    if (const auto rule = map->find_longest(text)) return {rule->n_bytes, rule->replacement};
  }
  const size_t n = utf8::decode(text).n_bytes;
  return {n, text.substr(0, n)};
}

std::string SentencePieceRules::normalize(std::string_view text) const {
  if (removes_extra_spaces) {
    while (!text.empty()) {
      const Part part = first_part(text);
      if (part.normalized != " ") break;
      text.remove_prefix(part.n_bytes);
    }
  }
  std::string out;
  if (text.empty()) return out;
  const std::string_view space = escapes_spaces ? kSpaceMark : " ";
  out.reserve(text.size() + text.size() / 2);
  if (adds_dummy_prefix) out += space;
  bool follows_space = removes_extra_spaces;
  while (!text.empty()) {
    Part part = first_part(text);
    text.remove_prefix(part.n_bytes);
    while (follows_space && part.normalized.starts_with(' ')) part.normalized.remove_prefix(1);
    for (const char c : part.normalized) {
      if (c == ' ') {
        out += space;
      } else {
        out += c;
      }
    }
    if (removes_extra_spaces && !part.normalized.empty()) {
      follows_space = part.normalized.back() == ' ';
    }
  }
  while (removes_extra_spaces && out.ends_with(space)) out.resize(out.size() - space.size());
  return out;
}

}  // namespace cairn
