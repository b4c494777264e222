// Cuts a normalised text into the pieces that are encoded one by one.
//
// A sequence of splits, each applied to every piece of the one before. Byte-level vocabularies
// only: the last step maps bytes to the vocabulary's alphabet, which Cairn does by keeping bytes as
// bytes. Thread: any, once built.
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

class PreTokenizer {
 public:
  // add_prefix_space: text that does not begin with a space gets one in front.
  PreTokenizer(std::vector<Split> splits, bool add_prefix_space)
      : splits_(std::move(splits)), add_prefix_space_(add_prefix_space) {}

  bool add_prefix_space() const { return add_prefix_space_; }

  // Appends the non-empty pieces of valid UTF-8, in order. Bytes that no piece covers are dropped.
  void split(std::string_view text, std::vector<Piece>& out) const;

 private:
  std::vector<Split> splits_;
  bool add_prefix_space_;
};

}  // namespace cairn
