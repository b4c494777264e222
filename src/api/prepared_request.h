// A client's request, understood: what the engine gets, and how its answer is to be told.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/anchored_prompt.h"
#include "api/api_error.h"
#include "api/prompt_outline.h"
#include "api/served_model.h"
#include "engine/request.h"

namespace cairn {

enum class Dialect { kChat, kCompletions };

struct PreparedRequest {
  Dialect dialect = Dialect::kChat;
  std::shared_ptr<const ServedModel> model;
  std::string id;  // "chatcmpl-..." or "cmpl-..."
  int64_t created_unix = 0;
  std::vector<GenerationRequest> choices;  // n per prompt, in index order; they share one seed
  std::vector<std::string> stop;           // stop strings, at most 16; cut from the reply
  bool stream = false;
  bool include_usage = false;           // stream_options.include_usage
  bool echo = false;                    // completions: the prompt's text comes first
  std::vector<std::string> echo_texts;  // one a prompt, when echo is set
  uint32_t choices_per_prompt = 1;      // choice i belongs to prompt i / choices_per_prompt
  std::string prompt_ids_hash;          // of the first prompt
  PromptOutline outline;                // of a chat's prompt
  size_t n_anchored = 0;                // ids at the prompt's front that came from a text anchor
  std::shared_ptr<const AnchorBasis> anchor_basis;  // null: its replies become no anchors
  std::string cache_salt;  // for the namespace of the choices, which the server makes
  double prepare_ms = 0;
};

// Parses, validates, renders, tokenises. Unknown fields that would change the answer are errors
// naming the field; those that only concern OpenAI's own service (user, metadata, store,
// service_tier) are accepted. Thread: prep. `models`: by name; an empty or unknown name is a 404
// that lists the names (with one model, an absent "model" means that one).
using PrepareResult = std::variant<PreparedRequest, ApiError>;
using ModelList = std::vector<std::shared_ptr<const ServedModel>>;
// `key_domain`: of the caller's API key; text anchors of other domains and salts are not found.
PrepareResult prepare_chat(std::string_view body,
                           const ModelList& models,
                           int64_t now_unix,
                           std::string_view key_domain = {});
PrepareResult prepare_completions(std::string_view body,
                                  const ModelList& models,
                                  int64_t now_unix,
                                  std::string_view key_domain = {});

}  // namespace cairn
