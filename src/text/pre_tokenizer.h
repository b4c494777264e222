// Cuts a normalised text into the pieces that are encoded one by one.
//
// First the text may get a mark in front, then a sequence of splits follows, each applied to every
// piece of the one before. The last step of byte-level files maps bytes to the vocabulary's
// alphabet, which Cairn does by keeping bytes as bytes. Thread: any, once built.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"

namespace cairn {

struct Piece {
  size_t begin = 0;
  size_t end = 0;
};

enum class SplitBehavior {
  kIsolated,            // matches and what lies between them are pieces
  kRemoved,             // matches are dropped
  kMergedWithPrevious,  // a match ends the piece before it
  kMergedWithNext,      // a match begins the piece after it
  kContiguous,          // neighbouring matches are one piece
};

struct Split {
  Regex regex;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool is_inverted = false;  // what lies between matches plays the part of the matches
};

// What a text that does not begin with it gets in front.
struct FrontMark {
  enum class When { kNever, kAtStart, kAlways };

  When when = When::kNever;      // kAtStart: only the text that begins the whole input
  std::string mark;              // " ", or U+2581
  bool replaces_spaces = false;  // every space becomes the mark, before anything else
};

class PreTokenizer {
 public:
  PreTokenizer() = default;

  explicit PreTokenizer(std::vector<Split> splits, FrontMark front = {})
      : splits_(std::move(splits)), front_(std::move(front)) {}

  // Returns `text` itself when it stays as it is, else a view of `scratch`.
  std::string_view mark(std::string_view text, bool is_start, std::string& scratch) const;

  // Appends the non-empty pieces of valid UTF-8, in order. Bytes that no piece covers are dropped.
  void split(std::string_view text, std::vector<Piece>& out) const;

 private:
  std::vector<Split> splits_;
  FrontMark front_;
};

}  // namespace cairn
