// Which files of a repository make a model that Cairn runs.
//
// A GGUF file holds everything, so it is fetched alone. A safetensors model is its weights and the
// small files beside them at the top of the repository: configuration, tokenizer, chat template.
// Other formats of the same weights (.bin, .pt, onnx), folders, images and texts are left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/listing.h"
#include "hub/model_name.h"

namespace cairn {

struct Selection {
  std::vector<RepoFile> files;  // small files first, so that a wrong model shows early
  std::string gguf;             // the first part of the GGUF that was chosen; empty: safetensors
  std::string note;             // a choice that nobody asked for, in words; or empty
};

// A quantisation or a file in `name` means a GGUF; without either, safetensors are taken where both
// are there. Errors: kNotFound (nothing that runs; what was looked for and found),
// kInvalidArgument (several GGUFs), kCorruption (parts of a GGUF are missing).
Result<Selection> select_files(const Listing& listing, const ModelName& name);

}  // namespace cairn
