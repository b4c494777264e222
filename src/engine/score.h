// Teacher-forced logits of given ids, through the same forward pass and the same cache as serving;
// the tool that P2 is tested with (`cairn score`).
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
  // Rows of a sequence a step; 0 = all, in pieces of at most 512, fewer when the vocabulary is so
  // large that their logits would take more than 128 MiB.
  size_t chunk = 0;
  size_t reuse_at = SIZE_MAX;  // caps reuse
  bool use_cache = false;      // look up a prefix (at most reuse_at tokens) and keep pages
  bool last_row_only = false;
  std::vector<std::vector<TokenId>>
      batch_with;  // run beside in the same steps; results thrown away
  // Called again and again while a restore is in flight: waits a little for the disk's replies and
  // hands them to TieredCache::on_reply(). Needed only when the cache has a disk tier.
  std::function<void()> wait_for_replies;
};

struct ScoredSequence {
  size_t first_row = 0;  // the first with logits: those before came from the cache, or only the
                         // last was wanted
  size_t n_rows = 0;
  ReuseReport reuse;
};

// Scores all of `sequences` together. `on_rows` receives logits as they come: sequence index,
// absolute position of the first row, rows [n, vocab_size] in host memory. Errors: kInvalidArgument
// (a sequence without ids, an id outside the vocabulary, one that can never fit the cache),
// kOverloaded (together they do not fit), what the sink returns. Thread: engine thread, with no
// engine running. Afterwards pages of these sequences are in the tree; they may be written only
// with use_cache.
using LogitSink =
    std::function<Status(size_t sequence, size_t position, std::span<const float> rows)>;
Result<std::vector<ScoredSequence>> score(Model& model,
                                          TieredCache& cache,
                                          uint32_t root_index,
                                          const CacheGeometry& geometry,
                                          std::span<const std::vector<TokenId>> sequences,
                                          const ScoreOptions& options,
                                          const LogitSink& on_rows);

}  // namespace cairn
