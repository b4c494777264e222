// An engine over a small model, and an observer that remembers what it heard.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "kernels/backend.h"
#include "support/test_size.h"

namespace cairn {

// What a client would have got.
struct Heard {
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  std::vector<GeneratedToken> tokens;
  std::vector<GeneratedToken> prompt_logprobs;
  std::optional<FinishReason> reason;
  std::optional<Status> failure;
  RequestUsage started;
  RequestUsage usage;
  int n_started = 0;
  int n_ended = 0;
};

// Thread: the engine's thread tells it, the test waits. A wait of more than a minute fails the
// test.
class Recorder final : public RequestObserver {
 public:
  void on_started(const RequestUsage& usage) override;
  void on_prompt_logprobs(std::vector<GeneratedToken> tokens) override;
  void on_token(GeneratedToken token) override;
  void on_finished(FinishReason reason, const RequestUsage& usage) override;
  void on_failed(const Status& status) override;

  void wait_started();
  void wait_tokens(size_t n);  // or the end
  Heard wait_ended();
  bool has_ended();

 private:
  template <typename Condition>
  void wait_for(const Condition& condition);
  // Nothing may come after the end.
  void check_open() CAIRN_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  Heard heard_ CAIRN_GUARDED_BY(mutex_);
};

// A folder that goes with the object.
class TempDir {
 public:
  TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  TempDir(TempDir&&) = delete;
  TempDir& operator=(TempDir&&) = delete;
  ~TempDir();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using testing::kIsSanitized;

// Random weights, 320 ids: a step takes a fraction of the demo's.
inline constexpr const char* kTinyModel = "tests/data/oracles/llama";
inline constexpr const char* kDemoModel = "models/cairn-demo";
inline constexpr uint32_t kTinyVocab = 320;

struct EngineSetup {
  EngineOptions engine;
  Precision precision = Precision::kFast;
  RowEncoding kv = RowEncoding::kBf16;
  unsigned n_threads = 1;
  uint32_t n_ids = 0;
  uint32_t context_tokens = 60'000;  // long replies, so that a test can be sure to interrupt them
  std::string store;                 // "" = no disk
  std::vector<std::string> models = {kTinyModel};  // folders in the source tree
  bool start = true;
};

// Restores are never skipped for speed, leaves are written at once: tests count tokens.
EngineSetup default_setup();

class TestEngine {
 public:
  explicit TestEngine(const EngineSetup& setup = default_setup());

  Engine& engine() { return *engine_; }

  // Both must be accepted.
  std::shared_ptr<Recorder> submit(const GenerationRequest& request);
  Heard run(const GenerationRequest& request);

  uint64_t last_id() const { return last_id_; }

  FlushReport flush();
  EngineStats stats();

 private:
  SystemClock clock_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Engine> engine_;
  uint64_t last_id_ = 0;
};

// `n` ids that look like text to nobody, the same for the same salt.
std::vector<TokenId> some_ids(size_t n, uint32_t salt, uint32_t vocab_size = kTinyVocab);

GenerationRequest greedy_request(std::vector<TokenId> prompt, uint32_t max_tokens);
GenerationRequest sampled_request(std::vector<TokenId> prompt, uint32_t max_tokens, uint64_t seed);

// Ids, logprobs (bits) and reason.
void expect_same_answer(const Heard& a, const Heard& b);

}  // namespace cairn
