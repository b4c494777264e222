// What both dialects share: picking the model, sampling, stops, the `cairn` object, the context
// check.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/json_fields.h"
#include "api/prepared_request.h"
#include "base/json_fwd.h"

namespace cairn {

// The body as an object, or why not.
std::variant<Json, ApiError> parse_body(std::string_view body);

// By "model"; with one model an absent name means that one. Null after a fault (404 with the
// names).
std::shared_ptr<const ServedModel> pick_model(JsonFields& fields,
                                              const ModelList& models,
                                              ApiError* not_found);

// One request's shared settings.
struct CommonSettings {
  GenerationRequest generation;  // without a prompt
  std::vector<std::string> stop;
  std::string cache_salt;
  uint32_t n = 1;
  uint32_t min_max_tokens = 1;  // 0 where a prompt may be scored without a reply
  bool stream = false;
  bool include_usage = false;
  bool anchors = true;  // texts that are known keep the ids they have
};

// A text of 1 to 256 bytes that keeps its users' caches apart; `out` stays when it is not given.
void read_cache_salt(JsonFields& fields, std::string* out);

void read_common(JsonFields& fields, const ServedModel& model, CommonSettings* out);

// Appends one GenerationRequest for each of the n choices of `prompt`. Choices share the seed and
// differ in their choice index, which the sampler's random numbers depend on.
std::optional<ApiError> add_choices(const CommonSettings& settings,
                                    const ServedModel& model,
                                    std::vector<TokenId> prompt,
                                    std::string_view param,
                                    PreparedRequest* out);

}  // namespace cairn
