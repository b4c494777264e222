// Which files hold a model's weights, given what a person named. Private to formats.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn {

enum class WeightFormat { kSafetensors, kGguf };

struct WeightFiles {
  WeightFormat format = WeightFormat::kSafetensors;
  std::vector<std::string> paths;  // shards in order
  // Of safetensors shards with an index: tensor name -> file name.
  std::optional<std::map<std::string, std::string>> weight_map;
};

// `path` itself when it is a .safetensors or .gguf file. In a folder, in this order:
// model.safetensors, the shards of model.safetensors.index.json, the only *.safetensors, the only
// *.gguf (files of a vision part, mmproj*.gguf, do not count). A .gguf whose name ends in
// -00001-of-00003.gguf stands for its whole set. Errors: kNotFound, kInvalidArgument (several
// candidates, missing members of a set), kUnsupported (another format), kCorruption (the index).
Result<WeightFiles> find_weight_files(const std::string& path);

}  // namespace cairn
