// Runs models: admits requests, steps sequences (decode rows and one prefill chunk together),
// samples, keeps the cache. One thread for the process; everything that changes lives on it.
//
// Other threads call submit/cancel/flush/stats; these put a message into a bounded inbox. Design:
// DESIGN.md section 5.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/request.h"
#include "model/model.h"
#include "store/tiered_cache.h"

namespace cairn {

struct EngineOptions {
  uint32_t max_batch = 8;       // sequences that decode at once
  uint32_t max_waiting = 1024;  // requests in the queue; more are answered kOverloaded
  std::chrono::milliseconds chunk_time{100};  // prefill chunk while others stream
  uint32_t max_chunk_tokens = 512;  // upper bound of a chunk (scratch memory grows with it)
  uint32_t fixed_chunk_tokens = 0;  // tests: exactly this chunk size; 0 = by rate
  TieredCacheOptions cache;
};

struct EngineModelOptions {
  std::string label;            // for people and root.cairn
  uint32_t context_tokens = 0;  // prompt and reply together
  RowEncoding kv = RowEncoding::kBf16;
  std::string key_namespace;
  // Ids that exist, 0 to n_ids - 1; 0: one for each row of the output matrix. Published models pad
  // the matrix past the tokenizer's last id (Qwen3: 151,936 rows, 151,669 ids); those rows are
  // trained to nothing and are neither sampled nor counted in probabilities.
  uint32_t n_ids = 0;
};

struct ForgetRequest {
  uint32_t model = 0;
  std::string key_namespace;
  ForgetScope scope;
};

struct EngineStats {
  CacheStats cache;
  uint64_t requests_submitted = 0, requests_finished = 0, requests_failed = 0,
           requests_cancelled = 0;
  uint64_t running = 0, waiting = 0;
  uint64_t prompt_tokens = 0, prefilled_tokens = 0, generated_tokens = 0;
  uint64_t steps = 0;
  double prefill_seconds = 0, decode_seconds = 0;
};

class Engine {
 public:
  // The backend and clock outlive the engine. add_model and attach_disk before start().
  Engine(Backend& backend, const Clock& clock, const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  Engine(Engine&&) = delete;
  Engine& operator=(Engine&&) = delete;
  ~Engine();  // stop()

  uint32_t add_model(std::unique_ptr<Model> model, const EngineModelOptions& options);
  // What names the cache of a model, its weights, numerics and geometry.
  RootKey cache_root(uint32_t index) const;
  const Model& model(uint32_t index) const;
  uint32_t context_tokens(uint32_t index) const;

  // Opens the store's folder and adds the disk tier. An error leaves the engine without one (the
  // caller logs it once); serving goes on.
  Status attach_disk(FileSystem& fs, const StoreOptions& options);

  void start();

  // From any thread from here on.

  // What can be refused at once is (kInvalidArgument: empty prompt, id out of range, longer than
  // the context, bad sampling; kOverloaded: inbox full). Returns the request's id. `observer` is
  // told the rest.
  Result<uint64_t> submit(GenerationRequest request, std::shared_ptr<RequestObserver> observer);
  // Frees its place within one step or chunk; the prefilled prefix stays. Unknown ids are ignored.
  void cancel(uint64_t request_id);
  void flush(std::function<void(FlushReport)> done);
  // Ids of known texts. Kept and found at once; keep_anchor() also writes behind to the store, with
  // what else the namespace has there.
  const std::shared_ptr<AnchorTable>& anchors() const;
  void keep_anchor(uint32_t model, std::string key_namespace, Anchor anchor);
  // What of `prompt` would be reused now, and where it leaves what is known, with the next
  // n_known_max ids of that.
  void explain(uint32_t model,
               std::string key_namespace,
               std::vector<TokenId> prompt,
               size_t n_known_max,
               std::function<void(Result<ReuseReport>)> done);
  // Requests in scope that wait or run go on and leave nothing behind. `done` is called on the
  // engine thread (or this one, when the engine takes no messages).
  void forget(ForgetRequest request, std::function<void(ForgetReport)> done);
  void stats(std::function<void(EngineStats)> done);

  // Refuses new requests, lets running ones end until `deadline`, cancels the rest, flushes
  // (bounded by `flush_limit`), joins the thread. Idempotent.
  FlushReport drain_and_stop(std::chrono::milliseconds drain_limit,
                             std::chrono::milliseconds flush_limit);
  // Without drain or flush: what is not written is lost, as in a crash.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
