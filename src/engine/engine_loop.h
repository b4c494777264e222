// The state and the turns of the engine thread: queue, admission, steps, endings.
//
// A request goes from the queue (FIFO) to `begun_` when the cache has room for all its rows: from
// then on its restore may be in flight. A runner (one a model) prefills one begun request at a
// time, so that requests with the same front compute it once, and decodes any number up to
// max_batch in all. Thread: built and add_model() on any one thread, everything else on the engine
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/active_request.h"
#include "engine/chunk_policy.h"
#include "engine/engine.h"
#include "engine/request_ledger.h"

namespace cairn {

// A model and its sequences.
struct ModelRunner {
  std::unique_ptr<Model> model;
  EngineModelOptions options;
  CacheGeometry geometry;
  uint32_t root_index = 0;
  ChunkPolicy chunks;
  std::unique_ptr<ActiveRequest> prefilling;             // may be null
  std::vector<std::unique_ptr<ActiveRequest>> decoding;  // in the order of their first tokens
};

class EngineLoop {
 public:
  // The backend, clock and ledger outlive the loop.
  EngineLoop(Backend& backend,
             const Clock& clock,
             const EngineOptions& options,
             RequestLedger& ledger);
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;
  EngineLoop(EngineLoop&&) = delete;
  EngineLoop& operator=(EngineLoop&&) = delete;
  ~EngineLoop();

  uint32_t add_model(std::unique_ptr<Model> model, const EngineModelOptions& options);

  size_t n_models() const { return runners_.size(); }

  const ModelRunner& runner(uint32_t index) const { return *runners_[index]; }

  TieredCache& cache() { return cache_; }

  void enqueue(std::unique_ptr<ActiveRequest> request);
  void cancel(uint64_t request_id);
  void cancel_all();
  // Everything that lives hears on_failed; sequences are dropped as in a crash.
  void fail_all(const Status& status);
  // An answer of the disk threads.
  void on_reply(StoreReply reply);
  // `done` is called exactly once, at the latest by fail_all().
  void flush(std::function<void(FlushReport)> done);
  // Likewise.
  void forget(ForgetRequest request, std::function<void(ForgetReport)> done);

  // Admits, starts, and steps each model once. False when there was nothing to step.
  bool turn();
  // No request is left.
  bool is_idle() const;
  // When turn() should run again although no message came.
  TimePoint next_deadline() const;
  EngineStats stats() const;

 private:
  // What one request adds to a step.
  struct StepEntry {
    ActiveRequest* request = nullptr;
    std::span<const TokenId> tokens;
    LogitRows logits = LogitRows::kNone;
    bool is_prefill = false;
  };

  // --- admission (engine_loop.cc)
  void admit();
  bool begin(ActiveRequest& request, Status& status);
  void start_prefills();
  bool start(ActiveRequest& request);
  bool begin_again_if_more_is_known(ActiveRequest& request);
  size_t n_in_batch() const;
  bool any_stream_decodes() const;

  // --- steps (engine_step.cc)
  bool step(ModelRunner& runner);
  void add_decode_rows(ModelRunner& runner);
  void add_prefill_rows(ModelRunner& runner);
  Status forward(ModelRunner& runner, Model::StepLogits& logits);
  void take_logits(ModelRunner& runner, const Model::StepLogits& logits);
  void take_prompt_rows(ActiveRequest& request,
                        size_t first_row,
                        size_t n_rows,
                        const Model::StepLogits& logits);
  void choose_token(ActiveRequest& request, size_t row, const Model::StepLogits& logits);
  GeneratedToken score_row(const ActiveRequest& request,
                           TokenId id,
                           size_t row,
                           bool has_row) const;
  void read_row(const Model::StepLogits& logits, size_t row);
  void advance_sequences(ModelRunner& runner);
  void record_step(ModelRunner& runner, std::chrono::duration<double> took);
  void settle(ModelRunner& runner);

  // --- endings
  void end(ActiveRequest& request, FinishReason reason);
  void fail(ActiveRequest& request, const Status& status);
  void for_each_request(const std::function<void(ActiveRequest&)>& visit);
  void clear_requests();

  Backend& backend_;
  const Clock& clock_;
  const EngineOptions options_;
  RequestLedger& ledger_;
  // Destroyed after the sequences below.
  TieredCache cache_;
  std::vector<std::unique_ptr<ModelRunner>> runners_;
  std::deque<std::unique_ptr<ActiveRequest>> queue_;
  std::vector<std::unique_ptr<ActiveRequest>> begun_;  // oldest first
  bool is_full_ = false;  // the head of the queue had no room, and nothing has changed since
  TimePoint next_admission_{};
  // Who waits for an answer of the cache; empty ones were answered.
  std::vector<std::function<void(FlushReport)>> flushes_;
  std::vector<std::function<void(ForgetReport)>> forgets_;

  // Scratch of a step.
  std::vector<StepEntry> entries_;
  std::vector<StepRows> rows_;
  std::vector<LogitSummary> summaries_;  // one for each row of logits
  std::vector<float> row_;               // [n_ids], a row in host memory

  EngineStats counters_;
};

}  // namespace cairn
