#include "formats/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/file_system.h"
#include "formats/json_stream.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSuffix = ".safetensors";
constexpr uint64_t kMaxIndexBytes = 256 << 20;
constexpr size_t kMaxShards = 4096;

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos && name != "." && name != "..";
}

// {"metadata": anything, "weight_map": {name: file}}; other keys are passed over.
class IndexVisitor final : public JsonVisitor {
 public:
  Status on_begin_object() override {
    if (++depth_ == 2 && key_ == "weight_map") {
      if (std::exchange(seen_map_, true)) return Status::corruption("weight_map is given twice");
      in_map_ = true;
      return Status::ok();
    }
    return refuse_in_map("an object");
  }

  Status on_end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return Status::ok();
  }

  Status on_begin_array() override {
    ++depth_;
    return depth_ == 1 ? Status::corruption("an array, wanted an object")
                       : refuse_in_map("an array");
  }

  Status on_end_array() override {
    --depth_;
    return Status::ok();
  }

  Status on_key(std::string_view key) override {
    key_ = key;
    return Status::ok();
  }

  Status on_string(std::string_view text) override {
    if (!in_map_) return Status::ok();
    if (!is_plain_file_name(text)) {
      return Status::corruption(
          fmt::format("tensor {:?} is mapped to {:?}; wanted a plain file name in the same folder",
                      key_,
                      text));
    }
    if (!map_.emplace(key_, text).second) {
      return Status::corruption(fmt::format("tensor {:?} is mapped twice", key_));
    }
    return Status::ok();
  }

  Status on_unsigned(uint64_t) override { return refuse_in_map("a number"); }

  Status on_other(std::string_view what) override { return refuse_in_map(what); }

  bool seen_map() const { return seen_map_; }

  std::map<std::string, std::string> take() { return std::move(map_); }

 private:
  Status refuse_in_map(std::string_view what) const {
    if (!in_map_) return Status::ok();
    return Status::corruption(
        fmt::format("tensor {:?} is mapped to {}, wanted a file name", key_, what));
  }

  int depth_ = 0;
  bool in_map_ = false;
  bool seen_map_ = false;
  std::string key_;
  std::map<std::string, std::string> map_;
};

// Levenshtein distance; names are short and this runs on the way to an error.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string nearest_names(const std::vector<std::string>& names, std::string_view wanted) {
  constexpr size_t kMaxCompared = 4000;
  constexpr size_t kMaxLength = 200;
  constexpr size_t kShown = 3;
  std::vector<std::pair<size_t, std::string_view>> ranked;
  for (size_t i = 0; i < std::min(names.size(), kMaxCompared); ++i) {
    const std::string_view name = names[i];
    ranked.emplace_back(edit_distance(name.substr(0, kMaxLength), wanted.substr(0, kMaxLength)),
                        name);
  }
  const size_t n_shown = std::min(kShown, ranked.size());
  std::partial_sort(
      ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(n_shown), ranked.end());
  std::string text;
  for (size_t i = 0; i < n_shown; ++i) {
    text += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", ranked[i].second);
  }
  return text;
}

// Files of another format that people point at, with what to do about each.
Status nothing_usable(const std::string& folder, const std::vector<std::string>& others) {
  if (!others.empty()) {
    return Status::unsupported(fmt::format(
        "{} holds {} but no safetensors file; this version reads safetensors only: convert "
        "the model, or download its safetensors files",
        folder,
        others.front()));
  }
  return Status::not_found(fmt::format("{} has no weights: looked for {}, {} and a single *{}",
                                       folder,
                                       kSingleName,
                                       kIndexName,
                                       kSuffix));
}

Result<std::vector<std::string>> only_weights_file(const std::string& folder) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<DirEntry> entries, posix_file_system().list(folder));
  std::vector<std::string> found;
  std::vector<std::string> others;
  for (const DirEntry& entry : entries) {
    if (entry.is_directory) continue;
    const std::string extension = fs::path(entry.name).extension().string();
    if (extension == kSuffix) found.push_back(entry.name);
    if (extension == ".gguf" || extension == ".bin" || extension == ".pth" || extension == ".pt") {
      others.push_back(entry.name);
    }
  }
  if (found.empty()) return nothing_usable(folder, others);
  if (found.size() > 1) {
    std::sort(found.begin(), found.end());
    return Status::invalid_argument(
        fmt::format("{} has {} safetensors files ({}, {}, ...) and no {} that says which tensor is "
                    "where: add the index, or name one file",
                    folder,
                    found.size(),
                    found[0],
                    found[1],
                    kIndexName));
  }
  return std::vector<std::string>{(fs::path(folder) / found.front()).string()};
}

}  // namespace

Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view json) {
  IndexVisitor visitor;
  CAIRN_RETURN_IF_ERROR(walk_json(json, 16, visitor));
  if (!visitor.seen_map()) return Status::corruption("no object \"weight_map\"");
  return visitor.take();
}

Status Checkpoint::add_file(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const std::string& name = file.tensors()[i].name;
    const auto [at, added] = places_.emplace(name, Place{files_.size(), i});
    if (!added) {
      return Status::corruption(fmt::format(
          "tensor {:?} is both in {} and in {}", name, files_[at->second.file_idx].path(), path));
    }
  }
  files_.push_back(std::move(file));
  return Status::ok();
}

Status Checkpoint::check_index(const std::map<std::string, std::string>& weight_map) const {
  for (const auto& [name, shard] : weight_map) {
    const auto at = places_.find(name);
    const std::string found =
        at == places_.end() ? "no shard"
                            : fs::path(files_[at->second.file_idx].path()).filename().string();
    if (found != shard) {
      return Status::corruption(fmt::format(
          "{} maps tensor {:?} to {}, but it is in {}", kIndexName, name, shard, found));
    }
  }
  return Status::ok();
}

Result<std::shared_ptr<const Checkpoint>> Checkpoint::open_files(
    const std::vector<std::string>& paths, const std::map<std::string, std::string>* weight_map) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());  // NOLINT: the constructor is private
  for (const std::string& path : paths) CAIRN_RETURN_IF_ERROR(checkpoint->add_file(path));
  if (weight_map != nullptr) CAIRN_RETURN_IF_ERROR(checkpoint->check_index(*weight_map));
  return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
}

Result<std::shared_ptr<const Checkpoint>> Checkpoint::open(const std::string& path) {
  FileSystem& files = posix_file_system();
  CAIRN_ASSIGN_OR_RETURN(const FileStat stat, files.stat(path));
  if (!stat.is_directory) {
    if (fs::path(path).extension() == kSuffix) return open_files({path}, nullptr);
    return Status::unsupported(
        fmt::format("{} is no *{} file; name a model folder or a safetensors file", path, kSuffix));
  }
  const std::string single = (fs::path(path) / kSingleName).string();
  if (files.stat(single).is_ok()) return open_files({single}, nullptr);
  const std::string index = (fs::path(path) / kIndexName).string();
  if (!files.stat(index).is_ok()) {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> only, only_weights_file(path));
    return open_files(only, nullptr);
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string text, read_text_file(files, index, kMaxIndexBytes));
  Result<std::map<std::string, std::string>> map = parse_safetensors_index(text);
  if (!map.is_ok()) return map.status().with_prefix(index);
  std::set<std::string> shards;
  for (const auto& [name, shard] : *map) shards.insert(shard);
  if (shards.empty() || shards.size() > kMaxShards) {
    return Status::corruption(
        fmt::format("{} names {} shards, wanted 1 to {}", index, shards.size(), kMaxShards));
  }
  std::vector<std::string> paths;
  for (const std::string& shard : shards) paths.push_back((fs::path(path) / shard).string());
  return open_files(paths, &*map);
}

bool Checkpoint::has(std::string_view name) const {
  return places_.find(name) != places_.end();
}

Result<TensorView> Checkpoint::find(std::string_view name) const {
  const auto at = places_.find(name);
  if (at != places_.end()) return files_[at->second.file_idx].tensor_at(at->second.tensor_idx);
  return Status::not_found(fmt::format(
      "no tensor \"{}\" among the {} of {}; the nearest are {}",
      name,
      places_.size(),
      files_.size() == 1 ? files_.front().path() : fmt::format("{} shards", files_.size()),
      places_.empty() ? "none" : nearest_names(names(), name)));
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> result;
  result.reserve(places_.size());
  for (const auto& [name, place] : places_) result.push_back(name);
  return result;
}

uint64_t Checkpoint::total_bytes() const {
  uint64_t total = 0;
  for (const SafetensorsFile& file : files_) {
    for (const TensorInfo& tensor : file.tensors()) total += tensor.n_bytes;
  }
  return total;
}

std::vector<std::string> Checkpoint::files() const {
  std::vector<std::string> result;
  for (const SafetensorsFile& file : files_) result.push_back(file.path());
  return result;
}

}  // namespace cairn
