// What tokenizer files do to a text before it is cut: a sequence of steps, each a small type.
// Thread: any, once built.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/charsmap.h"
#include "text/regex.h"
#include "text/sentencepiece_rules.h"

namespace cairn {

// Unicode's normal forms (utf8proc, Unicode 15).
enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Puts `text` in front of texts that are not empty.
struct PrependText {
  std::string text;
};

struct ReplaceText {
  std::string from;  // not empty
  std::string to;
};

// Empty matches replace nothing.
struct ReplaceMatches {
  Regex pattern;
  std::string to;
};

// White space at the ends (Unicode's White_Space property).
struct StripSpace {
  bool strips_left = false;
  bool strips_right = false;
};

// A SentencePiece map as Hugging Face's tokenizers apply it: a grapheme cluster below 6 bytes
// becomes what its shortest mapped front stands for (what follows that front is lost); longer ones
// are mapped character by character. SentencePiece itself does otherwise: SentencePieceRules.
struct MapGraphemes {
  CharsMap map;
};

class Normalizer {
 public:
  using Step = std::variant<NormalForm,
                            PrependText,
                            ReplaceText,
                            ReplaceMatches,
                            StripSpace,
                            MapGraphemes,
                            SentencePieceRules>;

  Normalizer() = default;

  // Applied one after another; empty changes nothing.
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  // Requires valid UTF-8. Returns `text` itself when nothing changes, else a view of `scratch`.
  std::string_view normalize(std::string_view text, std::string& scratch) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace cairn
