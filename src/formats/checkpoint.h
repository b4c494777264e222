// A model's weights by name, over one file or several, safetensors or GGUF.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "formats/weight_files.h"
#include "tensor/buffer.h"

namespace cairn {

// Lazily mapped named tensors: opening reads the headers, the system reads a tensor's bytes when
// they are touched. Tensors of GGUF files go by the names of published Llama-like checkpoints
// (published_name). Immutable; any thread. Views stay valid while the checkpoint lives; their bytes
// may be unaligned (see SafetensorsFile).
class Checkpoint {
 public:
  // Opens the files that find_weight_files() finds. With an index, every name must be in the shard
  // it is mapped to and in no other; shards are named by plain file names, so that an index cannot
  // point outside its folder. Errors: kNotFound (nothing there; says what was looked for),
  // kInvalidArgument (several models; parts of a set that do not fit together), kUnsupported
  // (another format), kCorruption.
  static Result<std::shared_ptr<const Checkpoint>> open(const std::string& path);

  const std::string& path() const { return path_; }  // that open() was given

  WeightFormat format() const { return format_; }

  bool has(std::string_view name) const;
  // Errors: kNotFound, naming the most similar names that exist.
  Result<TensorView> find(std::string_view name) const;

  std::vector<std::string> names() const;  // sorted

  size_t n_tensors() const { return places_.size(); }

  uint64_t total_bytes() const;            // of the tensors
  std::vector<std::string> files() const;  // paths, in the order of their names
  std::string folder() const;              // that holds the first file

  // One of the two is empty.
  const std::vector<SafetensorsFile>& safetensors_files() const { return safetensors_files_; }

  const std::vector<GgufFile>& gguf_files() const { return gguf_files_; }

  // Of the first file, which speaks for a set; null for safetensors.
  const GgufMetadata* gguf_metadata() const;

  // Whether the rows of q and k lie pair beside pair, as rotary embedding by neighbours wants them
  // (llama files), and not half after half: row h * d + 2 * i + s of the file is then row
  // h * d + s * d / 2 + i of the published checkpoint, for heads h of d rotary dimensions.
  bool has_interleaved_heads() const;

 private:
  struct Place {
    size_t file_idx = 0;
    size_t tensor_idx = 0;
  };

  Checkpoint() = default;
  Status add_safetensors(const std::string& path);
  Status add_gguf(const std::string& path, size_t n_files);
  Status add_tensors(const std::vector<TensorInfo>& tensors, size_t file_idx);
  Status check_index(const std::map<std::string, std::string>& weight_map) const;
  TensorView view(const Place& place) const;
  size_t n_files() const;
  const std::string& file_path(size_t idx) const;

  std::string path_;
  WeightFormat format_ = WeightFormat::kSafetensors;
  std::vector<SafetensorsFile> safetensors_files_;
  std::vector<GgufFile> gguf_files_;
  std::map<std::string, Place, std::less<>> places_;
};

// "blk.3.attn_q.weight" <-> "model.layers.3.self_attn.q_proj.weight" and so on; names that are in
// neither list keep what is unknown of them. Source: gguf-py, tensor_mapping.py.
std::string published_name(std::string_view gguf_name);
std::string gguf_name(std::string_view published_name);

// The "weight_map" of a model.safetensors.index.json: tensor name -> shard file name, both checked.
// Errors: kCorruption for bad JSON, a missing or doubled weight_map, a name given twice, or a shard
// name that is not a plain file name.
Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view json);

}  // namespace cairn
