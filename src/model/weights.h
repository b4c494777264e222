// A checkpoint's tensors, checked against the spec and packed for a backend.
//
// Thread: load_weights() on the loader thread, with the backend's pool idle; the result is
// immutable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/checkpoint.h"
#include "formats/hf_config.h"
#include "formats/packed_file.h"
#include "kernels/backend.h"
#include "model/model_spec.h"

namespace cairn {

// Norm weights are f32 in the backend's memory; an absent one has data() == nullptr.
struct LayerWeights {
  Buffer attention_norm;                    // [hidden_dim]
  std::shared_ptr<const PackedWeight> qkv;  // [(n_heads + 2 n_kv_heads) head_dim, hidden_dim]
  Buffer q_norm;                            // [head_dim], only with qk_norm
  Buffer k_norm;
  std::shared_ptr<const PackedWeight> out;      // [hidden_dim, n_heads head_dim]
  Buffer ffn_norm;                              // [hidden_dim]
  std::shared_ptr<const PackedWeight> gate_up;  // [2 ffn_dim, hidden_dim], gate rows first
  std::shared_ptr<const PackedWeight> down;     // [hidden_dim, ffn_dim]
};

struct ModelWeights {
  std::shared_ptr<const PackedWeight> embed;  // [vocab_size, hidden_dim]
  std::vector<LayerWeights> layers;
  Buffer final_norm;                         // [hidden_dim]
  std::shared_ptr<const PackedWeight> head;  // the same object as embed when the head is tied
  uint64_t n_bytes = 0;                      // of everything, packed
  std::vector<std::shared_ptr<const PackedWeight>> matrices;  // each once, in the order of packing
};

// Finds, checks and packs every tensor that `spec` needs. Names are those of published Llama-like
// checkpoints, with or without the "model." in front. Tensors of other parts (multi-token
// prediction, an unused output matrix, rotary tables) are passed over; one inside a layer of this
// model that the spec has no place for is an error, because leaving it out would change the
// numbers. Matrices keep the type they have in the file, block types and affine groups included.
//   affine    what the config says about MLX's groups, or null; a matrix without scales beside it
//             is not quantised
//   packed    what the same call made earlier, adopted instead of packing again; or null
//   progress  shares in [0, 1] of the bytes, with what is being done; may be empty
// Errors: kNotFound (a missing tensor and the shape that was wanted), kInvalidArgument (another
// shape, groups that the config does not expect), kUnsupported (element type, a tensor without a
// place), kNoSpace; kCorruption when `packed` is of other weights.
Result<ModelWeights> load_weights(const Checkpoint& checkpoint,
                                  const ModelSpec& spec,
                                  const AffineQuantization* affine,
                                  const PackedFile* packed,
                                  Backend& backend,
                                  const std::function<void(double, std::string_view)>& progress);

}  // namespace cairn
