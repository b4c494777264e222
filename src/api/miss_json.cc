#include "api/miss_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/drift.h"
#include "base/json.h"
#include "text/utf8.h"

namespace cairn {
namespace {

constexpr size_t kShownBytes = 160;    // of each text
constexpr size_t kSharedTokens = 256;  // before the difference, to recognise it by
// So much text in common means that it was made of other tokens, and not that it differs later.
constexpr size_t kSameBytes = 40;

std::string miss_message(const ReuseReport& reuse, size_t n_prompt_tokens) {
  switch (reuse.miss) {
    case MissReason::kNone:
      return "everything that could be reused was";
    case MissReason::kEmpty:
      return "nothing that begins like this prompt was ever computed here";
    case MissReason::kDiverged:
      return fmt::format("the prompt leaves what was computed before at token {}",
                         reuse.miss_token);
    case MissReason::kEnded:
      return fmt::format(
          "what was computed before ends at token {} of {}", reuse.miss_token, n_prompt_tokens);
    case MissReason::kDropped:
      return fmt::format("the pages from token {} on were evicted", reuse.miss_token);
    case MissReason::kDamaged:
      return fmt::format(
          "a stored object with the pages from token {} on was damaged and set aside",
          reuse.miss_token);
    case MissReason::kNotWorth:
      return fmt::format("from token {} on recomputing was expected to be faster than reading",
                         reuse.miss_token);
  }
  return "";
}

// Cut between characters.
std::string shown(std::string_view text) {
  size_t n = std::min(text.size(), kShownBytes);
  while (n > 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xC0U) == 0x80U) --n;
  return utf8::lossy(text.substr(0, n)) + (n < text.size() ? "..." : "");
}

// Raw, so that a difference inside a character does not become one of U+FFFD.
std::string bytes_of_ids(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes += tokenizer.token_bytes(id);
  return bytes;
}

void add_difference(const Tokenizer& tokenizer,
                    const PromptOutline& outline,
                    std::span<const TokenId> prompt,
                    const ReuseReport& reuse,
                    Json* out) {
  const size_t at = std::min<size_t>(reuse.miss_token, prompt.size());
  const auto before = prompt.first(at);
  // The given side as long as the known one, so that either may be found in the other.
  const size_t n_given = std::min(prompt.size() - at, reuse.known.size() + kSharedTokens);
  const std::string shared = bytes_of_ids(tokenizer, before.last(std::min(at, kSharedTokens)));
  const std::string known = bytes_of_ids(tokenizer, reuse.known);
  const std::string given = bytes_of_ids(tokenizer, prompt.subspan(at, n_given));
  // The texts may share bytes that are other tokens.
  const size_t n_same = static_cast<size_t>(
      std::mismatch(known.begin(), known.end(), given.begin(), given.end()).first - known.begin());
  const size_t offset = bytes_of_ids(tokenizer, before).size();
  const bool differs = n_same < std::min({known.size(), given.size(), kSameBytes});
  const size_t skip = differs ? n_same : 0;
  Difference difference;
  const std::string all_shared = shared + known.substr(0, skip);
  difference.shared = all_shared;
  difference.known = std::string_view(known).substr(skip);
  difference.given = std::string_view(given).substr(skip);
  difference.message = outline.message_at(offset + skip);
  if (difference.message != nullptr) {
    (*out)["at"] = {{"message", difference.message->index}, {"role", difference.message->role}};
  }
  (*out)["known"] = shown(difference.known);
  (*out)["given"] = shown(difference.given);
  if (const auto drift = recognise_drift(difference, outline)) {
    (*out)["cause"] = to_string(drift->cause);
    (*out)["advice"] = drift->advice;
  }
}

}  // namespace

Json miss_json(const Tokenizer& tokenizer,
               const PromptOutline& outline,
               std::span<const TokenId> prompt,
               const ReuseReport& reuse) {
  Json out = {{"reason", to_string(reuse.miss)},
              {"message", miss_message(reuse, prompt.size())},
              {"token", reuse.miss_token}};
  if (reuse.miss == MissReason::kDiverged && !reuse.known.empty())
    add_difference(tokenizer, outline, prompt, reuse, &out);
  return out;
}

}  // namespace cairn
