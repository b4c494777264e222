// The precompiled character map of SentencePiece models: strings to their normalised forms.
//
// Format (SentencePiece, normalizer.cc; the trie is a Darts-clone double array):
//   u32 size of the trie in bytes; that many bytes of u32 units; then the normalised strings, each
//   ended by a NUL. A unit holds bits 0-7 label, 8 "a value follows", 9-31 the offset of its
//   children (bit 9: times 256); a value's unit has bit 31 set and a position among the strings.
// All numbers little-endian. Nothing is trusted: every step of a search is checked, so a damaged
// map can miss rules but never be read outside. Thread: any, once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn {

class CharsMap {
 public:
  // Errors: kCorruption for sizes that do not fit, strings that are not UTF-8 or over 256 bytes;
  // kUnsupported for more than 4 MiB.
  static Result<CharsMap> parse(std::string_view blob);

  struct Rule {
    size_t n_bytes = 0;            // of the text that the rule replaces: whole characters
    std::string_view replacement;  // valid UTF-8, perhaps empty
  };

  // The rule for the shortest or longest front of valid UTF-8 that has one.
  std::optional<Rule> find_shortest(std::string_view text) const { return find(text, false); }

  std::optional<Rule> find_longest(std::string_view text) const { return find(text, true); }

 private:
  CharsMap(std::vector<uint32_t> units, std::string strings)
      : units_(std::move(units)), strings_(std::move(strings)) {}

  std::optional<Rule> find(std::string_view text, bool is_longest) const;
  std::optional<std::string_view> string_at(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string strings_;  // ends with a NUL
};

}  // namespace cairn
