// POST /v1/cache/explain: what of a prompt is cached, and where and why the rest is not.
#pragma once

#include <string>
#include <string_view>

#include "api/prepared_request.h"

namespace cairn {

// Ids of the known timeline that an explanation looks at: more than a reply's usage does, to find
// what was moved or left out.
inline constexpr size_t kExplainedIdsMax = 4096;

// The body of a chat request or, without "messages", of a completion. Thread: prep.
PrepareResult prepare_explain(std::string_view body,
                              const ModelList& models,
                              int64_t now_unix,
                              std::string_view key_domain);

// Of the first prompt.
std::string explain_body(const PreparedRequest& request, const ReuseReport& reuse);

}  // namespace cairn
