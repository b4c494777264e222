#include "api/plain_routes.h"

#include <fmt/format.h>

#include "api/common_fields.h"
#include "api/json_fields.h"
#include "base/json.h"

namespace cairn {
namespace {

Json model_entry(const ServedModel& model) {
  Json entry;
  entry["id"] = model.name;
  entry["object"] = "model";
  entry["created"] = model.created_unix;
  entry["owned_by"] = "cairn";
  entry["context_length"] = model.context_tokens;
  return entry;
}

}  // namespace

BodyOrError tokenize_body(std::string_view body, const ModelList& models) {
  auto parsed = parse_body(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  JsonFields fields(std::get<Json>(parsed), "");
  ApiError not_found;
  const auto model = pick_model(fields, models, &not_found);
  if (!fields.has_failed() && !model) return not_found;
  const Json* text = nullptr;
  for (const char* name : {"text", "content", "prompt"}) {
    const Json* value = fields.find(name);
    if (value != nullptr && text == nullptr) text = value;
  }
  bool add_special = false;
  fields.read("add_special", &add_special);
  fields.read("add_special_tokens", &add_special);
  fields.refuse_unknown();
  if (!fields.has_failed() && (text == nullptr || !text->is_string()))
    fields.fail("text", "text must be a string");
  if (fields.has_failed()) return fields.error();
  const std::vector<TokenId> ids =
      model->tokenizer->encode(text->get_ref<const std::string&>(), add_special);
  return dump_json(
      Json{{"tokens", ids}, {"count", ids.size()}, {"max_model_len", model->context_tokens}});
}

BodyOrError detokenize_body(std::string_view body, const ModelList& models) {
  auto parsed = parse_body(body);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  JsonFields fields(std::get<Json>(parsed), "");
  ApiError not_found;
  const auto model = pick_model(fields, models, &not_found);
  if (!fields.has_failed() && !model) return not_found;
  const Json* tokens = fields.find("tokens");
  fields.refuse_unknown();
  if (!fields.has_failed() && (tokens == nullptr || !tokens->is_array()))
    fields.fail("tokens", "tokens must be a list of ids");
  if (fields.has_failed()) return fields.error();
  std::vector<TokenId> ids;
  for (const Json& token : *tokens) {
    if (!token.is_number_unsigned() || token.get<uint64_t>() >= model->vocab_size) {
      return api_error(
          Status::invalid_argument(fmt::format("tokens[{}] is {:.40}, wanted an id below {}",
                                               ids.size(),
                                               dump_json(token),
                                               model->vocab_size)),
          "tokens");
    }
    ids.push_back(token.get<TokenId>());
  }
  const std::string text = model->tokenizer->decode(ids, false);
  return dump_json(Json{{"text", text}, {"content", text}});
}

std::string models_body(const ModelList& models) {
  Json data = Json::array();
  for (const auto& model : models) data.push_back(model_entry(*model));
  return dump_json(Json{{"object", "list"}, {"data", std::move(data)}});
}

BodyOrError model_body(std::string_view name, const ModelList& models) {
  std::string names;
  for (const auto& model : models) {
    if (model->name == name) return dump_json(model_entry(*model));
    names += (names.empty() ? "" : ", ") + model->name;
  }
  ApiError error = api_error(Status::not_found(fmt::format(
                                 "model \"{:.80}\" is not served here; served: {}", name, names)),
                             "model");
  error.code = "model_not_found";
  return error;
}

}  // namespace cairn
