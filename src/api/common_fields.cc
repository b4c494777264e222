#include "api/common_fields.h"

#include <fmt/format.h>

#include <charconv>

#include "base/hash.h"
#include "base/json.h"
#include "engine/sampler.h"

namespace cairn {
namespace {

constexpr size_t kMaxStopStrings = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr uint32_t kMaxChoices = 8;
constexpr size_t kMaxLogitBias = 1024;
// Looking a field up searches all of them, so a hostile body must not have millions.
constexpr size_t kMaxBodyFields = 1000;
constexpr size_t kMaxSaltBytes = 256;
constexpr size_t kMaxLabelBytes = 256;

void read_stop(JsonFields& fields, std::vector<std::string>* out) {
  const Json* value = fields.find("stop");
  if (value == nullptr) return;
  if (value->is_string()) {
    out->push_back(value->get<std::string>());
  } else if (value->is_array()) {
    for (const Json& item : *value) {
      if (!item.is_string())
        return fields.fail("stop", "stop holds something that is not a string");
      out->push_back(item.get<std::string>());
    }
  } else {
    return fields.fail("stop", "stop must be a string or a list of strings");
  }
  if (out->size() > kMaxStopStrings) {
    return fields.fail(
        "stop",
        fmt::format(
            "stop holds {} strings, at most {} are accepted", out->size(), kMaxStopStrings));
  }
  for (const std::string& text : *out) {
    if (text.empty() || text.size() > kMaxStopBytes) {
      return fields.fail(
          "stop",
          fmt::format("a stop string has {} bytes, wanted 1 to {}", text.size(), kMaxStopBytes));
    }
  }
}

void read_logit_bias(JsonFields& fields, uint32_t vocab_size, SamplingParams* out) {
  const Json* value = fields.find("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object() || value->size() > kMaxLogitBias) {
    return fields.fail(
        "logit_bias",
        fmt::format("logit_bias must be an object of at most {} token ids", kMaxLogitBias));
  }
  for (const auto& [name, bias] : value->items()) {
    uint32_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc{} || end != name.data() + name.size() || id >= vocab_size) {
      return fields.fail(
          "logit_bias",
          fmt::format(
              "logit_bias names token {:.40}, wanted an id below {}", dump_json(name), vocab_size));
    }
    const double number = bias.is_number() ? bias.get<double>() : 1e9;
    if (number < -100 || number > 100) {
      return fields.fail(
          "logit_bias",
          fmt::format("logit_bias of token {} is {:.40}, wanted a number from -100 to 100",
                      id,
                      dump_json(bias)));
    }
    out->logit_bias.emplace_back(id, static_cast<float>(number));
  }
}

void read_sampling(JsonFields& fields, const ServedModel& model, SamplingParams* out) {
  *out = model.defaults;
  fields.read("temperature", &out->temperature, 0.0F, 100.0F);
  fields.read("top_k", &out->top_k, 0, UINT32_MAX);
  fields.read("top_p", &out->top_p, 0.0F, 1.0F);
  fields.read("min_p", &out->min_p, 0.0F, 1.0F);
  fields.read("xtc_probability", &out->xtc_probability, 0.0F, 1.0F);
  fields.read("xtc_threshold", &out->xtc_threshold, 0.0F, 1.0F);
  fields.read("repetition_penalty", &out->repetition_penalty, 0.01F, 100.0F);
  fields.read("repetition_window", &out->repetition_window, 0, UINT32_MAX);
  fields.read("presence_penalty", &out->presence_penalty, -100.0F, 100.0F);
  fields.read("frequency_penalty", &out->frequency_penalty, -100.0F, 100.0F);
  fields.read("penalty_window", &out->penalty_window, 0, UINT32_MAX);
  fields.read("seed", &out->seed);
  read_logit_bias(fields, model.vocab_size, out);
  if (fields.has_failed()) return;
  // A client's top_p of 0 means "only the best": the smallest set that reaches it.
  if (out->top_p == 0.0F) out->top_k = 1, out->top_p = 1.0F;
  const Status status = validate_sampling(*out, model.vocab_size);
  if (!status.is_ok()) fields.fail("temperature", status.message());
}

void read_stream_options(JsonFields& fields, CommonSettings* out) {
  fields.read("stream", &out->stream);
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object())
    return fields.fail("stream_options", "stream_options must be an object");
  if (!out->stream)
    return fields.fail("stream_options", "stream_options is only for \"stream\": true");
  JsonFields nested(*options, "stream_options.");
  nested.read("include_usage", &out->include_usage);
  nested.ignore({"include_obfuscation"});
  nested.refuse_unknown();
  if (nested.has_failed()) fields.fail(nested.error().param, nested.error().message);
}

// A text of 1 to `n_bytes_max` bytes; `out` stays as it is when the field is not given.
void read_bounded(JsonFields& fields, std::string_view name, size_t n_bytes_max, std::string* out) {
  std::string text;
  fields.read(name, &text);
  if (fields.has_failed() || fields.find(name) == nullptr) return;
  if (text.empty() || text.size() > n_bytes_max) {
    return fields.fail(
        name, fmt::format("{} has {} bytes, wanted 1 to {}", name, text.size(), n_bytes_max));
  }
  *out = std::move(text);
}

// What may be kept of this request, where, and who may find it.
void read_cache_fields(JsonFields& fields, CommonSettings* out) {
  read_cache_salt(fields, &out->cache_salt);
  read_bounded(fields, "prompt_cache_key", kMaxLabelBytes, &out->generation.conversation);
  std::string retention = "24h";
  fields.read("prompt_cache_retention", &retention);
  // OpenAI's own clients have sent both spellings.
  out->generation.memory_only = retention == "in_memory" || retention == "in-memory";
  if (!out->generation.memory_only && retention != "24h") {
    fields.fail(
        "prompt_cache_retention",
        fmt::format("prompt_cache_retention is \"{:.40}\", wanted in_memory or 24h", retention));
  }
}

void read_cairn(JsonFields& fields, CommonSettings* settings) {
  const Json* object = fields.find("cairn");
  if (object == nullptr) return;
  if (!object->is_object()) return fields.fail("cairn", "cairn must be an object");
  constexpr std::string_view kLater = "not in this version; leave it out";
  JsonFields nested(*object, "cairn.");
  GenerationRequest* out = &settings->generation;
  nested.read("no_store", &out->no_store);
  std::string restore = "auto";
  nested.read("restore", &restore);
  if (restore == "always") {
    out->restore = RestoreMode::kAlways;
  } else if (restore == "never") {
    out->restore = RestoreMode::kNever;
  } else if (restore != "auto") {
    nested.fail("restore",
                fmt::format("cairn.restore is \"{:.40}\", wanted auto, always or never", restore));
  }
  nested.read("anchors", &settings->anchors);
  nested.require_neutral("proposals", {Json(false), Json("none"), Json::array()}, kLater);
  nested.require_neutral("priority", {Json(0)}, kLater);
  nested.refuse_unknown();
  if (nested.has_failed()) fields.fail(nested.error().param, nested.error().message);
}

}  // namespace

void read_cache_salt(JsonFields& fields, std::string* out) {
  read_bounded(fields, "cache_salt", kMaxSaltBytes, out);
}

std::variant<Json, ApiError> parse_body(std::string_view body) {
  auto parsed = parse_json(body, "request body");
  if (!parsed.is_ok()) return api_error(parsed.status());
  if (!parsed->is_object())
    return api_error(Status::invalid_argument("request body: wanted a JSON object"));
  if (parsed->size() > kMaxBodyFields) {
    return api_error(Status::invalid_argument(fmt::format(
        "request body: holds {} fields, at most {} are read", parsed->size(), kMaxBodyFields)));
  }
  return std::move(*parsed);
}

std::shared_ptr<const ServedModel> pick_model(JsonFields& fields,
                                              const ModelList& models,
                                              ApiError* not_found) {
  std::string name;
  fields.read("model", &name);
  if (name.empty() && models.size() == 1) return models.front();
  std::string names;
  for (const auto& model : models) {
    if (model->name == name) return model;
    names += (names.empty() ? "" : ", ") + model->name;
  }
  *not_found = api_error(Status::not_found(fmt::format(
                             "model \"{:.80}\" is not served here; served: {}", name, names)),
                         "model");
  not_found->code = "model_not_found";
  return nullptr;
}

void read_common(JsonFields& fields, const ServedModel& model, CommonSettings* out) {
  read_sampling(fields, model, &out->generation.sampling);
  read_stop(fields, &out->stop);
  read_stream_options(fields, out);
  read_cache_fields(fields, out);
  read_cairn(fields, out);
  fields.read("n", &out->n, 1, kMaxChoices);
  fields.read("max_tokens", &out->generation.max_tokens, out->min_max_tokens, UINT32_MAX);
  fields.read("ignore_eos", &out->generation.ignore_stop_ids);
  // These are about the service that the client was written for, not about the answer.
  fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier"});
  // One seed for all choices: the reply reports one, and it must make all of them again. 53 bits,
  // so that it survives a client whose numbers are doubles.
  if (!out->generation.sampling.seed) out->generation.sampling.seed = random_u64() >> 11;
  out->generation.model = model.engine_index;
  out->generation.stop_ids = model.stop_ids;
}

std::optional<ApiError> add_choices(const CommonSettings& settings,
                                    const ServedModel& model,
                                    std::vector<TokenId> prompt,
                                    std::string_view param,
                                    PreparedRequest* out) {
  if (prompt.empty())
    return api_error(Status::invalid_argument("the prompt has no tokens"), std::string(param));
  // One token must fit behind the prompt (none when none is wanted); what max_tokens asks for
  // beyond the context is cut there.
  const size_t n_reply_tokens = settings.generation.max_tokens == 0U ? 0 : 1;
  if (prompt.size() + n_reply_tokens > model.context_tokens) {
    ApiError error = api_error(
        Status::invalid_argument(fmt::format("the prompt has {} tokens, but the context holds {} "
                                             "and the reply needs at least one; shorten "
                                             "the prompt or start the server with a larger --ctx",
                                             prompt.size(),
                                             model.context_tokens)),
        std::string(param));
    error.code = "context_length_exceeded";
    return error;
  }
  for (const TokenId id : prompt) {
    if (id >= model.vocab_size) {
      return api_error(Status::invalid_argument(fmt::format(
                           "token id {} is not below the vocabulary's {}", id, model.vocab_size)),
                       std::string(param));
    }
  }
  for (uint32_t choice = 0; choice < settings.n; ++choice) {
    GenerationRequest request = settings.generation;
    request.prompt = prompt;
    request.choice = choice;
    out->choices.push_back(std::move(request));
  }
  return std::nullopt;
}

}  // namespace cairn
