// Rotary position tables: from a config's settings to frequencies, and from positions to angles.
//
// Everything is computed in double and rounded to f32 once, at the end, so a row's table depends on
// its position alone (P2). Source of the formulas: transformers modeling_rope_utils; llama3 scaling
// is Meta's, yarn is Peng et al. 2023, arXiv 2309.00071. Thread: any; no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "formats/hf_config.h"
#include "model/model_spec.h"

namespace cairn {

// Frequencies of the dimensions that turn, scaling folded in. inv_freq.size() * 2 is rope_dim:
// head_dim * partial_rotary_factor, rounded down.
// Errors: kUnsupported when rope_dim is odd or 0; kInvalidArgument for a wrong number of frequency
// divisors.
Result<RopeSpec> make_rope_spec(const RopeConfig& config, uint32_t head_dim);

// cos and sin of positions [pos_begin, pos_begin + n), times the attention factor.
//   out  [n, inv_freq.size(), 2], n = out.size() / (2 * inv_freq.size())
void fill_cos_sin(const RopeSpec& rope, size_t pos_begin, std::span<float> out);

}  // namespace cairn
