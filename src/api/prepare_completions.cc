// POST /v1/completions: from a body to a PreparedRequest. Prompts are text or exact token ids.
#include <fmt/format.h>

#include <chrono>

#include "api/common_fields.h"
#include "api/prepared_request.h"
#include "base/hash.h"
#include "base/json.h"
#include "cache/key.h"

namespace cairn {
namespace {

constexpr size_t kMaxPrompts = 64;
constexpr uint32_t kMaxLegacyLogprobs = 20;

bool is_id_list(const Json& value) {
  if (!value.is_array() || value.empty()) return false;
  for (const Json& item : value) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > UINT32_MAX) return false;
  }
  return true;
}

// One prompt: a string or a list of ids. False for anything else.
bool read_prompt(const Json& value,
                 const ServedModel& model,
                 std::vector<std::vector<TokenId>>* out) {
  if (value.is_string()) {
    out->push_back(model.tokenizer->encode(value.get_ref<const std::string&>(), true));
    return true;
  }
  if (!is_id_list(value)) return false;
  out->push_back(value.get<std::vector<TokenId>>());
  return true;
}

void read_prompts(JsonFields& fields,
                  const ServedModel& model,
                  std::vector<std::vector<TokenId>>* out) {
  const Json* value = fields.find("prompt");
  if (fields.has_failed()) return;
  constexpr std::string_view kWanted =
      "prompt must be a string, a list of strings, a list of token ids or a list of such lists";
  if (value == nullptr) return fields.fail("prompt", std::string(kWanted));
  if (read_prompt(*value, model, out)) return;
  if (!value->is_array() || value->empty()) return fields.fail("prompt", std::string(kWanted));
  if (value->size() > kMaxPrompts) {
    return fields.fail(
        "prompt",
        fmt::format(
            "prompt holds {} prompts, at most {} are accepted", value->size(), kMaxPrompts));
  }
  for (const Json& item : *value) {
    if (!read_prompt(item, model, out)) return fields.fail("prompt", std::string(kWanted));
  }
}

// Legacy logprobs: a number of alternatives, or true for none.
void read_legacy_logprobs(JsonFields& fields, GenerationRequest* out) {
  const Json* value = fields.find("logprobs");
  if (value == nullptr || *value == false) return;
  out->want_logprobs = true;
  if (!value->is_boolean()) fields.read("logprobs", &out->top_logprobs, 0, kMaxLegacyLogprobs);
}

}  // namespace

PrepareResult prepare_completions(std::string_view body,
                                  const ModelList& models,
                                  int64_t now_unix,
                                  std::string_view /*key_domain*/) {
  const auto begin = std::chrono::steady_clock::now();
  auto parsed = parse_body(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  const Json& object = std::get<Json>(parsed);
  JsonFields fields(object, "");
  ApiError not_found;
  const auto model = pick_model(fields, models, &not_found);
  if (fields.has_failed()) return fields.error();
  if (!model) return not_found;

  PreparedRequest request;
  CommonSettings settings;
  std::vector<std::vector<TokenId>> prompts;
  settings.min_max_tokens = 0;
  read_common(fields, *model, &settings);
  read_legacy_logprobs(fields, &settings.generation);
  fields.read("echo", &request.echo);
  fields.require_neutral(
      "suffix", {Json("")}, "this version cannot fill in before a suffix; leave it out");
  uint32_t best_of = settings.n;
  fields.read("best_of", &best_of, 1, settings.n);  // more candidates than choices are not made
  read_prompts(fields, *model, &prompts);
  fields.refuse_unknown();
  if (fields.has_failed()) return fields.error();

  request.dialect = Dialect::kCompletions;
  request.model = model;
  request.id = "cmpl-" + random_hex_128();
  request.created_unix = now_unix;
  request.stop = std::move(settings.stop);
  request.cache_salt = std::move(settings.cache_salt);
  request.stream = settings.stream;
  request.include_usage = settings.include_usage;
  request.prompt_ids_hash = prompt_ids_hash(prompts.front());
  settings.generation.prompt_logprobs = request.echo && settings.generation.want_logprobs;
  if (!settings.generation.max_tokens)
    settings.generation.max_tokens = 16;  // this endpoint's own default
  for (std::vector<TokenId>& prompt : prompts) {
    if (request.echo) request.echo_texts.push_back(model->tokenizer->decode(prompt, true));
    if (auto error = add_choices(settings, *model, std::move(prompt), "prompt", &request))
      return std::move(*error);
  }
  request.choices_per_prompt = settings.n;
  request.prepare_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return request;
}

}  // namespace cairn
