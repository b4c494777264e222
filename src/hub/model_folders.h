// Models that are on this machine, by the names they have on a hub.
//
// Looked for in our own folder (pull.h) first, then in the cache that Hugging Face programs keep:
// models--<org>--<repo>/refs/<revision> holds a commit, snapshots/<commit>/ its files (links).
// Source of that layout: huggingface_hub's documentation, "Understand caching". Nothing is written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/hub_settings.h"
#include "hub/model_name.h"

namespace cairn {

// What a loader opens: a folder with safetensors, or one GGUF file. Errors: kNotFound (what was
// looked for, where, and the command that fetches it), kInvalidArgument (several GGUFs),
// kCorruption (a pull that was not finished).
Result<std::string> find_model(const ModelName& name, const ModelPlaces& places);

struct StoredModel {
  std::string name;  // that find_model() takes
  std::string path;
  uint64_t size_bytes = 0;
  bool is_complete = true;
  bool is_ours = true;  // false: in the cache of Hugging Face programs
};

// All models in both places, sorted by name, one entry a GGUF. Folders that cannot be read are
// passed over.
std::vector<StoredModel> list_models(const ModelPlaces& places);

}  // namespace cairn
