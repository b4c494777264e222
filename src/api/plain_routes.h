// Endpoints that need no engine: tokenise, detokenise, list models. Thread: prep (models: any).
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "api/api_error.h"
#include "api/prepared_request.h"

namespace cairn {

using BodyOrError = std::variant<std::string, ApiError>;

// {"text" | "content" | "prompt": "...", "add_special": false} -> {"tokens": [...], "count": n}
BodyOrError tokenize_body(std::string_view body, const ModelList& models);
// {"tokens": [...]} -> {"text": "...", "content": "..."}
BodyOrError detokenize_body(std::string_view body, const ModelList& models);

// {"object": "list", "data": [...]}
std::string models_body(const ModelList& models);
// One entry, or a 404 that lists the names.
BodyOrError model_body(std::string_view name, const ModelList& models);

}  // namespace cairn
