#include "engine/engine_fixture.h"

#include <cstdlib>
#include <utility>

#include "base/hash.h"
#include "engine/sampler.h"

namespace cairn {

void Recorder::check_open() {
  EXPECT_EQ(heard_.n_ended, 0) << "something came after the end";
}

void Recorder::on_started(const RequestUsage& usage) {
  {
    MutexLock lock(mutex_);
    check_open();
    ++heard_.n_started;
    heard_.started = usage;
  }
  changed_.notify_all();
}

void Recorder::on_prompt_logprobs(std::vector<GeneratedToken> tokens) {
  MutexLock lock(mutex_);
  check_open();
  EXPECT_TRUE(heard_.ids.empty());
  heard_.prompt_logprobs = std::move(tokens);
}

void Recorder::on_token(GeneratedToken token) {
  {
    MutexLock lock(mutex_);
    check_open();
    EXPECT_EQ(heard_.n_started, 1);
    heard_.ids.push_back(token.id);
    heard_.logprobs.push_back(token.logprob);
    heard_.tokens.push_back(std::move(token));
  }
  changed_.notify_all();
}

void Recorder::on_finished(FinishReason reason, const RequestUsage& usage) {
  {
    MutexLock lock(mutex_);
    check_open();
    ++heard_.n_ended;
    heard_.reason = reason;
    heard_.usage = usage;
  }
  changed_.notify_all();
}

void Recorder::on_failed(const Status& status) {
  {
    MutexLock lock(mutex_);
    check_open();
    ++heard_.n_ended;
    heard_.failure = status;
  }
  changed_.notify_all();
}

template <typename Condition>
void Recorder::wait_for(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  MutexLock lock(mutex_);
  while (!condition(heard_)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      ADD_FAILURE() << "waited a minute";
      return;
    }
    changed_.wait_until(mutex_, deadline);
  }
}

void Recorder::wait_started() {
  wait_for([](const Heard& heard) { return heard.n_started > 0 || heard.n_ended > 0; });
}

void Recorder::wait_tokens(size_t n) {
  wait_for([n](const Heard& heard) { return heard.ids.size() >= n || heard.n_ended > 0; });
}

Heard Recorder::wait_ended() {
  wait_for([](const Heard& heard) { return heard.n_ended > 0; });
  MutexLock lock(mutex_);
  return heard_;
}

bool Recorder::has_ended() {
  MutexLock lock(mutex_);
  return heard_.n_ended > 0;
}

TempDir::TempDir()
    : path_((std::filesystem::temp_directory_path() / ("cairn-engine-test-" + random_hex_128()))
                .string()) {
  std::filesystem::create_directories(path_);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

EngineSetup default_setup() {
  EngineSetup setup;
  setup.engine.cache.ram_budget_bytes = size_t{256} << 20;
  setup.engine.cache.restore = RestoreMode::kAlways;
  setup.engine.cache.leaf_delay = std::chrono::milliseconds(0);
  return setup;
}

TestEngine::TestEngine(const EngineSetup& setup) {
  const auto isas = supported_isas();
  if (isas.empty()) {
    ADD_FAILURE() << "this processor lacks AVX2";
    return;
  }
  backend_ = make_cpu_backend({isas.back(), setup.precision, setup.n_threads});
  engine_ = std::make_unique<Engine>(*backend_, clock_, setup.engine);
  for (const std::string& path : setup.models) {
    auto model = Model::load(std::string(CAIRN_SOURCE_DIR) + "/" + path, *backend_, {});
    EXPECT_TRUE(model.is_ok()) << model.status().to_string();
    if (!model.is_ok()) std::abort();
    engine_->add_model(std::move(*model), {path, setup.context_tokens, setup.kv, "", setup.n_ids});
  }
  if (!setup.store.empty()) {
    StoreOptions store;
    store.directory = setup.store;
    const Status status = engine_->attach_disk(posix_file_system(), store);
    EXPECT_TRUE(status.is_ok()) << status.to_string();
  }
  if (setup.start) engine_->start();
}

std::shared_ptr<Recorder> TestEngine::submit(const GenerationRequest& request) {
  auto recorder = std::make_shared<Recorder>();
  const auto id = engine_->submit(request, recorder);
  EXPECT_TRUE(id.is_ok()) << id.status().to_string();
  if (id.is_ok()) {
    last_id_ = *id;
  } else {
    recorder->on_failed(id.status());
  }
  return recorder;
}

Heard TestEngine::run(const GenerationRequest& request) {
  Heard heard = submit(request)->wait_ended();
  EXPECT_TRUE(heard.reason.has_value()) << heard.failure.value_or(Status::ok()).to_string();
  return heard;
}

namespace {

// Waits for one answer from the engine thread.
template <typename T>
struct Answer {
  Mutex mutex;
  CondVar changed;
  std::optional<T> value CAIRN_GUARDED_BY(mutex);

  void set(T answer) {
    {
      MutexLock lock(mutex);
      value = std::move(answer);
    }
    changed.notify_all();
  }

  T wait() {
    MutexLock lock(mutex);
    while (!value) changed.wait(mutex);
    return *value;
  }
};

}  // namespace

FlushReport TestEngine::flush() {
  auto answer = std::make_shared<Answer<FlushReport>>();
  engine_->flush([answer](FlushReport report) { answer->set(std::move(report)); });
  return answer->wait();
}

EngineStats TestEngine::stats() {
  auto answer = std::make_shared<Answer<EngineStats>>();
  engine_->stats([answer](EngineStats stats) { answer->set(std::move(stats)); });
  return answer->wait();
}

std::vector<TokenId> some_ids(size_t n, uint32_t salt, uint32_t vocab_size) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < n; ++i) {
    ids.push_back(static_cast<TokenId>(counter_uniform(salt, 0, i, 0) * vocab_size));
  }
  return ids;
}

GenerationRequest greedy_request(std::vector<TokenId> prompt, uint32_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.want_logprobs = true;
  return request;
}

GenerationRequest sampled_request(std::vector<TokenId> prompt, uint32_t max_tokens, uint64_t seed) {
  GenerationRequest request = greedy_request(std::move(prompt), max_tokens);
  request.sampling.temperature = 1.3F;
  request.sampling.top_p = 0.98F;
  request.sampling.repetition_penalty = 1.1F;
  request.sampling.seed = seed;
  request.top_logprobs = 2;
  return request;
}

void expect_same_answer(const Heard& a, const Heard& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.logprobs, b.logprobs);
  EXPECT_EQ(a.reason, b.reason);
}

}  // namespace cairn
