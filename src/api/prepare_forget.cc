#include "api/prepare_forget.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "api/common_fields.h"
#include "api/json_fields.h"
#include "base/json.h"

namespace cairn {
namespace {

// Ids, and the salt unless one is given, as a request with this prompt would have them.
std::optional<ApiError> read_forgotten_prompt(const Json& prompt,
                                              const ServedModel& model,
                                              const ModelList& models,
                                              int64_t now_unix,
                                              std::string_view key_domain,
                                              PreparedForget* out) {
  const bool is_chat = prompt.is_object();
  Json body = is_chat ? prompt : Json{{"prompt", prompt}};
  body["model"] = model.name;
  if (is_chat && !out->cache_salt.empty()) body["cache_salt"] = out->cache_salt;
  PrepareResult result = is_chat ? prepare_chat(dump_json(body), models, now_unix, key_domain)
                                 : prepare_completions(dump_json(body), models, now_unix);
  if (auto* error = std::get_if<ApiError>(&result)) return std::move(*error);
  auto& prepared = std::get<PreparedRequest>(result);
  if (prepared.choices.size() != prepared.choices_per_prompt) {
    return api_error(Status::invalid_argument(
                         fmt::format("prompt holds {} prompts; send one at a time",
                                     prepared.choices.size() / prepared.choices_per_prompt)),
                     "prompt");
  }
  if (out->cache_salt.empty()) out->cache_salt = std::move(prepared.cache_salt);
  out->request.scope.prompt = std::move(prepared.choices.front().prompt);
  return std::nullopt;
}

// Exactly one of the three ways to say what is meant. A fault goes into `fields`.
void read_scope(JsonFields& fields, ForgetScope* out, const Json** prompt) {
  std::string own;
  fields.read("namespace", &own);
  fields.read("conversation", &out->conversation);
  *prompt = fields.find("prompt");
  fields.read("dry_run", &out->dry_run);
  const bool has_conversation = fields.find("conversation") != nullptr;
  const bool has_namespace = fields.find("namespace") != nullptr;
  if (fields.has_failed()) return;
  const int n_given =
      (has_namespace ? 1 : 0) + (has_conversation ? 1 : 0) + (*prompt != nullptr ? 1 : 0);
  if (n_given != 1) {
    return fields.fail(
        "",
        fmt::format("say what to forget with one of namespace, conversation or prompt; {} are "
                    "given",
                    n_given));
  }
  if (has_namespace && own != "own") {
    return fields.fail(
        "namespace",
        fmt::format("namespace is \"{:.40}\", wanted \"own\": a caller can only forget what was "
                    "computed under its own key",
                    own));
  }
  out->what = has_namespace      ? ForgetScope::What::kNamespace
              : has_conversation ? ForgetScope::What::kConversation
                                 : ForgetScope::What::kPrompt;
}

}  // namespace

ForgetResult prepare_forget(std::string_view body,
                            const ModelList& models,
                            int64_t now_unix,
                            std::string_view key_domain) {
  auto parsed = parse_body(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  JsonFields fields(std::get<Json>(parsed), "");
  ApiError not_found;
  const auto model = pick_model(fields, models, &not_found);
  if (fields.has_failed()) return fields.error();
  if (!model) return not_found;

  PreparedForget forget;
  forget.request.model = model->engine_index;
  const Json* prompt = nullptr;
  read_scope(fields, &forget.request.scope, &prompt);
  read_cache_salt(fields, &forget.cache_salt);
  fields.refuse_unknown();
  if (fields.has_failed()) return fields.error();
  if (prompt == nullptr) return forget;
  if (auto error = read_forgotten_prompt(*prompt, *model, models, now_unix, key_domain, &forget)) {
    return std::move(*error);
  }
  return forget;
}

}  // namespace cairn
