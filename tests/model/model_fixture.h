// What the tests of the model layer share: folders of models, sequences with pages of their own,
// and checkpoints changed for the worse.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "formats/safetensors.h"
#include "kernels/backend.h"
#include "model/model.h"

namespace cairn::testing {

std::string oracle_dir(const std::string& name);  // tests/data/oracles/<name>
std::string demo_dir();

// Folders that MLX's own quantiser wrote, among the oracles named by CAIRN_ORACLES.
inline constexpr const char* kMlxFolders[] = {"llama/mlx-q4-g32",
                                              "llama/mlx-q8-g64",
                                              "qwen3/mlx-mixed",
                                              "qwen3/mlx-q4-g64",
                                              "qwen3/mlx-q8-g32"};
// Where such a folder is; "" when CAIRN_ORACLES is unset.
std::string mlx_dir(const std::string& folder);
// `folder` as part of a test's name.
std::string test_name(std::string folder);

// A folder that is removed with its contents at the end.
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

Json read_json(const std::string& path);
void write_json(const std::string& path, const Json& value);
std::vector<TokenId> ids_of(const Json& list);

struct RawTensor {
  TensorInfo info;  // name, dtype and shape count
  std::vector<std::byte> bytes;
};

// Copies a model folder's config.json and weights, changed by the edits; either may be empty.
using ConfigEdit = std::function<void(Json&)>;
using TensorEdit = std::function<void(std::vector<RawTensor>&)>;
void copy_model(const std::string& from,
                const std::string& to,
                const ConfigEdit& edit_config,
                const TensorEdit& edit_tensors = {});

std::unique_ptr<Backend> make_backend(Isa isa, Precision precision, unsigned n_threads = 1);
// Aborts the test program when the model does not load.
std::unique_ptr<Model> load_model(const std::string& dir, Backend& backend);

// One sequence's rows in pages of its own, as the cache would hold them.
class Timeline {
 public:
  Timeline(Backend& backend, const CacheGeometry& geometry);

  // The next rows, with room made for them; `tokens` must outlive the step.
  StepRows next(std::span<const TokenId> tokens, LogitRows logits);

  void advance(size_t n) { n_rows_ += n; }

  size_t n_rows() const { return n_rows_; }

 private:
  Backend& backend_;
  const CacheGeometry& geometry_;
  std::vector<Buffer> memory_;
  std::vector<std::vector<std::byte*>> tables_;  // [group][page]
  size_t n_rows_ = 0;
};

// One step for one sequence; the logits on the host, [n_logit_rows, vocab_size].
std::vector<float> step(Model& model,
                        const CacheGeometry& geometry,
                        Timeline& timeline,
                        std::span<const TokenId> tokens,
                        LogitRows logits);

// Logits of all of `ids`, computed in chunks: [ids.size(), vocab_size].
std::vector<float> score_ids(Model& model,
                             const CacheGeometry& geometry,
                             std::span<const TokenId> ids,
                             size_t chunk);

// `n` ids that follow, the best one each time, lowest on a tie; `last` gets the logits of the last
// one.
std::vector<TokenId> greedy_ids(Model& model,
                                const CacheGeometry& geometry,
                                std::span<const TokenId> prompt,
                                size_t n,
                                std::vector<float>* last = nullptr);

size_t argmax(std::span<const float> logits);
double log_sum_exp(std::span<const float> logits);
// Kullback-Leibler divergence of the distribution `q` from `p`, in nats.
double divergence(std::span<const float> p_logits, std::span<const float> q_logits);

}  // namespace cairn::testing
