// How many prompt rows the next step takes.
//
// While streams decode, a chunk should take about `chunk_time`, so that their tokens keep coming;
// otherwise the largest chunk is the fastest. Sizes never change results (P2), only latency.
// Thread: engine thread only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cairn {

struct ChunkPolicyOptions {
  std::chrono::milliseconds chunk_time{100};
  uint32_t max_tokens = 512;  // upper bound, also when nothing decodes; at least 1
  uint32_t fixed_tokens = 0;  // exactly this many, whatever the rate; 0 = by rate
  uint32_t page_tokens = 64;
};

class ChunkPolicy {
 public:
  explicit ChunkPolicy(const ChunkPolicyOptions& options) : options_(options) {}

  // Rows to prefill from `pos`, 1 .. prompt_tokens - pos. A chunk that does not end the prompt ends
  // at a page edge when it can, because other sequences' pages are adopted there. `row_limit`: rows
  // that memory allows in this step, at least 1. Requires pos < prompt_tokens.
  size_t next_chunk(size_t pos, size_t prompt_tokens, bool streams_decode, size_t row_limit) const;

  // A step of `n_rows` rows with a prefill chunk in it took so long. Short steps say little about
  // the rate and are ignored.
  void record(size_t n_rows, std::chrono::duration<double> took);

  // Prefilled rows a second, exponentially weighted; 0 = nothing measured yet.
  double tokens_per_second() const { return tokens_per_second_; }

 private:
  ChunkPolicyOptions options_;
  double tokens_per_second_ = 0;
};

}  // namespace cairn
