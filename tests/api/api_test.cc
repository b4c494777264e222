// Requests and replies of both dialects, over the demo model's tokenizer and template; no engine.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "api/api_error.h"
#include "api/plain_routes.h"
#include "api/prepared_request.h"
#include "api/reply.h"
#include "base/file_system.h"
#include "base/json.h"
#include "support/test_size.h"
#include "text/utf8.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kNow = 1'721'997'296;
constexpr TokenId kEnd = 4091;
const std::string kDemo = std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo";

std::shared_ptr<ServedModel> make_model(const std::string& name) {
  auto model = std::make_shared<ServedModel>();
  model->name = name;
  model->tokenizer = Tokenizer::load(kDemo).value();
  model->chat = std::make_shared<const ChatFormat>(ChatFormat::load(kDemo).value());
  model->vocab_size = 4096;
  model->context_tokens = 512;
  model->stop_ids = {kEnd, 4089};
  model->defaults.temperature = 0;
  model->created_unix = 17;
  return model;
}

const ModelList& models() {
  static const ModelList kModels = {make_model("demo")};
  return kModels;
}

const Tokenizer& tokenizer() {
  return *models().front()->tokenizer;
}

Json parsed(std::string_view text) {
  auto json = parse_json(text, "test");
  EXPECT_TRUE(json.is_ok()) << json.status().to_string() << "\n" << text;
  return json.is_ok() ? *json : Json();
}

const std::string kHello = R"("messages":[{"role":"user","content":"Cool, thanks."}])";

PrepareResult chat(const std::string& more) {
  return prepare_chat("{" + kHello + (more.empty() ? "" : "," + more) + "}", models(), kNow);
}

PrepareResult completions(const std::string& fields) {
  return prepare_completions("{" + fields + "}", models(), kNow);
}

PreparedRequest accepted(PrepareResult result) {
  if (auto* error = std::get_if<ApiError>(&result)) {
    ADD_FAILURE() << error->message;
    std::abort();
  }
  return std::move(std::get<PreparedRequest>(result));
}

ApiError refused(PrepareResult result) {
  if (auto* error = std::get_if<ApiError>(&result)) return std::move(*error);
  ADD_FAILURE() << "was accepted";
  return {};
}

// --- requests

TEST(PrepareChat, RendersTheGoldenPrompts) {
  const std::string text =
      read_text_file(posix_file_system(), kDemo + "/demo_goldens.json", 64 << 20).value();
  size_t n_cases = 0;
  const Json goldens = parsed(text);
  const auto roomy = make_model("roomy");
  roomy->context_tokens = 8192;
  for (const Json& golden : goldens["conversations"]) {
    Json body{{"messages", golden["messages"]}};
    if (!golden["tools"].is_null()) body["tools"] = golden["tools"];
    const auto request = accepted(prepare_chat(dump_json(body), {roomy}, kNow));
    ASSERT_EQ(request.choices.size(), 1U);
    EXPECT_EQ(request.choices[0].prompt, golden["prompt_ids"].get<std::vector<TokenId>>());
    ++n_cases;
  }
  EXPECT_GE(n_cases, 5U);
}

TEST(PrepareChat, TakesDefaultsFromTheModel) {
  const auto request = accepted(chat(""));
  EXPECT_EQ(request.dialect, Dialect::kChat);
  EXPECT_TRUE(request.id.starts_with("chatcmpl-"));
  EXPECT_EQ(request.created_unix, kNow);
  EXPECT_EQ(request.prompt_ids_hash.size(), 64U);
  EXPECT_FALSE(request.stream);
  const GenerationRequest& choice = request.choices.at(0);
  EXPECT_EQ(choice.sampling.temperature, 0.0F);
  EXPECT_EQ(choice.stop_ids, (std::vector<TokenId>{kEnd, 4089}));
  EXPECT_FALSE(choice.max_tokens.has_value());
  EXPECT_FALSE(choice.want_logprobs);
  ASSERT_TRUE(choice.sampling.seed.has_value());
  EXPECT_LT(*choice.sampling.seed, uint64_t{1} << 53);
}

TEST(PrepareChat, ReadsEveryField) {
  const auto request = accepted(chat(
      R"("model":"demo","n":3,"stream":true,"stream_options":{"include_usage":true},
      "max_tokens":5,"max_completion_tokens":7.0,"temperature":0.5,"top_p":0.25,"top_k":40,"min_p":0.125,
      "xtc_probability":0.5,"xtc_threshold":0.25,"repetition_penalty":1.5,"repetition_window":64,
      "presence_penalty":-1,"frequency_penalty":2,"penalty_window":32,"seed":18446744073709551615,
      "logit_bias":{"7":-100,"4095":1.5},"stop":["a","bc"],"logprobs":true,"top_logprobs":20,
      "chat_template_kwargs":{"x":1},"add_generation_prompt":true,"ignore_eos":true,
      "cairn":{"no_store":true,"restore":"never","anchors":false,"proposals":"none","priority":0},
      "user":"u","metadata":{},"store":false,"service_tier":"auto","parallel_tool_calls":true,
      "response_format":{"type":"text"},"modalities":["text"],"tool_choice":"auto","tools":[],
      "frequency":null)"));
  EXPECT_TRUE(request.stream && request.include_usage);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "bc"}));
  ASSERT_EQ(request.choices.size(), 3U);
  EXPECT_EQ(request.choices_per_prompt, 3U);
  for (uint32_t i = 0; i < 3; ++i) {
    const GenerationRequest& choice = request.choices[i];
    const SamplingParams& s = choice.sampling;
    EXPECT_EQ(choice.choice, i);
    EXPECT_EQ(choice.max_tokens, 7U);
    EXPECT_EQ(std::tuple(s.temperature, s.top_p, s.top_k, s.min_p),
              std::tuple(0.5F, 0.25F, 40U, 0.125F));
    EXPECT_EQ(std::tuple(s.xtc_probability, s.xtc_threshold), std::tuple(0.5F, 0.25F));
    EXPECT_EQ(std::tuple(s.repetition_penalty, s.repetition_window), std::tuple(1.5F, 64U));
    EXPECT_EQ(std::tuple(s.presence_penalty, s.frequency_penalty, s.penalty_window),
              std::tuple(-1.0F, 2.0F, 32U));
    EXPECT_EQ(s.seed, UINT64_MAX);
    EXPECT_EQ(s.logit_bias, (std::vector<std::pair<TokenId, float>>{{7, -100.0F}, {4095, 1.5F}}));
    EXPECT_TRUE(choice.want_logprobs && choice.ignore_stop_ids && choice.no_store);
    EXPECT_EQ(choice.top_logprobs, 20U);
    EXPECT_EQ(choice.restore, RestoreMode::kNever);
  }
}

TEST(PrepareChat, ChoicesWithoutASeedShareTheOneThatIsReported) {
  const auto request = accepted(chat(R"("n":4,"temperature":1)"));
  for (const auto& choice : request.choices)
    EXPECT_EQ(choice.sampling.seed, request.choices[0].sampling.seed);
  EXPECT_NE(request.choices[0].sampling.seed,
            accepted(chat(R"("temperature":1)")).choices[0].sampling.seed);
}

struct BadField {
  const char* fields;
  const char* param;
  const char* part;  // of the message
};

TEST(PrepareChat, RefusesBadValuesByName) {
  const BadField cases[] = {
      {R"("temperature":-0.5)", "temperature", "-0.5"},
      {R"("temperature":"hot")", "temperature", "\"hot\""},
      {R"("temperature":1e999)", "", ""},
      {R"("top_p":1.5)", "top_p", "from 0.0 to 1.0"},
      {R"("top_k":-1)", "top_k", "-1"},
      {R"("top_k":2.5)", "top_k", "whole number"},
      {R"("min_p":2)", "min_p", "2"},
      {R"("xtc_threshold":-1)", "xtc_threshold", "-1"},
      {R"("repetition_penalty":0)", "repetition_penalty", "0"},
      {R"("presence_penalty":[])", "presence_penalty", "[]"},
      {R"("seed":1.5)", "seed", "1.5"},
      {R"("seed":99999999999999999999999)", "seed", ""},
      {R"("n":0)", "n", "from 1 to 8"},
      {R"("n":9)", "n", "9"},
      {R"("max_tokens":0)", "max_tokens", "0"},
      {R"("max_completion_tokens":-3)", "max_completion_tokens", "-3"},
      {R"("max_tokens":4294967296)", "max_tokens", "4294967296"},
      {R"("stop":"")", "stop", "0 bytes"},
      {R"("stop":[1])", "stop", "not a string"},
      {R"("stop":{})", "stop", "list of strings"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])",
       "stop",
       "17"},
      {R"("stream":"yes")", "stream", "true or false"},
      {R"("stream_options":{"include_usage":true})", "stream_options", "stream"},
      {R"("stream":true,"stream_options":[])", "stream_options", "object"},
      {R"("stream":true,"stream_options":{"include_usage":1})",
       "stream_options.include_usage",
       "true or false"},
      {R"("stream":true,"stream_options":{"x":1})", "stream_options.x", "x"},
      {R"("logit_bias":[])", "logit_bias", "object"},
      {R"("logit_bias":{"4096":1})", "logit_bias", "4096"},
      {R"("logit_bias":{"1x":1})", "logit_bias", "1x"},
      {R"("logit_bias":{"1":101})", "logit_bias", "101"},
      {R"("logit_bias":{"1":null})", "logit_bias", "null"},
      {R"("logprobs":3)", "logprobs", "3"},
      {R"("top_logprobs":3)", "top_logprobs", "logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", "21"},
      {R"("response_format":{"type":"json_object"})", "response_format", "json_object"},
      {R"("tool_choice":"required")", "tool_choice", "required"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice", "\"f\""},
      {R"("tools":{})", "tools", "list"},
      {R"("tools":[3])", "tools", "object"},
      {R"("reasoning_effort":"low")", "reasoning_effort", "not in this version"},
      {R"("modalities":["audio"])", "modalities", "audio"},
      {R"("chat_template_kwargs":3)", "chat_template_kwargs", "object"},
      {R"("functions":[])", "functions", "functions"},
      {R"("cairn":3)", "cairn", "object"},
      {R"("cairn":{"restore":"maybe"})", "cairn.restore", "maybe"},
      {R"("cairn":{"anchors":"on"})", "cairn.anchors", "anchors"},
      {R"("cairn":{"proposals":["echo"]})", "cairn.proposals", "not in this version"},
      {R"("cairn":{"priority":1})", "cairn.priority", "not in this version"},
      {R"("cairn":{"colour":1})", "cairn.colour", "colour"},
      {R"("model":3)", "model", "3"},
  };
  for (const BadField& bad : cases) {
    SCOPED_TRACE(bad.fields);
    const ApiError error = refused(chat(bad.fields));
    EXPECT_EQ(error.http_status, 400);
    EXPECT_EQ(error.type, "invalid_request_error");
    EXPECT_EQ(error.param, bad.param);
    EXPECT_THAT(error.message, HasSubstr(bad.part));
    EXPECT_LT(error.message.size(), 400U);
  }
}

TEST(PrepareChat, ReadsWhatMayBeKeptAndWhoMayFindIt) {
  const PreparedRequest plain = accepted(chat(""));
  EXPECT_EQ(plain.cache_salt, "");
  EXPECT_EQ(plain.choices[0].conversation, "");
  EXPECT_FALSE(plain.choices[0].memory_only);
  const PreparedRequest request = accepted(chat(
      R"("cache_salt":"tenant 1","prompt_cache_key":"c","prompt_cache_retention":"in_memory")"));
  EXPECT_EQ(request.cache_salt, "tenant 1");
  EXPECT_EQ(request.choices[0].conversation, "c");
  EXPECT_TRUE(request.choices[0].memory_only);
  EXPECT_TRUE(accepted(chat(R"("prompt_cache_retention":"in-memory")")).choices[0].memory_only);
  EXPECT_FALSE(accepted(chat(R"("prompt_cache_retention":"24h")")).choices[0].memory_only);
  EXPECT_TRUE(accepted(chat(R"("cairn":{"no_store":true})")).choices[0].no_store);
  EXPECT_EQ(accepted(completions(R"("prompt":"a","cache_salt":"s")")).cache_salt, "s");
  const std::string long_text(257, 'x');
  for (const char* name : {"cache_salt", "prompt_cache_key"}) {
    EXPECT_EQ(refused(chat(fmt::format(R"("{}":"")", name))).param, name);
    EXPECT_EQ(refused(chat(fmt::format(R"("{}":"{}")", name, long_text))).param, name);
    EXPECT_EQ(refused(chat(fmt::format(R"("{}":3)", name))).param, name);
  }
  const ApiError retention = refused(chat(R"("prompt_cache_retention":"1h")"));
  EXPECT_EQ(retention.http_status, 400);
  EXPECT_THAT(retention.message, AllOf(HasSubstr("in_memory"), HasSubstr("24h")));
}

TEST(PrepareChat, RefusesBadMessages) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "list of 1 to"},
      {R"({"messages":[]})", "list of 1 to"},
      {R"({"messages":"hi"})", "list of 1 to"},
      {R"({"messages":[3]})", "messages[0]"},
      {R"({"messages":[{"content":"x"}]})", "role"},
      {R"({"messages":[{"role":"user","content":"x"},{"role":"wizard","content":"x"}]})",
       "messages[1].role is \"wizard\""},
      {R"({"messages":[{"role":"user"}]})", "content is missing"},
      {R"({"messages":[{"role":"user","content":3}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
       "image_url"},
      {R"({"messages":[{"role":"user","content":["x"]}]})", "text parts only"},
      {R"({"messages":[{"role":"assistant","tool_calls":3}]})", "tool_calls"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{}]}]})", "function name"},
  };
  for (const auto& [body, part] : cases) {
    SCOPED_TRACE(body);
    const ApiError error = refused(prepare_chat(body, models(), kNow));
    EXPECT_EQ(error.http_status, 400);
    EXPECT_EQ(error.param, "messages");
    EXPECT_THAT(error.message, HasSubstr(part));
  }
}

TEST(PrepareChat, PartsDeveloperAndToolCallsReachTheTemplate) {
  const auto ids = [](const std::string& messages) {
    return accepted(prepare_chat(R"({"messages":)" + messages + "}", models(), kNow))
        .choices[0]
        .prompt;
  };
  EXPECT_EQ(ids(R"([{"role":"developer","content":[{"type":"text","text":"Be "},
                   {"type":"text","text":"kind."}]},{"role":"user","content":"Hi"}])"),
            ids(R"([{"role":"system","content":"Be kind."},{"role":"user","content":"Hi"}])"));
  const auto calls = [&](const std::string& arguments) {
    return ids(R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"",
      "tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":)" +
               arguments + R"(}}]},{"role":"tool","tool_call_id":"1","content":"3"}])");
  };
  EXPECT_EQ(calls(R"("{\"a\": 1}")"), calls(R"({"a": 1})"));
  EXPECT_NE(calls(R"("{\"a\": 1}")"), calls(R"({"a": 2})"));
}

TEST(PrepareChat, RefusesBodiesThatAreNoObject) {
  const char* const cases[] = {"", "{", "[]", "3", "\"x\"", "{\"messages\":[}", "{}x"};
  for (const std::string body : cases) {
    SCOPED_TRACE(body);
    EXPECT_EQ(refused(prepare_chat(body, models(), kNow)).http_status, 400);
    EXPECT_EQ(refused(prepare_completions(body, models(), kNow)).http_status, 400);
    EXPECT_TRUE(std::holds_alternative<ApiError>(tokenize_body(body, models())));
    EXPECT_TRUE(std::holds_alternative<ApiError>(detokenize_body(body, models())));
  }
  EXPECT_EQ(refused(prepare_chat(std::string(100'000, '['), models(), kNow)).http_status, 400);
  std::string many = "{\"prompt\":\"x\"";
  for (int i = 0; i < 2000; ++i) many += ",\"k" + std::to_string(i) + "\":null";
  EXPECT_THAT(refused(prepare_completions(many + "}", models(), kNow)).message,
              HasSubstr("at most 1000"));
}

TEST(PrepareChat, PicksTheModel) {
  const ModelList two = {make_model("a"), make_model("b")};
  const auto body = [](const std::string& model) { return "{" + kHello + model + "}"; };
  EXPECT_EQ(accepted(prepare_chat(body(R"(,"model":"b")"), two, kNow)).model->name, "b");
  const ApiError absent = refused(prepare_chat(body(""), two, kNow));
  EXPECT_EQ(absent.http_status, 404);
  const ApiError unknown = refused(prepare_chat(body(R"(,"model":"c")"), two, kNow));
  EXPECT_EQ(unknown.http_status, 404);
  EXPECT_EQ(unknown.code, "model_not_found");
  EXPECT_THAT(unknown.message, HasSubstr("served: a, b"));
  auto mute = make_model("mute");
  mute->chat = nullptr;
  EXPECT_THAT(refused(prepare_chat(body(""), {mute}, kNow)).message, HasSubstr("--template"));
}

TEST(PrepareChat, AnOverlongPromptNamesBothNumbers) {
  std::string text;
  for (int i = 0; i < 600; ++i) text += "word ";
  const ApiError error = refused(
      prepare_chat(R"({"messages":[{"role":"user","content":")" + text + "\"}]}", models(), kNow));
  EXPECT_EQ(error.http_status, 400);
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_THAT(error.message, HasSubstr("512"));
  const size_t n_tokens =
      std::stoul(error.message.substr(error.message.find_first_of("0123456789")));
  EXPECT_GT(n_tokens, 512U);
}

TEST(PrepareCompletions, ReadsPromptsInAllFourShapes) {
  const auto prompts = [](const std::string& prompt) {
    std::vector<std::vector<TokenId>> out;
    for (auto& choice : accepted(completions("\"prompt\":" + prompt)).choices)
      out.push_back(choice.prompt);
    return out;
  };
  const auto ids = tokenizer().encode("Hello there", true);
  EXPECT_THAT(prompts("\"Hello there\""), ::testing::ElementsAre(ids));
  EXPECT_THAT(prompts("[\"Hello there\",\"Hello there\"]"), ::testing::ElementsAre(ids, ids));
  using Ids = std::vector<TokenId>;
  EXPECT_THAT(prompts("[1,2,4095]"), ::testing::ElementsAre(Ids{1, 2, 4095}));
  EXPECT_THAT(prompts("[[1],[2,3]]"), ::testing::ElementsAre(Ids{1}, Ids{2, 3}));
}

TEST(PrepareCompletions, RefusesBadPromptsAndFields) {
  const BadField cases[] = {
      {R"("n":1)", "prompt", "must be a string"},
      {R"("prompt":3)", "prompt", "must be a string"},
      {R"("prompt":[])", "prompt", "must be a string"},
      {R"("prompt":[[]])", "prompt", "must be a string"},
      {R"("prompt":[1,"a"])", "prompt", "must be a string"},
      {R"("prompt":[-1])", "prompt", "must be a string"},
      {R"("prompt":[1.5])", "prompt", "must be a string"},
      {R"("prompt":[4294967296])", "prompt", "must be a string"},
      {R"("prompt":[4096])", "prompt", "4096"},
      {R"("prompt":"")", "prompt", "no tokens"},
      {R"("prompt":"x","suffix":"y")", "suffix", "suffix"},
      {R"("prompt":"x","logprobs":21)", "logprobs", "21"},
      {R"("prompt":"x","logprobs":"2")", "logprobs", "\"2\""},
      {R"("prompt":"x","best_of":2)", "best_of", "2"},
      {R"("prompt":"x","echo":1)", "echo", "true or false"},
      {R"("prompt":"x","messages":[])", "messages", "messages"},
  };
  for (const BadField& bad : cases) {
    SCOPED_TRACE(bad.fields);
    const ApiError error = refused(completions(bad.fields));
    EXPECT_EQ(error.http_status, 400);
    EXPECT_EQ(error.param, bad.param);
    EXPECT_THAT(error.message, HasSubstr(bad.part));
  }
  std::string many = "\"prompt\":[";
  for (int i = 0; i < 65; ++i) many += i == 0 ? "\"a\"" : ",\"a\"";
  EXPECT_THAT(refused(completions(many + "]")).message, HasSubstr("65"));
}

TEST(PrepareCompletions, EchoLogprobsAndDefaults) {
  const auto plain = accepted(completions(R"("prompt":"x")"));
  EXPECT_EQ(plain.choices[0].max_tokens, 16U);
  EXPECT_TRUE(plain.id.starts_with("cmpl-"));
  EXPECT_FALSE(plain.choices[0].want_logprobs);
  const auto request = accepted(completions(
      R"("prompt":["one","two"],"n":2,"best_of":2,"echo":true,"logprobs":0,"max_tokens":0)"));
  EXPECT_EQ(request.choices.size(), 4U);
  EXPECT_EQ(request.choices_per_prompt, 2U);
  EXPECT_EQ(request.echo_texts, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(request.choices[3].max_tokens, 0U);
  EXPECT_EQ(request.choices[3].choice, 1U);
  EXPECT_TRUE(request.choices[3].want_logprobs && request.choices[3].prompt_logprobs);
  EXPECT_FALSE(accepted(completions(R"("prompt":"x","logprobs":false)")).choices[0].want_logprobs);
  EXPECT_EQ(accepted(completions(R"("prompt":"x","logprobs":5)")).choices[0].top_logprobs, 5U);
  // A prompt that fills the context can be scored but not continued.
  std::string full = "\"prompt\":[1";
  for (int i = 1; i < 512; ++i) full += ",1";
  EXPECT_EQ(accepted(completions(full + "],\"max_tokens\":0")).choices.size(), 1U);
  EXPECT_EQ(refused(completions(full + "]")).code, "context_length_exceeded");
}

// --- stop strings

// What a client should see, whatever the tokens were: up to the stop string that is complete first.
std::string cut_at_stop(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t begin = std::string::npos;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop))
        begin = std::min(begin, end - stop.size());
    }
    if (begin != std::string::npos) return text.substr(0, begin);
  }
  return text;
}

TEST(TextStream, RandomCutsEqualTheWholeText) {
  std::mt19937 random(20261130);
  const auto pick = [&random](size_t n) { return random() % n; };
  const std::vector<std::string> alphabet = {"a", "b", "c", " ", "\xC3\xA9", "\xE2\x82\xAC", "ab"};
  const size_t n_cases = ::cairn::testing::scaled(3000);
  size_t n_stopped = 0;
  for (size_t i = 0; i < n_cases; ++i) {
    std::vector<std::string> characters(pick(24));
    std::string text;
    for (auto& character : characters) text += character = alphabet[pick(alphabet.size())];
    std::vector<std::string> stops(pick(4));
    for (auto& stop : stops) {
      for (size_t n = pick(4) + 1; n > 0; --n) stop += alphabet[pick(alphabet.size())];
    }
    TextStream stream(models().front()->tokenizer, stops);
    std::string told;
    const auto take = [&](TokenId id) {
      const std::string piece = stream.append(id);
      EXPECT_TRUE(utf8::is_valid(piece));
      told += piece;
    };
    for (size_t at = 0; at < characters.size();) {
      std::string piece = characters[at++];
      if (pick(2) == 0) {  // byte by byte, through the middle of characters
        for (const char byte : piece) take(*tokenizer().find_token(std::string(1, byte)));
        continue;
      }
      for (size_t n = pick(4); n > 0 && at < characters.size(); --n) piece += characters[at++];
      for (const TokenId id : tokenizer().encode(piece, false)) take(id);
    }
    told += stream.finish();
    ASSERT_EQ(told, cut_at_stop(text, stops)) << "case " << i << ": " << text;
    n_stopped += stream.is_stopped() ? 1 : 0;
  }
  EXPECT_GT(n_stopped, n_cases / 10);
}

TEST(TextStream, HoldsBackOnlyWhatMayBecomeAStop) {
  const auto id = [](const char* text) { return *tokenizer().find_token(text); };
  TextStream stream(models().front()->tokenizer, {"abc", "bcd"});
  EXPECT_EQ(stream.append(id("x")), "x");
  EXPECT_EQ(stream.append(id("a")), "");
  EXPECT_EQ(stream.append(id("b")), "");
  EXPECT_EQ(stream.append(id("x")), "abx");
  EXPECT_EQ(stream.append(id("b")), "");
  EXPECT_EQ(stream.append(id("c")), "");
  EXPECT_FALSE(stream.is_stopped());
  EXPECT_EQ(stream.append(id("d")), "");
  EXPECT_TRUE(stream.is_stopped());
  EXPECT_EQ(stream.append(id("x")), "");
  EXPECT_EQ(stream.finish(), "");
}

// --- replies

GeneratedToken token(TokenId id, float logprob = -0.5F) {
  GeneratedToken out;
  out.id = id;
  out.logprob = logprob;
  out.is_stop = id == kEnd;
  return out;
}

std::vector<GeneratedToken> tokens_of(const std::string& text) {
  std::vector<GeneratedToken> out;
  for (const TokenId id : tokenizer().encode(text, false)) out.push_back(token(id));
  return out;
}

RequestUsage some_usage() {
  RequestUsage usage;
  usage.prompt_tokens = 15;
  usage.computed_tokens = 5;
  usage.reuse.device_tokens = 8;
  usage.reuse.disk_tokens = 2;
  usage.prefill_ms = 0.1;
  usage.seed = 99;
  return usage;
}

// The events of a stream, each a complete block of one data line.
std::vector<std::string> events_of(std::string_view stream) {
  std::vector<std::string> events;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    EXPECT_TRUE(stream.starts_with("data: ") && end != std::string_view::npos) << stream;
    if (end == std::string_view::npos) break;
    events.emplace_back(stream.substr(6, end - 6));
    EXPECT_EQ(events.back().find('\n'), std::string::npos);
    stream.remove_prefix(end + 2);
  }
  return events;
}

// Plays one choice from start to end; what was streamed comes back.
std::string play(Reply& reply,
                 size_t choice,
                 const std::vector<GeneratedToken>& tokens,
                 FinishReason reason = FinishReason::kStop) {
  std::string out = reply.on_started(choice, some_usage());
  for (const GeneratedToken& t : tokens) out += reply.on_token(choice, t);
  return out + reply.on_finished(choice, reason, some_usage());
}

TEST(Reply, ChatBodyHasOpenAiShape) {
  Reply reply(accepted(chat("")));
  auto tokens = tokens_of("You are welcome!");
  tokens.push_back(token(kEnd));
  EXPECT_EQ(play(reply, 0, tokens), "");
  ASSERT_TRUE(reply.is_complete());
  const std::string text = reply.body();
  const Json body = parsed(text);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "demo");
  EXPECT_EQ(body["created"], kNow);
  const Json& choice = body["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "You are welcome!");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["logprobs"].is_null());
  const Json& usage = body["usage"];
  EXPECT_EQ(usage["prompt_tokens"], 15);
  EXPECT_EQ(usage["completion_tokens"], tokens.size());
  EXPECT_EQ(usage["total_tokens"], 15 + tokens.size());
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 10);
  const Json& cairn = usage["cairn"];
  EXPECT_EQ(cairn["tokens"], parsed(R"({"device":8,"host":0,"disk":2,"remote":0,"computed":5})"));
  EXPECT_EQ(cairn["anchored_tokens"], 0);
  EXPECT_EQ(cairn["prompt_ids_hash"].get<std::string>().size(), 64U);
  for (const char* name : {"queue", "prepare", "restore", "prefill", "decode"})
    EXPECT_TRUE(cairn["ms"][name].is_number()) << name;
  for (const char* name : {"reason", "message", "token"})
    EXPECT_TRUE(cairn["miss"].contains(name)) << name;
  EXPECT_EQ(cairn["proposals"], Json::object());
  EXPECT_EQ(cairn["seed"], 99);
  EXPECT_THAT(text, HasSubstr("\"prefill\":0.1,"));  // the shortest float32
}

TEST(Reply, ChatStreamTellsTheSameAsTheBody) {
  Reply reply(accepted(chat(R"("stream":true,"stream_options":{"include_usage":true})")));
  auto tokens = tokens_of("You are welcome \xE2\x82\xAC \xF0\x9F\x98\x80!");
  std::string stream = play(reply, 0, tokens, FinishReason::kLength);
  stream += reply.stream_end();
  const auto events = events_of(stream);
  ASSERT_GE(events.size(), 5U);
  std::string content;
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    const Json event = parsed(events[i]);
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_TRUE(event["usage"].is_null());
    const Json& choice = event["choices"][0];
    EXPECT_EQ(choice["delta"].contains("role"), i == 0);
    if (choice["delta"].contains("content"))
      content += choice["delta"]["content"].get<std::string>();
    EXPECT_EQ(choice["finish_reason"].is_null(), i + 3 < events.size());
  }
  EXPECT_EQ(content, "You are welcome \xE2\x82\xAC \xF0\x9F\x98\x80!");
  EXPECT_EQ(parsed(events[events.size() - 3])["choices"][0]["finish_reason"], "length");
  const Json last = parsed(events[events.size() - 2]);
  EXPECT_EQ(last["choices"], Json::array());
  EXPECT_EQ(last["usage"]["completion_tokens"], tokens.size());
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(Reply, AStopStringCutsTextAndCount) {
  for (const size_t n_late : {0U, 1U, 5U}) {
    Reply reply(accepted(chat(R"("stop":["welcome"])")));
    const auto tokens = tokens_of("You are welcome! Bye.");
    reply.on_started(0, some_usage());
    size_t n_used = 0;
    while (!reply.wants_cancel(0)) {
      ASSERT_LT(n_used, tokens.size());
      reply.on_token(0, tokens[n_used++]);
    }
    for (size_t i = 0; i < n_late && n_used + i < tokens.size(); ++i)
      reply.on_token(0, tokens[n_used + i]);  // was under way when the stop string was found
    reply.on_finished(0, FinishReason::kCancelled, some_usage());
    EXPECT_FALSE(reply.wants_cancel(0));
    const Json body = parsed(reply.body());
    EXPECT_EQ(body["choices"][0]["message"]["content"], "You are ");
    EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(body["usage"]["completion_tokens"], n_used);
  }
}

TEST(Reply, AHeldBackEndComesWithTheFinish) {
  Reply reply(accepted(chat(R"("stream":true,"stop":["!?"])")));
  const auto events = events_of(play(reply, 0, tokens_of("Yes!")));
  EXPECT_EQ(parsed(events.back())["choices"][0]["delta"]["content"], "!");
  EXPECT_EQ(parsed(events.back())["choices"][0]["finish_reason"], "stop");
}

TEST(Reply, ChoicesOfSeveralPromptsAreCountedOnce) {
  Reply reply(accepted(completions(R"("prompt":["one","two"],"n":2,"echo":true)")));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(reply.is_complete());
    play(reply, 3 - i, tokens_of(" ok"));
  }
  const Json body = parsed(reply.body());
  EXPECT_EQ(body["object"], "text_completion");
  ASSERT_EQ(body["choices"].size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], i < 2 ? "one ok" : "two ok");
  }
  EXPECT_EQ(body["usage"]["prompt_tokens"], 30);
  EXPECT_EQ(body["usage"]["completion_tokens"], 4 * tokens_of(" ok").size());
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 20);
}

TEST(Reply, ChatLogprobsHaveExactBytes) {
  Reply reply(accepted(chat(R"("logprobs":true,"top_logprobs":2)")));
  const TokenId front = *tokenizer().find_token("\xE2");
  std::vector<GeneratedToken> tokens = {token(*tokenizer().find_token("a"), -0.1F),
                                        token(front, -2)};
  tokens[0].top = {{tokens[0].id, -0.1F}, {front, -2.5F}};
  tokens.push_back(token(kEnd));
  play(reply, 0, tokens);
  const std::string text = reply.body();
  const Json logprobs = parsed(text)["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["content"].size(), 2U);  // the end token is no text
  EXPECT_EQ(dump_json(logprobs["content"][0]),
            "{\"token\":\"a\",\"logprob\":-0.1,\"bytes\":[97],\"top_logprobs\":["
            "{\"token\":\"a\",\"logprob\":-0.1,\"bytes\":[97]},"
            "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-2.5,\"bytes\":[226]}]}");
  EXPECT_EQ(logprobs["content"][1]["bytes"], Json::array({226}));
  EXPECT_EQ(parsed(text)["choices"][0]["message"]["content"], "a\xEF\xBF\xBD");
}

TEST(Reply, LegacyLogprobsCountCodePoints) {
  Reply reply(accepted(completions(R"("prompt":"h\u00e9","echo":true,"logprobs":1)")));
  const auto byte = [](const char* text) { return *tokenizer().find_token(text); };
  reply.on_started(0, some_usage());
  std::vector<GeneratedToken> prompt = {
      token(byte("h"), 0), token(byte("\xC3"), -1), token(byte("\xA9"), -2)};
  prompt[1].top = {{byte("\xC2"), -0.25F}};
  reply.on_prompt_logprobs(0, prompt);
  reply.on_token(0, token(byte("\xE2")));
  reply.on_token(0, token(byte("\x82")));
  reply.on_token(0, token(byte("\xAC")));
  reply.on_token(0, token(byte("!")));
  reply.on_finished(0, FinishReason::kLength, some_usage());
  const Json choice = parsed(reply.body())["choices"][0];
  EXPECT_EQ(choice["text"], "h\xC3\xA9\xE2\x82\xAC!");
  const Json& logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["text_offset"], parsed("[0,1,1,2,2,2,3]"));
  EXPECT_EQ(dump_json(logprobs["token_logprobs"]), "[null,-1.0,-2.0,-0.5,-0.5,-0.5,-0.5]");
  EXPECT_EQ(logprobs["tokens"][1], "bytes:\\xc3");
  EXPECT_EQ(logprobs["tokens"][6], "!");
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  EXPECT_EQ(dump_json(logprobs["top_logprobs"][1]), R"({"bytes:\\xc2":-0.25,"bytes:\\xc3":-1.0})");
  EXPECT_EQ(dump_json(logprobs["top_logprobs"][6]), R"({"!":-0.5})");
}

TEST(Reply, StreamedLogprobsJoinToTheWholeOnes) {
  Reply reply(accepted(
      completions(R"("prompt":"one","echo":true,"stream":true,"logprobs":0,"stop":["zz"])")));
  std::string stream = reply.on_started(0, some_usage());
  stream += reply.on_prompt_logprobs(0, tokens_of("one"));
  const auto tokens = tokens_of(" ok z then");
  for (const auto& t : tokens) stream += reply.on_token(0, t);
  stream += reply.on_finished(0, FinishReason::kLength, some_usage());
  stream += reply.stream_end();
  std::string text;
  size_t n_logged = 0;
  for (const std::string& event : events_of(stream)) {
    if (event == "[DONE]") continue;
    const Json choice = parsed(event)["choices"][0];
    text += choice["text"].get<std::string>();
    if (!choice["logprobs"].is_null()) n_logged += choice["logprobs"]["tokens"].size();
  }
  EXPECT_EQ(text, "one ok z then");
  EXPECT_EQ(n_logged, tokens.size() + tokens_of("one").size());
}

// --- the rest

TEST(ApiError, StatusCodesAndShape) {
  EXPECT_EQ(api_error(Status::invalid_argument("m"), "p").to_json(),
            R"({"error":{"message":"m","type":"invalid_request_error","param":"p","code":null}})");
  EXPECT_EQ(api_error(Status::unsupported("m")).http_status, 400);
  EXPECT_EQ(api_error(Status::not_found("m")).http_status, 404);
  EXPECT_EQ(api_error(Status::overloaded("m")).http_status, 429);
  EXPECT_EQ(api_error(Status::cancelled("m")).http_status, 499);
  EXPECT_EQ(api_error(Status::internal("m")).http_status, 500);
  EXPECT_EQ(api_error(Status::io("m")).http_status, 500);
}

TEST(PlainRoutes, TokenizeAndBack) {
  const std::string text = "Hello \xE2\x82\xAC <|im_start|>";
  const auto result = tokenize_body(dump_json(Json{{"content", text}}), models());
  const Json tokens = parsed(std::get<std::string>(result));
  EXPECT_EQ(tokens["tokens"].get<std::vector<TokenId>>(), tokenizer().encode(text, false));
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  const auto back = detokenize_body(dump_json(Json{{"tokens", tokens["tokens"]}}), models());
  EXPECT_EQ(parsed(std::get<std::string>(back))["text"], text);
  for (const char* body : {R"({"text":3})", R"({})", R"({"text":"x","colour":1})"})
    EXPECT_EQ(std::get<ApiError>(tokenize_body(body, models())).http_status, 400) << body;
  for (const char* body :
       {R"({"tokens":3})", R"({})", R"({"tokens":[4096]})", R"({"tokens":[-1]})"})
    EXPECT_EQ(std::get<ApiError>(detokenize_body(body, models())).http_status, 400) << body;
}

TEST(PlainRoutes, Models) {
  const Json list = parsed(models_body(models()));
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "demo");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["created"], 17);
  EXPECT_EQ(parsed(std::get<std::string>(model_body("demo", models()))), list["data"][0]);
  EXPECT_EQ(std::get<ApiError>(model_body("x", models())).code, "model_not_found");
}

}  // namespace
}  // namespace cairn
