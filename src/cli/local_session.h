// A model and an engine inside a one-shot command (`run`, `chat`, `generate-ids`): the same engine
// and cache as the server's, asked from one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "cli/loaded_model.h"
#include "engine/engine.h"

namespace cairn::cli {

struct LocalFlags {
  std::string model;
  std::optional<uint64_t> ctx;
  ComputeFlags compute;
  CacheFlags cache;

  // --model --ctx and the compute and cache flags. `default_store`: "none" or "" (the default
  // folder).
  void declare(Arguments& arguments, const std::string& default_store);
};

struct Generation {
  std::vector<GeneratedToken> tokens;
  FinishReason finish = FinishReason::kStop;
  RequestUsage usage;
};

class LocalSession {
 public:
  // Loads the model, starts the engine, attaches the store (a warning when it cannot be used).
  // `template_file`: as load_model_and_text() takes it; kNoText for commands that work with ids.
  static Result<std::unique_ptr<LocalSession>> open(const LocalFlags& flags,
                                                    const char* template_file);

  LocalSession(const LocalSession&) = delete;
  LocalSession& operator=(const LocalSession&) = delete;
  LocalSession(LocalSession&&) = delete;
  LocalSession& operator=(LocalSession&&) = delete;
  ~LocalSession();  // stops the engine; close() first to keep what is not yet written

  // Blocks until the reply has ended. `on_token` is called on the calling thread for each token as
  // it comes and may return false to end the reply there.
  Result<Generation> generate(GenerationRequest request,
                              const std::function<bool(const GeneratedToken&)>& on_token);

  // Flushes and stops.
  void close();

  const TextParts& text() const { return text_; }

  const GenerationConfig& generation_config() const { return generation_config_; }

  const std::vector<TokenId>& stop_ids() const { return stop_ids_; }

  const ModelSpec& spec() const { return engine_->model(0).spec(); }

 private:
  LocalSession() = default;

  SystemClock clock_;
  TextParts text_;
  GenerationConfig generation_config_;
  std::vector<TokenId> stop_ids_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Engine> engine_;
};

// What a model's authors recommend (generation_config.json), as sampling parameters.
SamplingParams default_sampling(const GenerationConfig& config);

// Attaches the store that the flags name; a failure costs the disk tier and one warning, nothing
// else. Only a key that was asked for and cannot be had is an error: nothing is written unsealed in
// its place.
Status attach_store(Engine& engine, const CacheFlags& flags);

}  // namespace cairn::cli
