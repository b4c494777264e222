// From what people write after --model to a folder on disk.
#pragma once

#include <string>

#include "base/result.h"

namespace cairn::cli {

// For the help of every --model.
inline constexpr const char* kModelHelp =
    "Model folder, GGUF file, ORG/REPO[:QUANT] that `cairn pull` fetched, or \"demo\"";

// `text`, in this order: the path of a Hugging Face folder, of a GGUF file or of a folder with one;
// "demo" (the bundled model, found from any working folder, in the build tree or installed); the
// name of a model that was pulled, or that is in the cache of Hugging Face programs
// (hub/model_folders.h). Errors: kNotFound (nothing there; what was looked for), kUnsupported
// (other files), kInvalidArgument and kCorruption of find_model().
Result<std::string> resolve_model(const std::string& text);

// The same for commands that also take a weights file of another kind: any path that is there.
Result<std::string> resolve_path(const std::string& text);

// The name a model is served under when none was given: the folder's or file's own name, "demo"
// for the demo, a hub's name as it was written.
std::string default_model_name(const std::string& text);

}  // namespace cairn::cli
