// Any bytes as the body of a request. The first byte chooses the endpoint, the rest is the body: an
// error of the client's with a JSON body, or a request that the engine and the reply may trust.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/plain_routes.h"
#include "api/prepare_forget.h"
#include "api/prepared_request.h"
#include "api/reply.h"
#include "base/check.h"
#include "base/json.h"

namespace {

using namespace cairn;  // NOLINT: a program of one file

constexpr uint32_t kVocab = 4096;
constexpr uint32_t kContext = 256;

ModelList make_models() {
  const std::string dir = std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo";
  auto model = std::make_shared<ServedModel>();
  model->name = "demo";
  model->tokenizer = Tokenizer::load(dir).value();
  model->chat = std::make_shared<const ChatFormat>(ChatFormat::load(dir).value());
  model->vocab_size = kVocab;
  model->context_tokens = kContext;
  model->stop_ids = {4091};
  return {model};
}

void check_json(const std::string& text) {
  CAIRN_CHECK(parse_json(text, "answer").is_ok(), "an answer that is not JSON");
}

void check_error(const ApiError& error) {
  CAIRN_CHECK(error.http_status >= 400 && error.http_status < 500, "not the client's error");
  check_json(error.to_json());
}

// Plays an answer of a few arbitrary tokens.
void check_reply(const PreparedRequest& request) {
  Reply reply(request);
  RequestUsage usage;
  usage.prompt_tokens = request.choices.front().prompt.size();
  for (size_t choice = 0; choice < request.choices.size(); ++choice) {
    reply.on_started(choice, usage);
    if (request.choices[choice].prompt_logprobs)
      reply.on_prompt_logprobs(choice, std::vector<GeneratedToken>(usage.prompt_tokens));
    for (TokenId id = 60; id < 4000 && !reply.wants_cancel(choice); id = id * 3 + 7) {
      GeneratedToken token;
      token.id = id;
      reply.on_token(choice, token);
    }
    reply.on_finished(choice, FinishReason::kLength, usage);
  }
  CAIRN_CHECK(reply.is_complete(), "an answer without an end");
  check_json(reply.body());
}

void check_prepared(const PrepareResult& result) {
  if (const auto* error = std::get_if<ApiError>(&result)) return check_error(*error);
  const auto& request = std::get<PreparedRequest>(result);
  CAIRN_CHECK(!request.choices.empty() && request.choices.size() <= 512, "choices");
  CAIRN_CHECK(request.choices.size() % request.choices_per_prompt == 0, "choices of a prompt");
  for (const GenerationRequest& choice : request.choices) {
    CAIRN_CHECK(!choice.prompt.empty() && choice.prompt.size() <= kContext, "prompt");
    for (const TokenId id : choice.prompt) CAIRN_CHECK(id < kVocab, "token id");
    CAIRN_CHECK(choice.sampling.seed.has_value() && choice.top_logprobs <= 20, "sampling");
  }
  check_reply(request);
}

void check_body(const BodyOrError& result) {
  if (const auto* error = std::get_if<ApiError>(&result)) return check_error(*error);
  check_json(std::get<std::string>(result));
}

void check_forget(const ForgetResult& result) {
  if (const auto* error = std::get_if<ApiError>(&result)) return check_error(*error);
  const ForgetScope& scope = std::get<PreparedForget>(result).request.scope;
  CAIRN_CHECK((scope.what == ForgetScope::What::kPrompt) != scope.prompt.empty(), "prompt");
  for (const TokenId id : scope.prompt) CAIRN_CHECK(id < kVocab, "token id");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ModelList kModels = make_models();
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] >= 128) {
    check_forget(prepare_forget(body, kModels, 1'721'997'296));
    return 0;
  }
  switch (data[0] % 4) {
    case 0:
      check_prepared(prepare_chat(body, kModels, 1'721'997'296));
      break;
    case 1:
      check_prepared(prepare_completions(body, kModels, 1'721'997'296));
      break;
    case 2:
      check_body(tokenize_body(body, kModels));
      break;
    default:
      check_body(detokenize_body(body, kModels));
      break;
  }
  return 0;
}
