// `cairn bench`: prefill and decode against this machine's limits, measured in the same run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/json.h"
#include "base/options.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_flags.h"
#include "cli/model_paths.h"
#include "kernels/limits.h"

namespace cairn::cli {
namespace {

constexpr size_t kChunkTokens = 512;  // as the engine's largest chunk

struct BenchFlags {
  std::string model;
  std::vector<uint64_t> prefill = {512, 2048};
  uint64_t decode = 64;
  std::vector<uint64_t> context = {0};
  std::vector<uint64_t> batch = {1};
  uint64_t reps = 5;
  bool json = false;
  ComputeFlags compute;
};

struct Spread {
  double median = 0, min = 0, max = 0;
};

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

Json to_json(const Spread& s) {
  return Json{{"median", json_float(static_cast<float>(s.median))},
              {"min", json_float(static_cast<float>(s.min))},
              {"max", json_float(static_cast<float>(s.max))}};
}

// Pages of one sequence in the backend's memory. Rows that were never computed are zeros: speed
// does not depend on their values, so a long context need not be prefilled to be attended to.
class BenchSequence {
 public:
  static Result<BenchSequence> make(Backend& backend,
                                    const CacheGeometry& geometry,
                                    size_t n_tokens) {
    BenchSequence sequence;
    const size_t n_pages = (n_tokens + geometry.page_tokens - 1) / geometry.page_tokens;
    for (const CacheGroup& group : geometry.groups) {
      const size_t page_bytes = group.layout.page_bytes();
      CAIRN_ASSIGN_OR_RETURN(Buffer memory, backend.allocate(n_pages * page_bytes));
      std::vector<std::byte*> pages(n_pages);
      for (size_t p = 0; p < n_pages; ++p) pages[p] = memory.data() + p * page_bytes;
      sequence.memory_.push_back(std::move(memory));
      sequence.pages_.push_back(std::move(pages));
    }
    return sequence;
  }

  StepRows rows(std::span<const TokenId> tokens, size_t pos, LogitRows logits) const {
    StepRows rows;
    rows.tokens = tokens;
    rows.pos_begin = pos;
    for (const auto& pages : pages_) rows.pages.push_back(pages.data());
    rows.logits = logits;
    return rows;
  }

 private:
  std::vector<Buffer> memory_;
  std::vector<std::vector<std::byte*>> pages_;
};

class Bench {
 public:
  Bench(Model& model, const CacheGeometry& geometry) : model_(model), geometry_(geometry) {
    const uint32_t vocab_size = model.spec().vocab_size;
    ids_.resize(4096);
    for (size_t i = 0; i < ids_.size(); ++i)
      ids_[i] = static_cast<TokenId>((i * 7919 + 17) % vocab_size);
  }

  // Tokens per second of prefilling n ids into an empty sequence, logits of the last row included.
  Result<double> prefill(size_t n) {
    CAIRN_ASSIGN_OR_RETURN(const BenchSequence sequence,
                           BenchSequence::make(model_.backend(), geometry_, n));
    const auto begin = std::chrono::steady_clock::now();
    for (size_t pos = 0; pos < n;) {
      const size_t count = std::min(kChunkTokens, n - pos);
      const LogitRows logits = pos + count == n ? LogitRows::kLast : LogitRows::kNone;
      const StepRows rows = sequence.rows(ids(count), pos, logits);
      CAIRN_RETURN_IF_ERROR(model_.forward(std::span(&rows, 1), geometry_).status());
      pos += count;
    }
    model_.backend().synchronize();
    return static_cast<double>(n) / seconds_since(begin);
  }

  // Tokens per second of `n` steps of `batch` sequences that hold `context` rows each.
  Result<double> decode(size_t context, size_t batch, size_t n) {
    std::vector<BenchSequence> sequences;
    for (size_t b = 0; b < batch; ++b) {
      CAIRN_ASSIGN_OR_RETURN(BenchSequence sequence,
                             BenchSequence::make(model_.backend(), geometry_, context + n));
      sequences.push_back(std::move(sequence));
    }
    std::vector<LogitSummary> summaries(batch);
    const auto begin = std::chrono::steady_clock::now();
    for (size_t step = 0; step < n; ++step) {
      std::vector<StepRows> rows;
      for (const BenchSequence& sequence : sequences)
        rows.push_back(sequence.rows(ids(1), context + step, LogitRows::kLast));
      CAIRN_ASSIGN_OR_RETURN(const Model::StepLogits logits, model_.forward(rows, geometry_));
      SampleReduceArgs reduce;
      reduce.logits = logits.logits;
      reduce.n_rows = logits.n_rows;
      reduce.row_stride = logits.row_stride;
      reduce.n_ids = model_.spec().vocab_size;
      reduce.out = summaries.data();
      model_.backend().sample_reduce(reduce);
      model_.backend().synchronize();
    }
    return static_cast<double>(n * batch) / seconds_since(begin);
  }

 private:
  std::span<const TokenId> ids(size_t n) const { return std::span(ids_).first(n); }

  static double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  Model& model_;
  const CacheGeometry& geometry_;
  std::vector<TokenId> ids_;
};

// Multiply-adds of one prefilled token at mean context n / 2, counted as two operations each; the
// output product is left out (it runs once).
double flops_per_token(const ModelSpec& spec, size_t n) {
  double flops = 2.0 * static_cast<double>(spec.n_matmul_parameters());
  for (const LayerSpec& layer : spec.layers) {
    const double width = static_cast<double>(layer.attention.n_heads) * layer.attention.head_dim;
    double positions = static_cast<double>(n) / 2;
    if (layer.attention.window != 0)
      positions = std::min(positions, static_cast<double>(layer.attention.window));
    flops += 4.0 * width * positions;
  }
  return flops;
}

struct Measured {
  Json prefill = Json::array();
  Json decode = Json::array();
};

template <typename Run>
Result<Spread> repeat(uint64_t reps, const Run& run) {
  CAIRN_RETURN_IF_ERROR(run().status());  // warm-up: scratch memory, clocks, page tables
  std::vector<double> values;
  for (uint64_t r = 0; r < reps; ++r) {
    CAIRN_ASSIGN_OR_RETURN(const double value, run());
    values.push_back(value);
  }
  return spread_of(std::move(values));
}

Result<Measured> measure(Model& model,
                         const CacheGeometry& geometry,
                         const BenchFlags& flags,
                         double gflops,
                         KernelPool& pool) {
  Bench bench(model, geometry);
  Measured out;
  for (const uint64_t n : flags.prefill) {
    CAIRN_ASSIGN_OR_RETURN(const Spread s, repeat(flags.reps, [&] { return bench.prefill(n); }));
    const double share = s.median * flops_per_token(model.spec(), n) / 1e9 / gflops;
    out.prefill.push_back(
        {{"n", n}, {"tok_s", to_json(s)}, {"peak_share", json_float(static_cast<float>(share))}});
  }
  double row_bytes = 0;
  for (const CacheGroup& group : geometry.groups) {
    row_bytes += static_cast<double>(group.layout.payload_bytes()) / geometry.page_tokens;
  }
  for (const uint64_t context : flags.context) {
    for (const uint64_t batch : flags.batch) {
      const double before = measure_read_gb_s(pool);
      CAIRN_ASSIGN_OR_RETURN(const Spread s, repeat(flags.reps, [&] {
                               return bench.decode(context, batch, flags.decode);
                             }));
      const double bandwidth = std::max(before, measure_read_gb_s(pool));
      const double positions = static_cast<double>(context) + static_cast<double>(flags.decode) / 2;
      const double bytes_per_token =
          static_cast<double>(model.weight_bytes()) / static_cast<double>(batch) +
          positions * row_bytes;
      const double share = s.median * bytes_per_token / 1e9 / bandwidth;
      out.decode.push_back({{"context", context},
                            {"batch", batch},
                            {"tok_s", to_json(s)},
                            {"bandwidth_share", json_float(static_cast<float>(share))}});
    }
  }
  return out;
}

void print_table(const Json& result) {
  const Json& limits = result["limits"];
  std::printf("limits   %.0f GFLOP/s, %.1f GB/s read\n",
              limits["gflops"].get<double>(),
              limits["read_gb_s"].get<double>());
  for (const Json& row : result["prefill"]) {
    std::printf("prefill  %6llu tokens            %9.1f tok/s (%.1f to %.1f)  %5.1f %% of peak\n",
                row["n"].get<unsigned long long>(),
                row["tok_s"]["median"].get<double>(),
                row["tok_s"]["min"].get<double>(),
                row["tok_s"]["max"].get<double>(),
                row["peak_share"].get<double>() * 100);
  }
  for (const Json& row : result["decode"]) {
    std::printf(
        "decode   %6llu context, batch %-3llu %9.1f tok/s (%.1f to %.1f)  %5.1f %% of bandwidth\n",
        row["context"].get<unsigned long long>(),
        row["batch"].get<unsigned long long>(),
        row["tok_s"]["median"].get<double>(),
        row["tok_s"]["min"].get<double>(),
        row["tok_s"]["max"].get<double>(),
        row["bandwidth_share"].get<double>() * 100);
  }
}

Status run(const BenchFlags& flags) {
  CAIRN_ASSIGN_OR_RETURN(const std::string dir, resolve_model(flags.model));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, flags.compute.make_backend());
  CAIRN_ASSIGN_OR_RETURN(const RowEncoding encoding, flags.compute.row_encoding());
  CAIRN_ASSIGN_OR_RETURN(const Isa isa, parse_isa(flags.compute.isa));
  const Precision precision = flags.compute.precision == "f32" ? Precision::kF32 : Precision::kFast;
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                         load_model(dir, *backend, flags.compute));
  const CacheGeometry geometry = model->spec().cache_geometry(encoding);

  KernelPool pool(backend->n_threads());
  const MachineLimits limits = measure_limits(isa, precision, pool);
  CAIRN_ASSIGN_OR_RETURN(const Measured measured,
                         measure(*model, geometry, flags, limits.gflops, pool));
  Json result;
  result["prefill"] = measured.prefill;
  result["decode"] = measured.decode;
  result["limits"] = {{"gflops", json_float(static_cast<float>(limits.gflops))},
                      {"read_gb_s", json_float(static_cast<float>(limits.read_gb_s))}};
  result["conditions"] = {{"model", default_model_name(flags.model)},
                          {"threads", backend->n_threads()},
                          {"kernels", backend->numerics_version()},
                          {"kv", to_string(encoding)},
                          {"decode_steps", flags.decode},
                          {"reps", flags.reps},
                          {"weight_bytes", model->weight_bytes()}};
  if (flags.json) {
    std::printf("%s\n", dump_json(result).c_str());
  } else {
    print_table(result);
  }
  return Status::ok();
}

}  // namespace

int run_bench(int argc, const char* const* argv) {
  BenchFlags flags;
  Arguments arguments("bench",
                      "Measure prefill and decode, as shares of what this machine can do.");
  arguments.required_text("--model", &flags.model, kModelHelp);
  arguments.integers("--prefill", &flags.prefill, 1, 1 << 20, "Prompt lengths");
  arguments.integer("--decode", &flags.decode, 1, 1 << 20, "Tokens to decode in each run");
  arguments.integers("--context", &flags.context, 0, 1 << 20, "Rows in the cache before decoding");
  arguments.integers("--batch", &flags.batch, 1, 256, "Sequences decoded together");
  arguments.integer("--reps", &flags.reps, 1, 1000, "Runs of each; the median is the figure");
  arguments.flag("--json", &flags.json, "Print JSON");
  flags.compute.declare(arguments);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  const Status status = run(flags);
  return status.is_ok() ? kExitOk : report_failure(status);
}

}  // namespace cairn::cli
