// POST /v1/chat/completions: from a body to a PreparedRequest.
#include <fmt/format.h>

#include <chrono>

#include "api/chat_messages.h"
#include "api/common_fields.h"
#include "api/prepared_request.h"
#include "base/hash.h"
#include "base/json.h"
#include "cache/key.h"
#include "text/chat_template.h"

namespace cairn {
namespace {

constexpr uint32_t kMaxTopLogprobs = 20;

struct ChatFields {
  Json messages;
  Json tools;
  Json kwargs = Json::object();
  bool add_generation_prompt = true;
};

void read_chat_fields(JsonFields& fields, CommonSettings* settings, ChatFields* chat) {
  read_messages(fields, &chat->messages);
  read_tools(fields, &chat->tools);
  fields.read("add_generation_prompt", &chat->add_generation_prompt);
  if (const Json* kwargs = fields.find("chat_template_kwargs")) {
    if (!kwargs->is_object())
      return fields.fail("chat_template_kwargs", "chat_template_kwargs must be an object");
    chat->kwargs = *kwargs;
  }
  GenerationRequest& generation = settings->generation;
  fields.read("logprobs", &generation.want_logprobs);
  fields.read("top_logprobs", &generation.top_logprobs, 0, kMaxTopLogprobs);
  if (generation.top_logprobs > 0 && !generation.want_logprobs) {
    return fields.fail("top_logprobs", "top_logprobs is only for \"logprobs\": true");
  }
  // The newer spelling wins where both are given.
  fields.read("max_completion_tokens", &generation.max_tokens, 1, UINT32_MAX);
  constexpr std::string_view kNoStructure =
      "this version cannot hold a reply to a format; leave it out";
  fields.require_neutral("response_format", {Json{{"type", "text"}}}, kNoStructure);
  fields.require_neutral("reasoning_effort", {}, "not in this version; leave it out");
  fields.require_neutral("modalities", {Json::array({"text"})}, "this version writes text only");
  fields.refuse_unknown();
}

AnchoredPrompt encode_prompt(const ServedModel& model,
                             std::string_view text,
                             const CommonSettings& settings,
                             std::string_view key_domain) {
  if (settings.anchors) {
    // A domain has one length, so domain and salt cannot be confused.
    const bool is_common = key_domain.empty() && settings.cache_salt.empty();
    return encode_anchored(
        model, is_common ? "" : fmt::format("{}/{}", key_domain, settings.cache_salt), text);
  }
  AnchoredPrompt prompt;
  prompt.ids = model.tokenizer->encode(text, false);
  return prompt;
}

}  // namespace

PrepareResult prepare_chat(std::string_view body,
                           const ModelList& models,
                           int64_t now_unix,
                           std::string_view key_domain) {
  const auto begin = std::chrono::steady_clock::now();
  auto parsed = parse_body(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const Json& object = std::get<Json>(parsed);
  JsonFields fields(object, "");
  ApiError not_found;
  const auto model = pick_model(fields, models, &not_found);
  if (fields.has_failed()) return fields.error();
  if (!model) return not_found;

  CommonSettings settings;
  ChatFields chat;
  read_common(fields, *model, &settings);
  read_chat_fields(fields, &settings, &chat);
  if (fields.has_failed()) return fields.error();
  if (!model->chat) {
    return api_error(
        Status::unsupported(fmt::format("model \"{}\" has no chat template; use /v1/completions or "
                                        "start the server with --template FILE",
                                        model->name)),
        "model");
  }

  TemplateInputs inputs;
  inputs.messages = std::move(chat.messages);
  inputs.tools = std::move(chat.tools);
  inputs.kwargs = std::move(chat.kwargs);
  inputs.add_generation_prompt = chat.add_generation_prompt;
  inputs.now_unix = now_unix;
  const auto rendered = model->chat->render(inputs);
  if (!rendered.is_ok()) return api_error(rendered.status(), "messages");

  PreparedRequest request;
  request.dialect = Dialect::kChat;
  request.model = model;
  request.id = "chatcmpl-" + random_hex_128();
  request.created_unix = now_unix;
  request.stop = std::move(settings.stop);
  request.cache_salt = settings.cache_salt;
  request.stream = settings.stream;
  request.include_usage = settings.include_usage;
  request.choices_per_prompt = settings.n;
  request.outline = outline_prompt(inputs.messages, inputs.tools, *rendered);
  AnchoredPrompt prompt = encode_prompt(*model, *rendered, settings, key_domain);
  request.prompt_ids_hash = prompt_ids_hash(prompt.ids);
  request.n_anchored = prompt.n_anchored;
  if (!settings.generation.no_store) request.anchor_basis = std::move(prompt.basis);
  if (auto error = add_choices(settings, *model, std::move(prompt.ids), "messages", &request))
    return std::move(*error);
  request.prepare_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return request;
}

}  // namespace cairn
