// How a SentencePiece model writes a text before it is cut into pieces: its character map (the
// longest rule first), spaces as U+2581, one of them in front, and perhaps no others than single
// ones between words. User-defined pieces pass unchanged.
// Thread: any, once built. Source: SentencePiece 0.1.97, normalizer.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/added_tokens.h"
#include "text/charsmap.h"

namespace cairn {

struct SentencePieceRules {
  std::optional<CharsMap> map;
  AddedTokenFinder user_defined{{}};  // matches are copied as they are
  bool adds_dummy_prefix = true;
  bool removes_extra_spaces = true;  // at both ends, and all but one of a run
  bool escapes_spaces = true;

  // Requires valid UTF-8.
  std::string normalize(std::string_view text) const;

 private:
  struct Part {
    size_t n_bytes = 0;  // of the text
    std::string_view normalized;
  };

  Part first_part(std::string_view text) const;
};

}  // namespace cairn
