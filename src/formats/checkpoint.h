// A model's weights by name, over one safetensors file or over shards with an index.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/safetensors.h"
#include "tensor/buffer.h"

namespace cairn {

// Lazily mapped named tensors: opening reads the headers, the system reads a tensor's bytes when
// they are touched. Immutable; any thread. Views stay valid while the checkpoint lives; their bytes
// may be unaligned (see SafetensorsFile).
class Checkpoint {
 public:
  // Opens, in this order of preference, `path` itself when it is a .safetensors file, and in a
  // folder model.safetensors, the shards named by model.safetensors.index.json, or the only
  // *.safetensors. With an index, every name must be in the shard it is mapped to and in no other;
  // shards are named by plain file names, so that an index cannot point outside its folder. Errors:
  // kNotFound (nothing there; says what was looked for), kInvalidArgument (several files and no
  // index), kUnsupported (another format), kCorruption.
  static Result<std::shared_ptr<const Checkpoint>> open(const std::string& path);

  bool has(std::string_view name) const;
  // Errors: kNotFound, naming the most similar names that exist.
  Result<TensorView> find(std::string_view name) const;

  std::vector<std::string> names() const;  // sorted

  size_t n_tensors() const { return places_.size(); }

  uint64_t total_bytes() const;            // of the tensors
  std::vector<std::string> files() const;  // paths, in the order of their names

  const std::vector<SafetensorsFile>& shards() const { return files_; }

 private:
  struct Place {
    size_t file_idx = 0;
    size_t tensor_idx = 0;
  };

  Checkpoint() = default;
  Status add_file(const std::string& path);
  Status check_index(const std::map<std::string, std::string>& weight_map) const;
  static Result<std::shared_ptr<const Checkpoint>> open_files(
      const std::vector<std::string>& paths, const std::map<std::string, std::string>* weight_map);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place, std::less<>> places_;
};

// The "weight_map" of a model.safetensors.index.json: tensor name -> shard file name, both checked.
// Errors: kCorruption for bad JSON, a missing or doubled weight_map, a name given twice, or a shard
// name that is not a plain file name.
Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view json);

}  // namespace cairn
