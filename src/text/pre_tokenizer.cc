#include "text/pre_tokenizer.h"

#include <algorithm>
#include <optional>

#include "text/utf8.h"

namespace cairn {

namespace {

// Turns the spans of one text, told in order, into pieces.
class PieceBuilder {
 public:
  PieceBuilder(const Split& split, size_t offset, std::vector<Piece>& out)
      : split_(split), offset_(offset), out_(out) {}

  void add(size_t begin, size_t end, bool is_match) {
    if (begin == end) return;
    if (split_.is_inverted) is_match = !is_match;
    const bool extends = !is_first_ && joins_previous(is_match);
    const bool is_dropped = split_.behavior == SplitBehavior::kRemoved && is_match;
    if (extends) {
      out_.back().end = offset_ + end;
    } else if (!is_dropped) {
      out_.push_back({offset_ + begin, offset_ + end});
    }
    was_match_ = is_match;
    is_first_ = false;
  }

 private:
  bool joins_previous(bool is_match) const {
    switch (split_.behavior) {
      case SplitBehavior::kIsolated:
      case SplitBehavior::kRemoved:
        return false;
      case SplitBehavior::kMergedWithPrevious:
        return is_match && !was_match_;
      case SplitBehavior::kMergedWithNext:
        return !is_match && was_match_;
      case SplitBehavior::kContiguous:
        return is_match == was_match_;
    }
    return false;
  }

  const Split& split_;
  size_t offset_;
  std::vector<Piece>& out_;
  bool was_match_ = false;
  bool is_first_ = true;
};

void apply(const Split& split,
           std::string_view text,
           size_t offset,
           Regex::Matcher& matcher,
           std::vector<Piece>& out) {
  PieceBuilder pieces(split, offset, out);
  size_t done = 0;  // everything before has been told
  size_t pos = 0;
  while (pos < text.size()) {
    const auto match = matcher.find(text, pos);
    if (!match) break;
    if (match->end == match->begin) {
      // An empty match splits nothing; look on from the next character.
      if (match->begin >= text.size()) break;
      pos = match->begin + utf8::decode(text.substr(match->begin)).n_bytes;
      continue;
    }
    pieces.add(done, match->begin, false);
    pieces.add(match->begin, match->end, true);
    done = pos = match->end;
  }
  pieces.add(done, text.size(), false);
}

}  // namespace

std::string_view PreTokenizer::mark(std::string_view text,
                                    bool is_start,
                                    std::string& scratch) const {
  if (text.empty()) return text;
  const bool may_add = front_.when == FrontMark::When::kAlways ||
                       (front_.when == FrontMark::When::kAtStart && is_start);
  const bool has_mark =
      text.starts_with(front_.mark) || (front_.replaces_spaces && text.front() == ' ');
  const bool adds = may_add && !has_mark;
  if (!adds && (!front_.replaces_spaces || text.find(' ') == std::string_view::npos)) return text;
  scratch.clear();
  if (adds) scratch += front_.mark;
  if (!front_.replaces_spaces) {
    scratch += text;
    return scratch;
  }
  for (const char c : text) {
    if (c == ' ') {
      scratch += front_.mark;
    } else {
      scratch += c;
    }
  }
  return scratch;
}

void PreTokenizer::split(std::string_view text, std::vector<Piece>& out) const {
  if (text.empty()) return;
  std::vector<Piece> pieces{{0, text.size()}};
  std::vector<Piece> next;
  for (const Split& split : splits_) {
    Regex::Matcher matcher(split.regex);
    next.clear();
    for (const Piece& piece : pieces) {
      apply(split, text.substr(piece.begin, piece.end - piece.begin), piece.begin, matcher, next);
    }
    std::swap(pieces, next);
  }
  out.insert(out.end(), pieces.begin(), pieces.end());
}

}  // namespace cairn
