// What the commands make of --model: weights, text side and settings, loaded side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/model_flags.h"
#include "cli/model_text.h"
#include "formats/hf_config.h"
#include "model/model.h"

namespace cairn::cli {

struct LoadedModel {
  std::unique_ptr<Model> model;
  TextParts text;  // empty when it was not asked for
  GenerationConfig generation;
  uint32_t n_ids = 0;  // ids that may be drawn: the model's, but at most the tokenizer's
  std::vector<TokenId> stop_ids;
};

// Of weights alone.
inline constexpr const char* kNoText = nullptr;

// `path` as resolve_model() gives it. `template_file`: kNoText, or what load_text_parts() takes.
// The files are opened once; the tokenizer is built on a thread of its own while weights are packed
// or mapped. Errors: those of Checkpoint::open, load_text_parts, load_model_generation_config,
// Model::load, in this order.
Result<LoadedModel> load_model_and_text(const std::string& path,
                                        const char* template_file,
                                        Backend& backend,
                                        const ComputeFlags& flags);

}  // namespace cairn::cli
