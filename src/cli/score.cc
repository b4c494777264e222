// `cairn score`: the logits of given ids, through the forward pass and the cache that serving uses.
#include "engine/score.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>

#include "base/json.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/id_files.h"
#include "cli/model_flags.h"
#include "cli/model_paths.h"
#include "formats/safetensors.h"
#include "store/tiered_cache.h"

namespace cairn::cli {
namespace {

struct ScoreFlags {
  std::string model, ids, out, batch_with, store = "none", rows = "all";
  uint64_t chunk = 0;
  std::optional<uint64_t> reuse_at;
  uint64_t cache_ram = 0;
  bool ppl = false;
  ComputeFlags compute;
};

// Rows of one sequence as they come.
struct CollectedRows {
  size_t first_row = SIZE_MAX;
  std::vector<float> logits;
};

// The disk tier without an engine around it: replies are waited for between steps.
class ScoreCache {
 public:
  ScoreCache(Backend& backend, const Clock& clock, const TieredCacheOptions& options)
      : cache_(backend, clock, options), clock_(clock) {}

  Status attach(const std::string& directory) {
    StoreOptions options;
    options.directory = directory;
    OpenReport report;
    CAIRN_ASSIGN_OR_RETURN(auto files,
                           StoreFiles::open(posix_file_system(), clock_, options, &report));
    cache_.attach_disk(std::move(files), std::move(report), [this](StoreReply reply) {
      replies_.push_reply(std::move(reply));
    });
    return Status::ok();
  }

  void wait_for_replies() {
    auto reply =
        replies_.pop_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(10));
    if (reply) cache_.on_reply(std::move(*reply));
    cache_.poll();
  }

  Status flush() {
    bool done = false;
    Status result;
    cache_.flush([&](FlushReport report) {
      result = report.status;
      done = true;
    });
    while (!done) wait_for_replies();
    return result;
  }

  TieredCache& cache() { return cache_; }

 private:
  Mailbox<StoreReply> replies_{1024};  // outlives the cache's disk threads
  TieredCache cache_;
  const Clock& clock_;
};

double log_softmax_at(std::span<const float> row, TokenId id) {
  double max = -std::numeric_limits<double>::infinity();
  for (const float v : row) max = std::max(max, static_cast<double>(v));
  double sum = 0;
  for (const float v : row) sum += std::exp(static_cast<double>(v) - max);
  return static_cast<double>(row[id]) - max - std::log(sum);
}

void print_perplexity(const IdLists& ids,
                      const std::vector<CollectedRows>& rows,
                      size_t vocab_size) {
  double sum = 0;
  size_t count = 0;
  for (size_t s = 0; s < ids.lists.size(); ++s) {
    const std::vector<TokenId>& list = ids.lists[s];
    const size_t n_rows = rows[s].logits.size() / vocab_size;
    for (size_t r = 0; r < n_rows; ++r) {
      const size_t next = rows[s].first_row + r + 1;
      if (next >= list.size()) break;
      sum -=
          log_softmax_at(std::span(rows[s].logits).subspan(r * vocab_size, vocab_size), list[next]);
      ++count;
    }
  }
  Json result;
  result["tokens"] = count;
  result["nll"] = count == 0 ? Json(nullptr) : Json(sum / static_cast<double>(count));
  result["ppl"] = count == 0 ? Json(nullptr) : Json(std::exp(sum / static_cast<double>(count)));
  std::printf("%s\n", dump_json(result).c_str());
}

Status write_logits(const std::string& path,
                    const IdLists& ids,
                    const std::vector<CollectedRows>& rows,
                    size_t vocab_size) {
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  for (size_t s = 0; s < rows.size(); ++s) {
    const std::string suffix = ids.is_single ? "" : fmt::format(".{}", s);
    TensorInfo info;
    info.name = "logits" + suffix;
    info.dtype = DType::kF32;
    info.shape = {static_cast<int64_t>(rows[s].logits.size() / vocab_size),
                  static_cast<int64_t>(vocab_size)};
    tensors.push_back(std::move(info));
    metadata["first_row" + suffix] = std::to_string(rows[s].first_row);
  }
  CAIRN_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                         SafetensorsWriter::create(path, tensors, metadata));
  for (const CollectedRows& collected : rows) {
    CAIRN_RETURN_IF_ERROR(writer.write(std::as_bytes(std::span(collected.logits))));
  }
  return writer.finish();
}

// Found out before the work, not after it.
Status check_output_folder(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (folder.empty() || std::filesystem::is_directory(folder, ignored)) return Status::ok();
  return Status::not_found(
      fmt::format("--out {}: there is no folder {}; make it first", path, folder.string()));
}

Status run(const ScoreFlags& flags) {
  CAIRN_RETURN_IF_ERROR(check_output_folder(flags.out));
  CAIRN_ASSIGN_OR_RETURN(const IdLists ids, read_id_file(flags.ids));
  ScoreOptions options;
  if (!flags.batch_with.empty()) {
    CAIRN_ASSIGN_OR_RETURN(IdLists others, read_id_file(flags.batch_with));
    options.batch_with = std::move(others.lists);
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string dir, resolve_model(flags.model));
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, flags.compute.make_backend());
  CAIRN_ASSIGN_OR_RETURN(const RowEncoding encoding, flags.compute.row_encoding());
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                         load_model(dir, *backend, flags.compute));

  CacheFlags cache_flags;
  cache_flags.cache_ram = flags.cache_ram;
  cache_flags.restore = "always";
  const SystemClock clock;
  ScoreCache cache(*backend, clock, cache_flags.cache_options());
  const bool with_store = flags.store != "none";
  if (with_store) CAIRN_RETURN_IF_ERROR(cache.attach(flags.store));

  RootSpec root;
  root.model_identity = model->identity();
  root.geometry = model->spec().cache_geometry(encoding);
  root.numerics_version = backend->numerics_version();
  root.model_label = default_model_name(flags.model);
  const uint32_t root_index = cache.cache().add_root(root);

  options.chunk = flags.chunk;
  options.reuse_at = flags.reuse_at.value_or(SIZE_MAX);
  options.use_cache = with_store;
  options.last_row_only = flags.rows == "last";
  options.wait_for_replies = [&cache] { cache.wait_for_replies(); };

  const size_t vocab_size = model->spec().vocab_size;
  std::vector<CollectedRows> rows(ids.lists.size());
  const auto collect = [&](size_t sequence, size_t position, std::span<const float> logits) {
    rows[sequence].first_row = std::min(rows[sequence].first_row, position);
    rows[sequence].logits.insert(rows[sequence].logits.end(), logits.begin(), logits.end());
    return Status::ok();
  };
  CAIRN_ASSIGN_OR_RETURN(
      const std::vector<ScoredSequence> scored,
      score(*model, cache.cache(), root_index, root.geometry, ids.lists, options, collect));
  for (size_t s = 0; s < scored.size(); ++s) {
    log_info("sequence {}: {} ids, {} reused from memory, {} from disk",
             s,
             ids.lists[s].size(),
             scored[s].reuse.device_tokens,
             scored[s].reuse.disk_tokens);
  }
  if (with_store) CAIRN_RETURN_IF_ERROR(cache.flush());
  CAIRN_RETURN_IF_ERROR(write_logits(flags.out, ids, rows, vocab_size));
  if (flags.ppl) print_perplexity(ids, rows, vocab_size);
  return Status::ok();
}

}  // namespace

int run_score(int argc, const char* const* argv) {
  ScoreFlags flags;
  Arguments arguments(
      "score", "Write the logits of given token ids: row i is the distribution after ids[0..i].");
  arguments.required_text("--model", &flags.model, kModelHelp);
  arguments.required_text(
      "--ids", &flags.ids, "File with {\"ids\": [...]} or a list of lists (run as one batch)");
  arguments.required_text("--out", &flags.out, "Safetensors file to write");
  arguments.integer("--chunk",
                    &flags.chunk,
                    0,
                    65536,
                    "Prefill in chunks of so many ids; 0 = as the engine would");
  arguments.text(
      "--store", &flags.store, "Cache folder to read pages from and publish them to, or \"none\"");
  arguments.optional_integer(
      "--reuse-at", &flags.reuse_at, 0, UINT32_MAX, "Reuse at most so many ids from the cache");
  arguments.size("--cache-ram", &flags.cache_ram, "Memory for pages; 0 = as `cairn serve`");
  arguments.text(
      "--batch-with", &flags.batch_with, "File of id lists that run beside in the same steps");
  arguments.choice("--rows", &flags.rows, {"all", "last"}, "Which rows to write");
  arguments.flag("--ppl", &flags.ppl, "Print the perplexity of the ids as JSON");
  flags.compute.declare(arguments);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  const Status status = run(flags);
  return status.is_ok() ? kExitOk : report_failure(status);
}

}  // namespace cairn::cli
