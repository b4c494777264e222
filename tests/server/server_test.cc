// The server as its clients see it: real sockets, a real engine over the demo model.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/mutex.h"
#include "engine/engine_fixture.h"
#include "server/auth.h"
#include "server/http_client.h"
#include "server/router.h"
#include "support/test_size.h"
#include "text/chat_format.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

ModelList demo_models() {
  const std::string dir = std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo";
  auto model = std::make_shared<ServedModel>();
  model->name = "org/demo:1";
  model->tokenizer = Tokenizer::load(dir).value();
  model->chat = std::make_shared<const ChatFormat>(ChatFormat::load(dir).value());
  model->vocab_size = 4096;
  model->context_tokens = 8192;
  model->stop_ids = {4091, 4089};
  model->defaults.temperature = 0;
  return {model};
}

Json parsed(const std::string& text) {
  auto json = parse_json(text, "answer");
  EXPECT_TRUE(json.is_ok()) << text;
  return json.is_ok() ? *json : Json();
}

EngineSetup demo_setup() {
  EngineSetup setup = default_setup();
  setup.models = {"models/cairn-demo"};
  setup.context_tokens = 8192;
  return setup;
}

// True once `condition` holds; gives up after half a minute.
bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

// A server over `engine`, on a free port, served by a thread of its own.
class TestServer {
 public:
  explicit TestServer(Engine& engine, const ServerOptions& options = {}) {
    ServerOptions chosen = options;
    chosen.port = 0;
    auto server = Server::open(engine, clock_, demo_models(), chosen);
    EXPECT_TRUE(server.is_ok()) << server.status().to_string();
    server_ = std::move(*server);
    thread_ = std::jthread([this] { server_->run(); });
  }

  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  TestServer(TestServer&&) = delete;
  TestServer& operator=(TestServer&&) = delete;

  ~TestServer() { stop(milliseconds(500)); }

  void stop(milliseconds drain) {
    if (!thread_.joinable()) return;
    server_->request_stop(drain);
    thread_.join();
  }

  Server& server() { return *server_; }

  HttpClient client() {
    HttpClient client = HttpClient::tcp(server_->port());
    EXPECT_TRUE(client.is_connected());
    return client;
  }

 private:
  SystemClock clock_;
  std::unique_ptr<Server> server_;
  std::jthread thread_;
};

// One engine with a store for all tests that do not care about its limits.
class ServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    store_ = std::make_unique<TempDir>();
    EngineSetup setup = demo_setup();
    setup.store = store_->path();
    engine_ = std::make_unique<TestEngine>(setup);
  }

  static void TearDownTestSuite() {
    engine_.reset();
    store_.reset();
  }

  static Engine& engine() { return engine_->engine(); }

  static EngineStats stats() { return engine_->stats(); }

  static bool is_idle() {
    const EngineStats now = stats();
    return now.running == 0 && now.waiting == 0;
  }

 private:
  inline static std::unique_ptr<TempDir> store_;
  inline static std::unique_ptr<TestEngine> engine_;
};

const std::string kThanks = R"("messages":[{"role":"user","content":"Cool, thanks."}])";
const std::string kEndless = R"("prompt":"Once","ignore_eos":true,"max_tokens":8000)";

std::vector<std::string> events_of(const std::string& stream) {
  std::vector<std::string> events;
  for (size_t begin = 0; begin < stream.size();) {
    const size_t end = stream.find("\n\n", begin);
    if (end == std::string::npos) {
      ADD_FAILURE() << "a broken event";
      break;
    }
    const std::string event = stream.substr(begin, end - begin);
    begin = end + 2;
    if (event.starts_with(":")) continue;  // a heartbeat
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    events.push_back(event.substr(6));
  }
  if (events.empty()) events.emplace_back();  // so that back() is there to compare
  return events;
}

std::string text_of(const std::vector<std::string>& events) {
  std::string text;
  for (const std::string& event : events) {
    if (event == "[DONE]") continue;
    const Json choices = parsed(event)["choices"];
    if (choices.empty()) continue;
    if (choices[0].contains("text")) text += choices[0]["text"].get<std::string>();
    if (choices[0].contains("delta") && choices[0]["delta"].contains("content"))
      text += choices[0]["delta"]["content"].get<std::string>();
  }
  return text;
}

// --- answers

TEST_F(ServerTest, ChatPlainAndStreamedSayTheSame) {
  TestServer server(engine());
  HttpClient client = server.client();
  const HttpAnswer plain = client.post("/v1/chat/completions", "{" + kThanks + "}");
  ASSERT_EQ(plain.status, 200) << plain.body;
  EXPECT_EQ(plain.headers.at("content-type"), "application/json");
  const Json body = parsed(plain.body);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "You are welcome!");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 15);
  EXPECT_EQ(body["usage"]["completion_tokens"], 7);

  const HttpAnswer stream =
      client.post("/v1/chat/completions",
                  "{" + kThanks + R"(,"stream":true,"stream_options":{"include_usage":true}})");
  ASSERT_EQ(stream.status, 200);
  EXPECT_THAT(stream.headers.at("content-type"), HasSubstr("text/event-stream"));
  const auto events = events_of(stream.body);
  ASSERT_GE(events.size(), 4U);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(parsed(events[0])["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(text_of(events), "You are welcome!");
  const Json usage = parsed(events[events.size() - 2])["usage"];
  EXPECT_EQ(usage["completion_tokens"], 7);
  EXPECT_GE(usage["prompt_tokens_details"]["cached_tokens"], 1);  // the first request's work
}

TEST_F(ServerTest, CompletionsWithStopChoicesEchoAndLogprobs) {
  TestServer server(engine());
  HttpClient client = server.client();
  const std::string prompt =
      R"("prompt":"<|im_start|>user\nCool, thanks.<|im_end|>\n<|im_start|>assistant\n")";
  const Json whole = parsed(client.post("/v1/completions", "{" + prompt + "}").body);
  EXPECT_EQ(whole["choices"][0]["text"], "You are welcome!");
  const Json cut =
      parsed(client.post("/v1/completions", "{" + prompt + R"(,"stop":["come"],"n":2})").body);
  ASSERT_EQ(cut["choices"].size(), 2U);
  for (const Json& choice : cut["choices"]) {
    EXPECT_EQ(choice["text"], "You are wel");
    EXPECT_EQ(choice["finish_reason"], "stop");
  }
  EXPECT_EQ(cut["usage"]["prompt_tokens"], 15);
  EXPECT_LE(cut["usage"]["completion_tokens"], 2 * 6);
  const HttpAnswer scored = client.post(
      "/v1/completions", R"({"prompt":[34,78,313,11],"echo":true,"logprobs":1,"max_tokens":0})");
  ASSERT_EQ(scored.status, 200) << scored.body;
  const Json logprobs = parsed(scored.body)["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["token_logprobs"].size(), 4U);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_LT(logprobs["token_logprobs"][3].get<double>(), 0);
  EXPECT_EQ(parsed(scored.body)["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(parsed(scored.body)["usage"]["completion_tokens"], 0);
}

TEST_F(ServerTest, ASeedFromAReplyMakesItAgain) {
  TestServer server(engine());
  HttpClient client = server.client();
  const std::string request =
      R"({"prompt":"Once","temperature":1.5,"ignore_eos":true,"max_tokens":12,"n":2)";
  const Json first = parsed(client.post("/v1/completions", request + "}").body);
  const uint64_t seed = first["usage"]["cairn"]["seed"];
  const Json again = parsed(
      client.post("/v1/completions", request + ",\"seed\":" + std::to_string(seed) + "}").body);
  EXPECT_NE(first["choices"][0]["text"], first["choices"][1]["text"]);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(again["choices"][i]["text"], first["choices"][i]["text"]);
}

TEST_F(ServerTest, PlainRoutes) {
  TestServer server(engine());
  HttpClient client = server.client();
  EXPECT_EQ(client.get("/health").body, R"({"status":"ok"})");
  EXPECT_EQ(client.get("/health?x=1").status, 200);
  EXPECT_EQ(parsed(client.get("/v1/models").body)["data"][0]["id"], "org/demo:1");
  EXPECT_EQ(parsed(client.get("/v1/models/org/demo:1").body)["id"], "org/demo:1");
  EXPECT_EQ(parsed(client.get("/v1/models/org%2Fdemo%3A1").body)["id"], "org/demo:1");
  EXPECT_EQ(client.get("/v1/models/demo").status, 404);
  EXPECT_EQ(client.get("/v1/models/%").status, 404);
  const Json tokens = parsed(client.post("/tokenize", R"({"text":"Hello there"})").body);
  const Json back =
      parsed(client.post("/detokenize", "{\"tokens\":" + dump_json(tokens["tokens"]) + "}").body);
  EXPECT_EQ(back["text"], "Hello there");
  const HttpAnswer nothing = client.get("/nothing");
  EXPECT_EQ(nothing.status, 404);
  EXPECT_THAT(parsed(nothing.body)["error"]["message"].get<std::string>(), HasSubstr("/nothing"));
  const HttpAnswer wrong = client.get("/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  EXPECT_EQ(client.post("/metrics", "").headers.at("allow"), "GET, HEAD");
  client.request("HEAD", "/v1/models");
  const HttpAnswer head = client.read_answer(/*is_head=*/true);
  EXPECT_EQ(head.status, 200);
  EXPECT_GT(std::stoul(head.headers.at("content-length")), 10U);
  EXPECT_EQ(client.get("/health").status, 200);  // on the same connection still
}

TEST_F(ServerTest, StatsFlushAndMetrics) {
  TestServer server(engine());
  HttpClient client = server.client();
  ASSERT_EQ(client.post("/v1/chat/completions", "{" + kThanks + "}").status, 200);
  const HttpAnswer flush = client.post("/v1/cache/flush", "");
  EXPECT_EQ(flush.status, 200);
  EXPECT_EQ(parsed(flush.body)["durable"], true);
  const Json stats = parsed(client.get("/v1/cache/stats").body);
  EXPECT_EQ(stats["disk"]["enabled"], true);
  EXPECT_GE(stats["disk"]["objects"], 1);
  EXPECT_GE(stats["engine"]["prompt_tokens"], 15);
  const HttpAnswer metrics = client.get("/metrics");
  EXPECT_THAT(metrics.headers.at("content-type"), HasSubstr("version=0.0.4"));
  for (const char* line : {"cairn_http_responses_total{status=\"200\"} 3",
                           "cairn_first_token_seconds_count 1",
                           "cairn_connections 1",
                           "cairn_requests_total{outcome=\"finished\"}",
                           "cairn_cache_hit_tokens_total{tier=\"disk\"}",
                           "cairn_store_enabled 1",
                           "cairn_store_objects"}) {
    EXPECT_THAT(metrics.body, HasSubstr(line));
  }
}

// --- the protocol

TEST_F(ServerTest, BadRequestsKeepTheConnection) {
  TestServer server(engine());
  HttpClient client = server.client();
  for (const std::string body : {"{", "[]", "{\"messages\":3}", "\xFF\xFE"}) {
    const HttpAnswer answer = client.post("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(parsed(answer.body)["error"]["type"], "invalid_request_error");
  }
  std::string words;
  for (int i = 0; i < 9000; ++i) words += "word ";
  const HttpAnswer answer =
      client.post("/v1/completions", R"({"stream":true,"prompt":")" + words + "\"}");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(parsed(answer.body)["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  TestServer server(engine());
  HttpClient client = server.client();
  const auto post = [](const std::string& path, const std::string& body) {
    return "POST " + path +
           " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           body;
  };
  client.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + post("/tokenize", R"({"text":"a"})") +
              "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n" +
              post("/v1/completions", R"({"prompt":"Once","stream":true,"max_tokens":3})") +
              "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.read_answer().body, R"({"status":"ok"})");
  EXPECT_THAT(client.read_answer().body, HasSubstr("\"count\":1"));
  EXPECT_EQ(client.read_answer().status, 404);
  EXPECT_EQ(events_of(client.read_answer().body).back(), "[DONE]");
  EXPECT_THAT(client.read_answer().body, HasSubstr("org/demo:1"));
  EXPECT_TRUE(client.is_at_end());
}

TEST_F(ServerTest, ABodyMayWaitForContinue) {
  TestServer server(engine());
  HttpClient client = server.client();
  client.send(
      "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 100);
  client.send("{\"text\":\"a\"}");
  EXPECT_EQ(client.read_answer().status, 200);
  // Split into single bytes, chunked.
  const std::string slow =
      "POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\n{\"tex\r\n7\r\nt\":\"a\"}\r\n0\r\n\r\n";
  for (const char byte : slow) client.send(std::string_view(&byte, 1));
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(ServerTest, ATargetMayBeAWholeUrl) {
  TestServer server(engine());
  HttpClient client = server.client();
  client.send("GET http://cairn.example/health HTTP/1.1\r\nHost: cairn.example\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 200);
  client.send("GET http://cairn.example/nothing HTTP/1.1\r\nHost: cairn.example\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 404);
}

TEST_F(ServerTest, Http10ClosesAtTheEnd) {
  TestServer server(engine());
  HttpClient plain = server.client();
  plain.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(plain.read_answer().status, 200);
  EXPECT_TRUE(plain.is_at_end());
  HttpClient stream = server.client();
  const std::string body = R"({"prompt":"Once","stream":true,"max_tokens":3})";
  stream.send("POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  HttpAnswer answer = stream.read_answer();
  EXPECT_EQ(answer.headers.count("transfer-encoding"), 0U);
  EXPECT_NE(answer.headers["connection"], "keep-alive");
  EXPECT_EQ(events_of(answer.body).back(), "[DONE]");
}

TEST_F(ServerTest, LimitsOfSizeAreAnswered) {
  ServerOptions options;
  options.max_body_bytes = 1000;
  TestServer server(engine(), options);
  // More than socket buffers hold: the answer must come through although nobody reads all this.
  HttpClient large = server.client();
  large.request("POST", "/tokenize", std::string(3 << 20, 'x'));
  const HttpAnswer answer = large.read_answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr("1000"));
  HttpClient chunked = server.client();
  chunked.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7D0\r\n" +
               std::string(2000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read_answer().status, 413);
  HttpClient headers = server.client();
  headers.send("GET /health HTTP/1.1\r\nX-Long: " + std::string(100'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(headers.read_answer().status, 431);
  for (const std::string& junk :
       {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03", 10),
        std::string("GET\r\n\r\n"),
        std::string("GET / HTTP/3.7\r\n\r\n"),
        std::string("POST /tokenize HTTP/1.1\r\nContent-Length: -1\r\n\r\n")}) {
    HttpClient client = server.client();
    client.send(junk + std::string(100, '\n'));
    EXPECT_EQ(client.read_answer().status, 400) << junk;
  }
  EXPECT_EQ(server.client().get("/health").status, 200);
}

TEST_F(ServerTest, ConnectionsOverTheLimitAreToldSo) {
  ServerOptions options;
  options.max_connections = 2;
  TestServer server(engine(), options);
  HttpClient first = server.client();
  EXPECT_EQ(first.get("/health").status, 200);
  {
    HttpClient second = server.client();
    EXPECT_EQ(second.get("/health").status, 200);
    HttpClient third = server.client();
    const HttpAnswer answer = third.get("/health");
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(answer.headers.at("retry-after"), "1");
  }
  EXPECT_TRUE(comes_true([&] { return server.client().get("/health").status == 200; }));
}

TEST_F(ServerTest, IdleConnectionsEnd) {
  ServerOptions options;
  options.idle_timeout = seconds(1);
  TestServer server(engine(), options);
  HttpClient silent = server.client();
  HttpClient half = server.client();
  half.send("GET /health HTTP/1.1\r\nX-Slow: ");
  HttpClient used = server.client();
  EXPECT_EQ(used.get("/health").status, 200);
  EXPECT_TRUE(silent.is_at_end());
  EXPECT_TRUE(half.is_at_end());
  EXPECT_TRUE(used.is_at_end());
}

TEST_F(ServerTest, AThousandConnections) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const size_t n = ::cairn::testing::scaled(1000);
  const rlim_t wanted = 2 * n + 200;
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < wanted) GTEST_SKIP() << "only " << limit.rlim_cur << " descriptors";
  }
  TestServer server(engine());
  std::vector<HttpClient> clients;
  for (size_t i = 0; i < n; ++i) clients.push_back(server.client());
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < n; ++i) {
      if (i % 100 == 0) {
        clients[i].request("POST", "/v1/completions", R"({"prompt":"Once","max_tokens":2})");
      } else {
        clients[i].request("GET", "/health");
      }
    }
    size_t n_ok = 0;
    for (HttpClient& client : clients) n_ok += client.read_answer().status == 200 ? 1 : 0;
    EXPECT_EQ(n_ok, n);
  }
}

TEST_F(ServerTest, TooManyBodiesAtOnceAreRefused) {
  ServerOptions options;
  options.n_prep_threads = 1;
  options.max_prep_queue = 1;
  TestServer server(engine(), options);
  const std::string body = "{\"text\":\"" + std::string(300'000, 'q') + "\"}";
  std::vector<HttpClient> clients;
  for (int i = 0; i < 12; ++i) clients.push_back(server.client());
  for (HttpClient& client : clients) client.request("POST", "/tokenize", body);
  std::multiset<int> answers;
  for (HttpClient& client : clients) answers.insert(client.read_answer().status);
  EXPECT_EQ(answers.count(200) + answers.count(503), clients.size());
  EXPECT_GE(answers.count(200), 1U);
  EXPECT_GE(answers.count(503), 1U);
}

// --- keys

TEST_F(ServerTest, KeysAreWantedBeforeBodies) {
  ServerOptions options;
  options.api_keys = {"alpha", "beta"};
  TestServer server(engine(), options);
  HttpClient client = server.client();
  EXPECT_EQ(client.get("/health").status, 200);
  const HttpAnswer refused = client.get("/v1/models");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(parsed(refused.body)["error"]["code"], "invalid_api_key");
  for (const char* good : {"Authorization: Bearer beta\r\n",
                           "authorization: bearer  alpha\r\n",
                           "X-Api-Key: beta\r\n"})
    EXPECT_EQ(client.get("/v1/models", good).status, 200) << good;
  for (const char* bad : {"Authorization: Bearer gamma\r\n",
                          "Authorization: Bearer alph\r\n",
                          "Authorization: Bearer alphaa\r\n",
                          "Authorization: alpha\r\n",
                          "Authorization: Bearer \r\n",
                          "X-Api-Key:\r\n"})
    EXPECT_EQ(client.get("/v1/models", bad).status, 401) << bad;
  // A stranger's body is not waited for.
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 401);
  EXPECT_TRUE(client.is_at_end());
}

uint64_t cached_tokens(HttpClient& client, const std::string& body, std::string_view key) {
  const std::string header =
      key.empty() ? "" : "Authorization: Bearer " + std::string(key) + "\r\n";
  const HttpAnswer answer = client.post("/v1/completions", body, header);
  EXPECT_EQ(answer.status, 200) << answer.body;
  return parsed(answer.body)["usage"]["prompt_tokens_details"]["cached_tokens"].get<uint64_t>();
}

// A prompt of `n` ids that no other test has.
std::string prompt_of(TokenId first, size_t n, const std::string& more = "") {
  Json ids = Json::array();
  for (size_t i = 0; i < n; ++i) ids.push_back(first + i);
  return R"({"prompt":)" + dump_json(ids) + more + "}";
}

TEST_F(ServerTest, KeysAndSaltsNeverShare) {
  ServerOptions options;
  options.api_keys = {"alpha", "beta"};
  TestServer keyed(engine(), options);
  HttpClient client = keyed.client();
  const std::string prompt = prompt_of(100, 200);
  const std::string salted = prompt_of(100, 200, R"(,"cache_salt":"x")");
  for (const char* key : {"alpha", "beta"}) {
    EXPECT_EQ(cached_tokens(client, prompt, key), 0U) << key;
    EXPECT_EQ(cached_tokens(client, salted, key), 0U) << key;
  }
  for (const char* key : {"alpha", "beta"}) {
    EXPECT_EQ(cached_tokens(client, prompt, key), 199U) << key;
    EXPECT_EQ(cached_tokens(client, salted, key), 199U) << key;
  }
  // The same store without keys, and with one of them alone.
  TestServer open(engine());
  HttpClient stranger = open.client();
  EXPECT_EQ(cached_tokens(stranger, prompt, ""), 0U);
  EXPECT_EQ(cached_tokens(stranger, salted, ""), 0U);
  EXPECT_EQ(cached_tokens(stranger, prompt_of(100, 200, R"(,"cache_salt":"y")"), ""), 0U);
  options.api_keys = {"alpha"};
  TestServer alone(engine(), options);
  HttpClient alpha = alone.client();
  EXPECT_EQ(cached_tokens(alpha, prompt, "alpha"), 199U);
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

// What a client can learn from its clock about what another has asked: nothing. 60 probes, each of
// a prompt that nobody asked before, of one that the other key asked, and of one's own again.
TEST(ServerSoak, TwoKeysCannotTimeEachOther) {
  constexpr size_t kProbes = 60;
  constexpr size_t kPromptTokens = 2000;
  TestEngine engine(demo_setup());
  ServerOptions options;
  options.api_keys = {"a", "b"};
  TestServer server(engine.engine(), options);
  HttpClient client = server.client();
  const auto ask = [&](size_t prompt_idx, std::string_view key) {
    const std::string body =
        prompt_of(static_cast<TokenId>(10 + prompt_idx), kPromptTokens, R"(,"max_tokens":1)");
    const auto begin = std::chrono::steady_clock::now();
    const uint64_t cached = cached_tokens(client, body, key);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    return std::pair(cached, took.count());
  };
  std::vector<double> cold, after, hit;
  for (size_t i = 0; i < kProbes; ++i) {
    const auto [n_cold, ms_cold] = ask(2 * i, "b");
    ask(2 * i + 1, "a");
    const auto [n_after, ms_after] = ask(2 * i + 1, "b");
    const auto [n_hit, ms_hit] = ask(2 * i + 1, "b");
    EXPECT_EQ(n_cold, 0U);
    EXPECT_EQ(n_after, 0U);
    EXPECT_EQ(n_hit, kPromptTokens - 1);
    cold.push_back(ms_cold);
    after.push_back(ms_after);
    hit.push_back(ms_hit);
  }
  const double difference = std::abs(median_of(after) - median_of(cold));
  const double span = median_of(cold) - median_of(hit);
  RecordProperty("percent_of_span", std::to_string(100 * difference / span));
  EXPECT_LE(difference, 0.05 * span) << "cold " << median_of(cold) << " ms, after the other key "
                                     << median_of(after) << " ms, hit " << median_of(hit) << " ms";
}

TEST_F(ServerTest, ForgetsForItsCallerAlone) {
  ServerOptions options;
  options.api_keys = {"alpha", "beta"};
  TestServer server(engine(), options);
  HttpClient client = server.client();
  const std::string alpha = "Authorization: Bearer alpha\r\n";
  const std::string prompt = prompt_of(700, 200, R"(,"prompt_cache_key":"talk")");
  const auto forget = [&](const std::string& body) {
    const HttpAnswer answer = client.post("/v1/cache/forget", body, alpha);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parsed(answer.body);
  };
  for (const char* key : {"alpha", "beta"}) cached_tokens(client, prompt, key);
  const Json dry = forget(R"({"conversation":"talk","dry_run":true})");
  EXPECT_EQ(dry["dry_run"], true);
  EXPECT_EQ(dry["durable"], false);
  EXPECT_GE(dry["removed"]["tokens"], 200);
  EXPECT_EQ(cached_tokens(client, prompt, "alpha"), 199U);
  const Json gone = forget(R"({"conversation":"talk"})");
  EXPECT_EQ(gone["durable"], true);
  EXPECT_GE(gone["removed"]["tokens"], 200);
  EXPECT_EQ(gone["shared"]["tokens"], 0);
  EXPECT_EQ(cached_tokens(client, prompt, "alpha"), 0U);
  EXPECT_GE(forget(prompt_of(700, 200))["removed"]["tokens"], 200);
  EXPECT_EQ(cached_tokens(client, prompt, "alpha"), 0U);
  EXPECT_GE(forget(R"({"namespace":"own"})")["removed"]["tokens"], 200);
  EXPECT_EQ(cached_tokens(client, prompt, "alpha"), 0U);
  EXPECT_EQ(cached_tokens(client, prompt, "beta"), 199U);

  ASSERT_EQ(client.post("/v1/chat/completions", "{" + kThanks + "}", alpha).status, 200);
  EXPECT_GE(forget(R"({"prompt":{)" + kThanks + "}}")["removed"]["tokens"], 15);
  for (const char* bad : {"{}",
                          R"({"namespace":"beta"})",
                          R"({"namespace":"own","conversation":"talk"})",
                          R"({"prompt":["a","b"]})",
                          R"({"conversation":"talk","unknown":1})"}) {
    EXPECT_EQ(client.post("/v1/cache/forget", bad, alpha).status, 400) << bad;
  }
}

TEST_F(ServerTest, AStreamThatIsForgottenEndsAndLeavesNothing) {
  ServerOptions options;
  options.api_keys = {"gamma"};
  TestServer server(engine(), options);
  const std::string key = "Authorization: Bearer gamma\r\n";
  HttpClient reader = server.client();
  reader.request("POST",
                 "/v1/completions",
                 prompt_of(1200, 200, R"(,"max_tokens":300,"ignore_eos":true,"stream":true)"),
                 key);
  ASSERT_EQ(reader.read_head().status, 200);
  ASSERT_TRUE(reader.read_chunk().has_value());
  HttpClient other = server.client();
  EXPECT_EQ(other.post("/v1/cache/forget", R"({"namespace":"own"})", key).status, 200);
  std::string rest;
  while (const auto chunk = reader.read_chunk()) rest += *chunk;
  EXPECT_THAT(rest, HasSubstr("[DONE]"));
  EXPECT_EQ(cached_tokens(other, prompt_of(1200, 200), "gamma"), 0U);
}

TEST(ApiKeys, ANamespaceTellsNothingOfTheKey) {
  HttpRequest request;
  request.api_key = "secret-key";
  const std::string name = cache_namespace(request, {"secret-key"}, "");
  EXPECT_EQ(name.size(), 64U);
  EXPECT_EQ(name.find("secret"), std::string::npos);
  HttpRequest bearer;
  bearer.authorization = "Bearer secret-key";
  EXPECT_EQ(cache_namespace(bearer, {"other", "secret-key"}, ""), name);
  EXPECT_NE(cache_namespace(request, {"secret-key"}, "salt"), name);
  EXPECT_EQ(cache_namespace(HttpRequest{}, {}, ""), "");
  // A salt cannot imitate a key.
  EXPECT_NE(cache_namespace(HttpRequest{}, {}, "secret-key"), name);
}

TEST(ApiKeys, FileIsReadAndChecked) {
  const TempDir folder;
  const std::string path = folder.path() + "/keys";
  EXPECT_EQ(read_api_keys(path).status().code(), StatusCode::kNotFound);
  const auto write = [&path](const std::string& text, mode_t mode) {
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return read_api_keys(path);
  };
  EXPECT_THAT(write("x\n", 0644).status().message(), HasSubstr("chmod 600"));
  EXPECT_THAT(write("# none\n \n", 0600).status().message(), HasSubstr("no key"));
  const auto keys = write("# ours\n alpha \n\nbeta\r\nlast", 0600);
  ASSERT_TRUE(keys.is_ok());
  EXPECT_EQ(*keys, (std::vector<std::string>{"alpha", "beta", "last"}));
}

// --- clients that leave, wait or read slowly

TEST_F(ServerTest, LeavingCancels) {
  TestServer server(engine());
  for (const bool stream : {false, true}) {
    ASSERT_TRUE(comes_true(is_idle));
    const uint64_t before = stats().requests_cancelled;
    {
      HttpClient client = server.client();
      client.request("POST",
                     "/v1/completions",
                     "{" + kEndless + (stream ? ",\"stream\":true" : "") + R"(,"n":2})");
      if (stream) {
        EXPECT_EQ(client.read_head().status, 200);
      }
      EXPECT_TRUE(comes_true([] { return stats().running == 2; }));
      if (stream) {  // bytes that nobody has read must not hide the end
        client.send("GET /health HTTP/1.1\r\n\r\n");
      }
    }
    EXPECT_TRUE(comes_true([&] { return stats().requests_cancelled == before + 2; }));
    EXPECT_TRUE(is_idle());
  }
}

TEST_F(ServerTest, ASlowReaderLosesItsRequest) {
  ServerOptions options;
  options.max_stream_backlog_bytes = 64 * 1024;
  const TempDir folder;
  options.unix_path = folder.path() + "/socket";
  TestServer server(engine(), options);
  ASSERT_TRUE(comes_true(is_idle));
  const uint64_t before = stats().requests_cancelled;
  HttpClient client = HttpClient::unix_socket(options.unix_path);  // small buffers
  ASSERT_TRUE(client.is_connected());
  client.request("POST",
                 "/v1/chat/completions",
                 "{" + kThanks + R"(,"ignore_eos":true,"max_tokens":8000,"stream":true,"n":8,
                 "logprobs":true,"top_logprobs":20})");
  EXPECT_TRUE(comes_true([&] { return stats().requests_cancelled == before + 8; }));
  const HttpAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body, ::testing::Not(HasSubstr("[DONE]")));
  EXPECT_EQ(HttpClient::unix_socket(options.unix_path).get("/health").status, 200);
}

TEST_F(ServerTest, AWaitingStreamGetsItsHeadersAndHeartbeats) {
  EngineSetup setup = demo_setup();
  setup.engine.max_batch = 1;  // one generates, one is begun, the rest wait
  TestEngine small(setup);
  ServerOptions options;
  options.heartbeat = milliseconds(30);
  {
    TestServer server(small.engine(), options);
    std::vector<HttpClient> busy;
    for (int i = 0; i < 2; ++i) {
      busy.push_back(server.client());
      busy.back().request("POST", "/v1/completions", "{" + kEndless + "}");
    }
    ASSERT_TRUE(comes_true([&] { return small.stats().waiting == 1; }));
    HttpClient client = server.client();
    client.request("POST", "/v1/completions", "{" + kEndless + ",\"stream\":true}");
    EXPECT_EQ(client.read_head().status, 200);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(client.read_chunk(), ": still here\n\n");
    EXPECT_EQ(small.stats().waiting, 2U);
    {
      HttpClient leaver = server.client();
      leaver.request("POST", "/v1/completions", "{" + kEndless + ",\"stream\":true}");
      EXPECT_EQ(leaver.read_head().status, 200);
      EXPECT_EQ(small.stats().waiting, 3U);
    }
    EXPECT_TRUE(comes_true([&] { return small.stats().waiting == 2; }));
    // An error after the headers is an event of the stream.
    std::jthread stopper([&small] { small.engine().stop(); });
    std::string rest;
    while (const auto chunk = client.read_chunk()) rest += *chunk;
    const auto events = events_of(rest);
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(parsed(events.back())["error"]["type"], "server_error");
    EXPECT_EQ(busy[0].read_answer().status, 503);
  }
}

TEST_F(ServerTest, AbortedAnswersAreFreed) {
  const SystemClock clock;
  Mutex mutex;
  std::vector<std::function<void()>> posted;
  const auto run_posted = [&] {
    std::vector<std::function<void()>> work;
    {
      MutexLock lock(mutex);
      work.swap(posted);
    }
    for (const auto& item : work) item();
  };
  {
    Router router(engine(), clock, demo_models(), ServerOptions(), [&](std::function<void()> work) {
      MutexLock lock(mutex);
      posted.push_back(std::move(work));
    });
    auto exchange = std::make_shared<Exchange>(size_t{1} << 20);
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.body = "{" + kEndless + ",\"stream\":true,\"n\":2}";
    router.handle(std::move(request), exchange);
    EXPECT_TRUE(comes_true([&] {
      run_posted();
      return exchange->has_pending();
    }));
    exchange->abort();
    const std::weak_ptr<Exchange> watched = exchange;
    exchange.reset();
    EXPECT_TRUE(comes_true([&] {
      run_posted();
      return watched.expired();
    }));
  }
  EXPECT_TRUE(comes_true(is_idle));
}

TEST(Exchange, BacklogAndOrder) {
  int n_aborts = 0;
  Exchange stream(10);
  stream.set_on_abort([&] { ++n_aborts; });
  stream.append("lost: nothing has begun");
  EXPECT_FALSE(stream.has_pending());
  stream.begin_stream();
  stream.respond({});  // too late
  EXPECT_FALSE(stream.has_response());
  stream.append(std::string(100, 'a'));  // one piece may be large
  EXPECT_EQ(stream.take_pending().size(), 100U);
  stream.append(std::string(8, 'a'));
  stream.append(std::string(8, 'b'));
  EXPECT_FALSE(stream.has_overflowed());
  stream.append("c");
  EXPECT_TRUE(stream.has_overflowed() && stream.has_ended());
  EXPECT_FALSE(stream.has_pending());
  stream.abort();
  EXPECT_EQ(n_aborts, 1);
  Exchange plain(10);
  plain.set_on_abort([&] { ++n_aborts; });
  HttpResponse first;
  first.status = 201;
  plain.respond(first);
  plain.respond({});
  plain.abort();
  EXPECT_EQ(plain.take_response().status, 201);
  EXPECT_EQ(n_aborts, 1);
}

// --- start and end

TEST_F(ServerTest, ADrainLetsStreamsEnd) {
  TestServer server(engine());
  HttpClient client = server.client();
  HttpClient idle = server.client();
  EXPECT_EQ(idle.get("/health").status, 200);
  client.request("POST",
                 "/v1/completions",
                 R"({"prompt":"Once","ignore_eos":true,"max_tokens":150,"stream":true})");
  EXPECT_EQ(client.read_head().status, 200);
  std::jthread stopper([&server] { server.stop(seconds(60)); });
  std::string body;
  while (const auto chunk = client.read_chunk()) body += *chunk;
  EXPECT_EQ(events_of(body).back(), "[DONE]");
  EXPECT_TRUE(client.is_at_end());
  stopper.join();
  EXPECT_FALSE(HttpClient::tcp(server.server().port()).is_connected());
}

TEST_F(ServerTest, ADrainHasABound) {
  ASSERT_TRUE(comes_true(is_idle));
  const uint64_t before = stats().requests_cancelled;
  {
    TestServer server(engine());
    HttpClient client = server.client();
    client.request("POST", "/v1/completions", "{" + kEndless + ",\"stream\":true}");
    EXPECT_EQ(client.read_head().status, 200);
    const auto begin = std::chrono::steady_clock::now();
    server.stop(milliseconds(50));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(10));
  }
  // What nobody hears any more is cancelled; the engine outlives the server and says so to no one.
  EXPECT_TRUE(comes_true(is_idle));
  EXPECT_EQ(stats().requests_cancelled, before + 1);
  TestServer next(engine());
  EXPECT_EQ(next.client().post("/v1/chat/completions", "{" + kThanks + "}").status, 200);
}

TEST_F(ServerTest, AddressesThatCannotBeHadAreNamed) {
  TestServer server(engine());
  const SystemClock clock;
  const auto refused = [&](const ServerOptions& options) {
    const auto opened = Server::open(engine(), clock, demo_models(), options);
    EXPECT_FALSE(opened.is_ok());
    return opened.is_ok() ? "" : opened.status().message();
  };
  ServerOptions options;
  options.port = server.server().port();
  EXPECT_THAT(refused(options), HasSubstr("is in use; choose another with --port"));
  options.port = 0;
  options.host = "nowhere";
  EXPECT_THAT(refused(options), HasSubstr("--host \"nowhere\""));
  options.host = "127.0.0.1";
  options.unix_path = std::string(200, 'x');
  EXPECT_THAT(refused(options), HasSubstr("200 bytes"));
  const TempDir folder;
  options.unix_path = folder.path() + "/file";
  std::ofstream(options.unix_path) << "precious";
  EXPECT_THAT(refused(options), HasSubstr("not a socket"));
  options.unix_path = folder.path() + "/socket";
  {
    TestServer owner(engine(), options);

    struct stat info {};

    ASSERT_EQ(stat(options.unix_path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    EXPECT_THAT(refused(options), HasSubstr("in use by another server"));
    EXPECT_EQ(HttpClient::unix_socket(options.unix_path).get("/health").status, 200);
  }
  EXPECT_FALSE(std::filesystem::exists(options.unix_path));
}

}  // namespace
}  // namespace cairn
