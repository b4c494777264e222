// What a reply and /v1/cache/explain say of the tokens that were not cached.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "api/prompt_outline.h"
#include "base/json_fwd.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace cairn {

// {"reason", "message", "token"}; where the prompt left a known timeline also "at" (the message's
// index and role), "known" and "given" (both texts from there on) and, when recognised, "cause" and
// "advice".
Json miss_json(const Tokenizer& tokenizer,
               const PromptOutline& outline,
               std::span<const TokenId> prompt,
               const ReuseReport& reuse);

}  // namespace cairn
