// A loaded model: weights packed for one backend, and the forward pass over rows of several
// sequences.
//
// Thread: load() on the loader thread; forward() on the engine thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/geometry.h"
#include "cache/token.h"
#include "kernels/backend.h"
#include "model/model_spec.h"
#include "model/packed_cache.h"

namespace cairn {

enum class LogitRows { kNone, kLast, kAll };

// What one sequence contributes to a step.
struct StepRows {
  std::span<const TokenId> tokens;  // at positions [pos_begin, pos_begin + tokens.size())
  size_t pos_begin = 0;
  // Page tables, one a group, covering every position below pos_begin + tokens.size().
  std::vector<std::byte* const*> pages;
  LogitRows logits = LogitRows::kNone;
};

struct LoadOptions {
  std::string identity_cache_dir;  // where content hashes are remembered; "" = nowhere
  PackedCacheOptions packed;       // where packed weights are kept for the next start
  // Called now and then with a share in [0, 1] and what is being done; may be empty.
  std::function<void(double, std::string_view)> progress;
};

class Model {
 public:
  // `model_dir`: a Hugging Face folder, plain or quantised by MLX, or a GGUF file or its folder.
  // The backend must outlive the model. Errors: what Checkpoint, HfConfig and make_model_spec say;
  // a missing tensor names itself and the shape that was wanted.
  static Result<std::unique_ptr<Model>> load(const std::string& model_dir,
                                             Backend& backend,
                                             const LoadOptions& options);

  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  Model(Model&&) = delete;
  Model& operator=(Model&&) = delete;
  ~Model();

  const ModelSpec& spec() const;
  // Of the numbers-changing fields and the weights' content; part of the cache root.
  const Digest& identity() const;
  uint64_t weight_bytes() const;  // packed
  Backend& backend() const;

  // Runs all rows through all layers; K and V rows land in the pages. Logits of the wanted rows
  // come in the order of `rows`, in the backend's memory: [n_logit_rows, vocab_size], valid until
  // the next call. Errors: kInvalidArgument for a token outside the vocabulary, kNoSpace when
  // scratch memory cannot grow; in both cases no page has changed.
  struct StepLogits {
    const float* logits = nullptr;  // [n_rows, row_stride]
    size_t n_rows = 0;
    size_t row_stride = 0;  // vocab_size
  };

  Result<StepLogits> forward(std::span<const StepRows> rows, const CacheGeometry& geometry);

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
