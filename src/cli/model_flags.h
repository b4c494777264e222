// Options that several commands share, declared once, and what they load.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/arguments.h"
#include "engine/engine.h"
#include "formats/hf_config.h"
#include "kernels/backend.h"
#include "model/model.h"

namespace cairn::cli {

// --isa --precision --kv --threads --packed: what decides bits and speed.
struct ComputeFlags {
  std::string isa = "auto";
  std::string precision = "fast";
  std::string kv;        // empty: f32 with --precision f32, else bf16
  uint64_t threads = 0;  // 0: every usable processor
  std::string packed;    // folder of packed weights; empty: beside the model; "none": not kept

  void declare(Arguments& arguments);
  Result<std::unique_ptr<Backend>> make_backend() const;
  Result<RowEncoding> row_encoding() const;
};

// --store --store-max --store-key-file --cache-ram --restore --leaf-delay: the cache.
struct CacheFlags {
  std::string store;  // empty: the default folder; "none": memory alone
  uint64_t store_max = uint64_t{32} << 30;
  uint64_t cache_ram = 0;      // 0: a quarter of available memory, at most 8 GiB
  std::string store_key_file;  // empty: $CAIRN_STORE_KEY_FILE, else the store is not sealed
  std::string restore = "auto";
  std::chrono::milliseconds leaf_delay{1000};

  void declare(Arguments& arguments);
  TieredCacheOptions cache_options() const;
  RestoreMode restore_mode() const;
  // Nullopt for "none".
  std::optional<std::string> store_directory() const;
  // Null when the store is not to be sealed. Errors: as of StoreKey::read.
  Result<std::shared_ptr<const StoreKey>> store_key() const;
};

inline constexpr uint64_t kDefaultContext = 32768;

// The context a model is run with: what was asked for, else min(the model's own, 32,768).
// Errors: kInvalidArgument when more is asked for than the model has, with both numbers.
Result<uint32_t> context_for(const ModelSpec& spec, std::optional<uint64_t> asked);

// Weights, with a progress line on standard error when it is a terminal and loading takes long.
Result<std::unique_ptr<Model>> load_model(const Checkpoint& checkpoint,
                                          Backend& backend,
                                          const ComputeFlags& flags);
Result<std::unique_ptr<Model>> load_model(const std::string& path,
                                          Backend& backend,
                                          const ComputeFlags& flags);

// Ids that end a reply: of generation_config, else of config. One that is not below `n_ids` can
// never come and is worth a warning.
std::vector<TokenId> stop_ids_of(const GenerationConfig& generation, uint32_t n_ids);

// "error: ..." on standard error; returns kExitFailed.
int report_failure(const Status& status);

}  // namespace cairn::cli
