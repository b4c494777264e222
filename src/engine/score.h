// Teacher-forced logits of given ids, through the same forward pass and the same cache as serving; the
// tool that P2 is tested with (`cairn score`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/token.h"
#include "model/model.h"
#include "store/tiered_cache.h"

namespace cairn {

struct ScoreOptions {
  size_t chunk = 0;            // rows of a sequence a step; 0 = all (in pieces of 512)
  size_t reuse_at = SIZE_MAX;  // caps reuse
  bool use_cache = false;      // look up a prefix (at most reuse_at tokens) and keep pages
  bool last_row_only = false;
  std::vector<std::vector<TokenId>> batch_with;  // run beside in the same steps; results thrown away
};

struct ScoredSequence {
  size_t first_row = 0;        // rows before it came from the cache and have no logits
  size_t n_rows = 0;
  ReuseReport reuse;
};

// Scores all of `sequences` together. `on_rows` receives logits as they come: sequence index, absolute
// position of the first row, rows [n, vocab_size] in host memory.
using LogitSink = std::function<Status(size_t sequence, size_t position, std::span<const float> rows)>;
Result<std::vector<ScoredSequence>> score(Model& model, TieredCache& cache, uint32_t root_index, const CacheGeometry& geometry,
                                          std::span<const std::vector<TokenId>> sequences, const ScoreOptions& options,
                                          const LogitSink& on_rows);

}  // namespace cairn
