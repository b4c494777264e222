#include "engine/chunk_policy.h"

#include <algorithm>

#include "base/check.h"

namespace cairn {
namespace {

constexpr size_t kShortestChunk = 16;    // a strip: fewer rows cost a step nearly as much
constexpr size_t kChunkBeforeRate = 64;  // with streams waiting and no rate yet
constexpr size_t kFewestRowsToMeasure = 32;
constexpr double kNewShare = 0.25;  // weight of the newest measurement

}  // namespace

size_t ChunkPolicy::next_chunk(size_t pos,
                               size_t prompt_tokens,
                               bool streams_decode,
                               size_t row_limit) const {
  CAIRN_CHECK(pos < prompt_tokens);
  const size_t left = prompt_tokens - pos;
  row_limit = std::max<size_t>(row_limit, 1);
  if (options_.fixed_tokens != 0) return std::min({left, row_limit, size_t{options_.fixed_tokens}});
  size_t n = options_.max_tokens;
  if (streams_decode) {
    const double seconds = std::chrono::duration<double>(options_.chunk_time).count();
    const double by_rate = tokens_per_second_ * seconds;
    const size_t wanted =
        tokens_per_second_ == 0 ? kChunkBeforeRate : static_cast<size_t>(std::min(by_rate, 1e9));
    n = std::min(n, std::max(wanted, kShortestChunk));
  }
  n = std::max<size_t>(std::min(n, row_limit), 1);
  if (n >= left) return left;
  const size_t edge = (pos + n) / options_.page_tokens * options_.page_tokens;
  return edge > pos ? edge - pos : n;
}

void ChunkPolicy::record(size_t n_rows, std::chrono::duration<double> took) {
  if (n_rows < kFewestRowsToMeasure || took.count() <= 0) return;
  const double rate = static_cast<double>(n_rows) / took.count();
  tokens_per_second_ =
      tokens_per_second_ == 0 ? rate : (1 - kNewShare) * tokens_per_second_ + kNewShare * rate;
}

}  // namespace cairn
