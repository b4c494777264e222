// Regular expressions of tokenizer files, compiled with PCRE2.
//
// The files are written for the Oniguruma engine. compile() rewrites what differs before PCRE2 sees
// it: PCRE2's \s counts U+180E in, Oniguruma follows Unicode's White_Space property; and
// PCRE2 10.42 knows Unicode 14 where all else here knows 15, so general categories (\p{L}, \p{Lu})
// get the 4,489 characters between the two. Thread: a compiled Regex is immutable; a Matcher
// belongs to one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn {

class Regex {
 public:
  // Errors: kInvalidArgument with PCRE2's message and the offset in the pattern.
  static Result<Regex> compile(std::string_view pattern);

  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  // Scratch memory for searches with one Regex.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;
    Matcher(Matcher&&) noexcept;
    Matcher& operator=(Matcher&&) noexcept;
    ~Matcher();

    // The first match that begins at or after `pos`, in valid UTF-8. A search that runs into
    // PCRE2's limits (only patterns with nested repeats can) counts as no match.
    std::optional<Match> find(std::string_view text, size_t pos);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace cairn
