// Finds the added tokens (<|im_start|>, <tool_call>, ...) that are spelt out in a text.
//
// The leftmost match wins, the longest among those that begin at one place. Thousands of tokens
// cost no more than a few: a trie is walked only from bytes that begin some token. Thread: any,
// once built.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/token.h"

namespace cairn {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool is_special = false;
  bool is_normalized = false;   // looked for after normalisation
  bool is_single_word = false;  // only where no word character touches it
  bool strips_left = false;     // takes the white space before it along
  bool strips_right = false;
};

class AddedTokenFinder {
 public:
  // Empty contents are left out. Of equal contents the first wins.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  struct Match {
    size_t begin = 0;
    size_t end = 0;
    TokenId id = 0;
  };

  // Appends the matches in order; they do not overlap. `text` is valid UTF-8.
  void find_all(std::string_view text, std::vector<Match>& out) const;

  // Bytes of the longest content that `text` begins with; 0 when there is none. Flags do not count.
  size_t longest_prefix(std::string_view text) const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Node {
    uint32_t first_child = kNone;
    uint32_t next_sibling = kNone;
    uint32_t token = kNone;  // index into tokens_
    unsigned char byte = 0;
  };

  struct Found {
    uint32_t token = kNone;
    size_t end = 0;
  };

  void insert(std::string_view content, uint32_t token);
  Found longest_at(std::string_view text, size_t pos) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<uint32_t, 256> roots_{};  // node of each first byte, or kNone
};

}  // namespace cairn
