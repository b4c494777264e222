// The two orders in which files keep the rows of q and k.
//
// Published checkpoints keep a head's rotary dimensions half after half: dimension i turns with
// i + d / 2. GGUF files of the llama family keep them pair beside pair: 2 i turns with 2 i + 1.
// Rows of a head past its rotary dimensions stay. Source: convert_hf_to_gguf.py, permute().
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn {

// Entry i: where row i of the published order lies in the order by pairs. [n_rows], n_rows a
// multiple of head_dim, rope_dim even and at most head_dim.
std::vector<uint32_t> rows_in_pairs(size_t n_rows, size_t head_dim, size_t rope_dim);

// The reverse: where row i of the order by pairs lies in the published one.
std::vector<uint32_t> rows_in_halves(size_t n_rows, size_t head_dim, size_t rope_dim);

}  // namespace cairn
