// POST /v1/cache/forget: from a body to what the engine shall forget.
//
//   {"namespace": "own"}             everything under the caller's key (and "cache_salt")
//   {"conversation": "label"}        what requests with this prompt_cache_key computed
//   {"prompt": "text" | [ids] | {"messages": [...], ...}}   this prompt and all that begins with it
//
// One of the three; beside it "model" (needed when several are served), "cache_salt" and "dry_run".
// Thread: prep.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "api/api_error.h"
#include "api/prepared_request.h"
#include "engine/engine.h"

namespace cairn {

struct PreparedForget {
  ForgetRequest request;   // without its namespace, which the server makes of key and salt
  std::string cache_salt;  // "" when none is given
};

using ForgetResult = std::variant<PreparedForget, ApiError>;

// A prompt is rendered and tokenised exactly as the endpoint that takes it would.
ForgetResult prepare_forget(std::string_view body,
                            const ModelList& models,
                            int64_t now_unix,
                            std::string_view key_domain = {});

}  // namespace cairn
