#include "engine/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"

namespace cairn {
namespace {

constexpr size_t kPieceRows = 512;
constexpr size_t kPieceLogitBytes = size_t{128} << 20;

// One sequence on its way. `target` is its index in the caller's list, or npos for company.
struct Run {
  std::span<const TokenId> ids;
  size_t target = SIZE_MAX;
  std::unique_ptr<CacheSequence> sequence;
  size_t n_step = 0;         // rows in the step being run
  size_t n_step_logits = 0;  // of them with logits

  bool is_target() const { return target != SIZE_MAX; }

  size_t n_left() const { return ids.size() - sequence->n_rows(); }
};

class Scorer {
 public:
  Scorer(Model& model,
         TieredCache& cache,
         uint32_t root_index,
         const CacheGeometry& geometry,
         const ScoreOptions& options,
         const LogitSink& on_rows)
      : model_(model),
        cache_(cache),
        root_index_(root_index),
        geometry_(geometry),
        options_(options),
        on_rows_(on_rows) {}

  Result<std::vector<ScoredSequence>> run(std::span<const std::vector<TokenId>> sequences) {
    // Company first, so that it also moves the rows inside the step.
    for (const auto& ids : options_.batch_with) CAIRN_RETURN_IF_ERROR(begin(ids, SIZE_MAX));
    for (size_t i = 0; i < sequences.size(); ++i) CAIRN_RETURN_IF_ERROR(begin(sequences[i], i));
    std::vector<ScoredSequence> scored(sequences.size());
    for (Run& run : runs_) {
      await(*run.sequence);
      if (!run.is_target()) continue;
      ScoredSequence& out = scored[run.target];
      out.reuse = run.sequence->reuse();
      out.first_row = options_.last_row_only ? run.ids.size() - 1 : run.sequence->n_rows();
      out.n_rows = run.ids.size() - out.first_row;
    }
    while (std::any_of(runs_.begin(), runs_.end(), [](const Run& run) {
      return run.is_target() && run.n_left() > 0;
    })) {
      CAIRN_RETURN_IF_ERROR(step());
      cache_.poll();
    }
    for (Run& run : runs_) run.sequence->finish();
    runs_.clear();
    cache_.poll();
    return scored;
  }

 private:
  Status begin(std::span<const TokenId> ids, size_t target) {
    if (ids.empty()) {
      return Status::invalid_argument("a sequence to score has no ids; at least one is wanted");
    }
    BeginOptions begin_options;
    begin_options.max_rows = ids.size();
    begin_options.max_reuse = options_.use_cache && target != SIZE_MAX ? options_.reuse_at : 0;
    // A test that asks for reuse counts on it, however slow restoring looks.
    begin_options.restore = RestoreMode::kAlways;
    begin_options.persist = options_.use_cache;
    CAIRN_ASSIGN_OR_RETURN(auto sequence, cache_.begin(root_index_, ids, begin_options));
    runs_.push_back({.ids = ids, .target = target, .sequence = std::move(sequence)});
    return Status::ok();
  }

  void await(const CacheSequence& sequence) {
    while (!sequence.is_ready()) {
      CAIRN_CHECK(static_cast<bool>(options_.wait_for_replies),
                  "a restore is in flight and nobody hands over the disk's replies");
      options_.wait_for_replies();
      cache_.poll();
    }
  }

  size_t chunk_rows() const {
    if (options_.chunk > 0) return options_.chunk;
    const size_t fitting = kPieceLogitBytes / (sizeof(float) * model_.spec().vocab_size);
    return std::clamp<size_t>(fitting, 1, kPieceRows);
  }

  Status step() {
    std::vector<StepRows> rows;
    for (Run& run : runs_) {
      run.n_step = std::min(chunk_rows(), run.n_left());
      run.n_step_logits = 0;
      if (run.n_step == 0) continue;
      CAIRN_RETURN_IF_ERROR(run.sequence->prepare(run.n_step));
      const size_t pos_begin = run.sequence->n_rows();
      StepRows entry{.tokens = run.ids.subspan(pos_begin, run.n_step),
                     .pos_begin = pos_begin,
                     .pages = {},
                     .logits = LogitRows::kLast};
      for (size_t g = 0; g < geometry_.groups.size(); ++g) {
        entry.pages.push_back(run.sequence->pages(g));
      }
      if (run.is_target()) {
        const bool ends = run.n_step == run.n_left();
        entry.logits =
            options_.last_row_only ? (ends ? LogitRows::kLast : LogitRows::kNone) : LogitRows::kAll;
      }
      run.n_step_logits = entry.logits == LogitRows::kAll    ? run.n_step
                          : entry.logits == LogitRows::kLast ? 1
                                                             : 0;
      rows.push_back(std::move(entry));
    }
    CAIRN_ASSIGN_OR_RETURN(const Model::StepLogits logits, model_.forward(rows, geometry_));
    return deliver(logits);
  }

  // Hands out the step's logits and tells the cache about its rows.
  Status deliver(const Model::StepLogits& logits) {
    const size_t vocab_size = model_.spec().vocab_size;
    const float* at = logits.logits;
    for (Run& run : runs_) {
      if (run.n_step == 0) continue;
      const size_t pos_begin = run.sequence->n_rows();
      if (run.is_target() && run.n_step_logits > 0) {
        host_.resize(run.n_step_logits * vocab_size);
        model_.backend().read_back(std::as_writable_bytes(std::span(host_)),
                                   reinterpret_cast<const std::byte*>(at));
        const size_t position = pos_begin + run.n_step - run.n_step_logits;
        CAIRN_RETURN_IF_ERROR(on_rows_(run.target, position, host_));
      }
      if (run.n_step_logits > 0) at += run.n_step_logits * vocab_size;
      run.sequence->advance(run.ids.subspan(pos_begin, run.n_step));
    }
    return Status::ok();
  }

  Model& model_;
  TieredCache& cache_;
  const uint32_t root_index_;
  const CacheGeometry& geometry_;
  const ScoreOptions& options_;
  const LogitSink& on_rows_;
  std::vector<Run> runs_;
  std::vector<float> host_;
};

}  // namespace

Result<std::vector<ScoredSequence>> score(Model& model,
                                          TieredCache& cache,
                                          uint32_t root_index,
                                          const CacheGeometry& geometry,
                                          std::span<const std::vector<TokenId>> sequences,
                                          const ScoreOptions& options,
                                          const LogitSink& on_rows) {
  return Scorer(model, cache, root_index, geometry, options, on_rows).run(sequences);
}

}  // namespace cairn
