// From what people write after --model to a folder on disk.
#pragma once

#include <string>

#include "base/result.h"

namespace cairn::cli {

// `text`: "demo" (the bundled model, found from any working folder, in the build tree or installed)
// or the path of a Hugging Face folder, of a GGUF file or of a folder with one. Errors: kNotFound
// (nothing there; what was looked for), kUnsupported (other files).
Result<std::string> resolve_model(const std::string& text);

// The name a model is served under when none was given: the folder's or file's own name, "demo"
// for the demo.
std::string default_model_name(const std::string& text);

}  // namespace cairn::cli
