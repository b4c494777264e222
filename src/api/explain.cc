#include "api/explain.h"

#include "api/common_fields.h"
#include "api/miss_json.h"
#include "base/json.h"

namespace cairn {

PrepareResult prepare_explain(std::string_view body,
                              const ModelList& models,
                              int64_t now_unix,
                              std::string_view key_domain) {
  const auto parsed = parse_body(body);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return *error;
  const bool is_chat = std::get<Json>(parsed).contains("messages");
  return is_chat ? prepare_chat(body, models, now_unix, key_domain)
                 : prepare_completions(body, models, now_unix, key_domain);
}

std::string explain_body(const PreparedRequest& request, const ReuseReport& reuse) {
  const std::vector<TokenId>& prompt = request.choices.front().prompt;
  Json out;
  out["prompt_tokens"] = prompt.size();
  out["cached_tokens"] = reuse.device_tokens + reuse.disk_tokens;
  out["tokens"] = {{"device", reuse.device_tokens}, {"disk", reuse.disk_tokens}};
  out["anchored_tokens"] = request.n_anchored;
  out["prompt_ids_hash"] = request.prompt_ids_hash;
  out["miss"] = miss_json(*request.model->tokenizer, request.outline, prompt, reuse);
  return dump_json(out);
}

}  // namespace cairn
