// Pieces of reply bodies: logprobs in both shapes, usage.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace cairn {

// A token whose logprobs are told, and where its text begins in the choice's text (code points, as
// OpenAI counts). A token that begins inside a character has that character's offset.
struct LoggedToken {
  GeneratedToken token;
  size_t text_offset = 0;
  bool has_logprob = true;  // false for a prompt's first token: nothing stands before it
};

// {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}], "refusal": null}
Json chat_logprobs(const Tokenizer& tokenizer, std::span<const LoggedToken> tokens);
// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. A token that is not whole characters
// is spelt "bytes:\xNN\xNN", so that two of them stay two keys of top_logprobs. The chosen token is
// always one of top_logprobs.
Json legacy_logprobs(const Tokenizer& tokenizer, std::span<const LoggedToken> tokens);

// Sums over the choices of one request.
struct UsageTotals {
  uint64_t prompt_tokens = 0;  // of each prompt once
  uint64_t completion_tokens = 0;
  uint32_t choices_per_prompt = 1;
  std::vector<RequestUsage> per_choice;
  double prepare_ms = 0;
  std::string prompt_ids_hash;
  size_t n_anchored = 0;  // of the first prompt
};

// OpenAI's usage object with Cairn's under "cairn" (DESIGN.md section 6). Times and the miss are
// those of the first choice; tokens by tier are summed over the first choice of each prompt.
//   miss  of the first prompt (api/miss_json.h)
Json usage_json(const UsageTotals& totals, Json miss);

}  // namespace cairn
