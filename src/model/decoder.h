// The dense decoder's forward pass: whole operations on a backend, over rows of several sequences.
//
// Thread: engine thread only. Scratch memory grows to the largest step seen and stays; a step of a
// size seen before allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/geometry.h"
#include "kernels/backend.h"
#include "model/model.h"
#include "model/model_spec.h"
#include "model/weights.h"

namespace cairn {

class Decoder {
 public:
  // All three outlive the decoder.
  Decoder(const ModelSpec& spec, const ModelWeights& weights, Backend& backend);

  // See Model::forward.
  Result<Model::StepLogits> forward(std::span<const StepRows> rows, const CacheGeometry& geometry);

 private:
  // Rows that an operation works on: their residual stream and where their sequences' pages are.
  struct Active {
    float* x = nullptr;    // [n_rows, hidden_dim]
    float* qkv = nullptr;  // [n_rows, qkv_dim]
    size_t n_rows = 0;
    std::span<const RowSegment> segments;
  };

  // Host-side view of a step; vectors keep their memory between steps.
  struct Plan {
    std::vector<uint32_t> ids;                      // [n_rows]
    std::vector<float> cos_sin;                     // [n_rows, rope_dim / 2, 2]
    std::vector<uint32_t> wanted;                   // rows whose logits are wanted, ascending
    std::vector<std::vector<RowSegment>> segments;  // [group][sequence], of all rows
    std::vector<std::vector<RowSegment>> wanted_segments;  // of the wanted rows packed together
  };

  // Where a layer's rows live.
  struct LayerPlace {
    uint32_t group_idx = 0;
    uint32_t layer = 0;  // inside the group's pages
  };

  Status plan_step(std::span<const StepRows> rows, const CacheGeometry& geometry);
  void place_layers(const CacheGeometry& geometry);
  Status reserve(size_t n_rows, size_t n_wanted);
  void append_rows(size_t layer_idx, const CacheGeometry& geometry, const Active& active);
  void attend_and_feed(size_t layer_idx, const CacheGeometry& geometry, const Active& active);
  Active narrow_to_wanted(size_t group_idx);

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  Backend& backend_;

  size_t qkv_dim_ = 0;  // largest over the layers, as are the two below
  size_t q_dim_ = 0;
  size_t ffn_dim_ = 0;
  size_t rope_dim_ = 0;

  Plan plan_;
  std::vector<LayerPlace> places_;  // [n_layers]

  Buffer row_memory_;
  size_t row_capacity_ = 0;
  float* x_ = nullptr;        // [rows, hidden_dim] residual stream
  float* normed_ = nullptr;   // [rows, hidden_dim]
  float* qkv_ = nullptr;      // [rows, qkv_dim]
  float* heads_ = nullptr;    // [rows, q_dim] attention's output
  float* gate_up_ = nullptr;  // [rows, 2 ffn_dim]
  float* gated_ = nullptr;    // [rows, ffn_dim]
  float* cos_sin_ = nullptr;  // [rows, rope_dim]

  Buffer wanted_memory_;
  size_t wanted_capacity_ = 0;
  float* wanted_x_ = nullptr;    // [wanted, hidden_dim]
  float* wanted_qkv_ = nullptr;  // [wanted, qkv_dim]
  float* logits_ = nullptr;      // [wanted, vocab_size]
};

}  // namespace cairn
