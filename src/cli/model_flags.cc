#include "cli/model_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/file_system.h"
#include "base/log.h"
#include "base/options.h"
#include "cli/progress_line.h"

namespace cairn::cli {
namespace {

std::string default_packed_dir() {
  return default_cache_dir() + "/packed";
}

PackedCacheOptions packed_options(const std::string& flag, const std::string& model_folder) {
  PackedCacheOptions options;
  if (flag == "none") return options;
  if (!flag.empty()) {
    options.folders = {flag};
    return options;
  }
  options.folders = {(std::filesystem::path(model_folder) / ".cairn").string(),
                     default_packed_dir()};
  return options;
}

}  // namespace

void ComputeFlags::declare(Arguments& arguments) {
  arguments.choice("--isa",
                   &isa,
                   {"auto", "avx2", "avx512", "avx512bf16"},
                   "Instruction-set class of the kernels");
  arguments.choice(
      "--precision", &precision, {"fast", "f32"}, "f32 is the slow reference and implies --kv f32");
  arguments.choice("--kv", &kv, {"f32", "bf16"}, "Encoding of cached rows; default bf16");
  arguments.integer("--threads", &threads, 0, 1024, "Compute threads; 0 = every usable processor");
  arguments.text("--packed",
                 &packed,
                 "Folder of packed weights, which make the next start fast, or \"none\"; default "
                 ".cairn beside the model, else " +
                     default_packed_dir());
}

Result<std::unique_ptr<Backend>> ComputeFlags::make_backend() const {
  CpuBackendOptions options;
  CAIRN_ASSIGN_OR_RETURN(options.isa, parse_isa(isa));
  options.precision = precision == "f32" ? Precision::kF32 : Precision::kFast;
  options.n_threads = threads != 0 ? static_cast<unsigned>(threads) : n_usable_cpus();
  return make_cpu_backend(options);
}

Result<RowEncoding> ComputeFlags::row_encoding() const {
  if (!kv.empty()) return parse_row_encoding(kv);
  return precision == "f32" ? RowEncoding::kF32 : RowEncoding::kBf16;
}

void CacheFlags::declare(Arguments& arguments) {
  arguments.text("--store",
                 &store,
                 "Folder of the durable cache, or \"none\"; default " + default_cache_dir());
  arguments.size("--store-max", &store_max, "Most bytes the store's folder may hold");
  arguments.text("--store-key-file",
                 &store_key_file,
                 "File with the 32-byte key that seals the store; default $CAIRN_STORE_KEY_FILE, "
                 "else it is not sealed");
  arguments.size("--cache-ram",
                 &cache_ram,
                 "Memory for cached pages; 0 = a quarter of what is free, at most 8 GiB");
  arguments.choice(
      "--restore", &restore, {"auto", "always", "never"}, "When to read cached pages from disk");
  arguments.duration(
      "--leaf-delay", &leaf_delay, "How long a conversation idles before its last page is written");
}

TieredCacheOptions CacheFlags::cache_options() const {
  constexpr uint64_t kMostByDefault = uint64_t{8} << 30;
  TieredCacheOptions options;
  options.ram_budget_bytes =
      cache_ram != 0 ? cache_ram : std::min(available_memory_bytes() / 4, kMostByDefault);
  options.restore = restore_mode();
  options.leaf_delay = leaf_delay;
  options.store_max_bytes = store_max;
  return options;
}

RestoreMode CacheFlags::restore_mode() const {
  if (restore == "always") return RestoreMode::kAlways;
  return restore == "never" ? RestoreMode::kNever : RestoreMode::kAuto;
}

std::optional<std::string> CacheFlags::store_directory() const {
  if (store == "none") return std::nullopt;
  return store.empty() ? default_cache_dir() : store;
}

Result<std::shared_ptr<const StoreKey>> CacheFlags::store_key() const {
  const std::string path =
      store_key_file.empty() ? env("CAIRN_STORE_KEY_FILE").value_or("") : store_key_file;
  if (path.empty()) return std::shared_ptr<const StoreKey>();
  CAIRN_ASSIGN_OR_RETURN(StoreKey key, StoreKey::read(path));
  return std::make_shared<const StoreKey>(std::move(key));
}

Result<uint32_t> context_for(const ModelSpec& spec, std::optional<uint64_t> asked) {
  if (!asked) return static_cast<uint32_t>(std::min<uint64_t>(spec.max_positions, kDefaultContext));
  if (*asked > spec.max_positions) {
    return Status::invalid_argument(fmt::format(
        "--ctx {} is more than the {} positions the model was made for; give at most {}",
        *asked,
        spec.max_positions,
        spec.max_positions));
  }
  return static_cast<uint32_t>(*asked);
}

Result<std::unique_ptr<Model>> load_model(const Checkpoint& checkpoint,
                                          Backend& backend,
                                          const ComputeFlags& flags) {
  LoadOptions options;
  options.packed = packed_options(flags.packed, checkpoint.folder());
  options.identity_cache_dir = default_cache_dir() + "/identity";
  ProgressLine line;
  options.progress = line.reporter();
  return Model::load(checkpoint, backend, options);
}

Result<std::unique_ptr<Model>> load_model(const std::string& path,
                                          Backend& backend,
                                          const ComputeFlags& flags) {
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint,
                         Checkpoint::open(path));
  return load_model(*checkpoint, backend, flags);
}

std::vector<TokenId> stop_ids_of(const GenerationConfig& generation, uint32_t n_ids) {
  for (const uint32_t id : generation.eos_token_ids) {
    if (id < n_ids) continue;
    log_warning(
        "eos_token_id {} is not among the {} ids of this model: no reply ends with it", id, n_ids);
  }
  return {generation.eos_token_ids.begin(), generation.eos_token_ids.end()};
}

int report_failure(const Status& status) {
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return kExitFailed;
}

}  // namespace cairn::cli
