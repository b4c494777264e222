#include "formats/weight_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <utility>

#include "base/file_system.h"
#include "base/mapping.h"
#include "formats/checkpoint.h"
#include "formats/json_stream.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kGgufSuffix = ".gguf";
constexpr uint64_t kMaxIndexBytes = 64 << 20;
constexpr size_t kMaxIndexed = size_t{1} << 19;  // the largest known index names 210,000 tensors
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
    if (map_.size() == kMaxIndexed) {
      return Status::unsupported(fmt::format("more than {} tensors", kMaxIndexed));
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

// "name-00002-of-00005.gguf": what precedes the numbers, and the two.
struct SplitFileName {
  std::string stem;
  uint32_t number = 0;
  uint32_t count = 0;
};

constexpr size_t kSplitDigits = 5;

std::string split_name(std::string_view stem, size_t number, size_t count) {
  return fmt::format("{}-{:05}-of-{:05}{}", stem, number, count, kGgufSuffix);
}

std::optional<SplitFileName> parse_split_name(std::string_view name) {
  const size_t n_tail = split_name("", 0, 0).size();
  if (name.size() <= n_tail) return std::nullopt;
  const std::string_view tail = name.substr(name.size() - n_tail);
  SplitFileName split{std::string(name.substr(0, name.size() - n_tail))};
  const char* const first = tail.data() + 1;
  const char* const second = first + kSplitDigits + 4;  // past "-of-"
  std::from_chars(first, first + kSplitDigits, split.number);
  std::from_chars(second, second + kSplitDigits, split.count);
  // The one spelling that these numbers have.
  if (name != split_name(split.stem, split.number, split.count)) return std::nullopt;
  return split;
}

// One file, or the set that it belongs to.
Result<WeightFiles> gguf_files(const std::string& path) {
  WeightFiles files;
  files.format = WeightFormat::kGguf;
  const fs::path file(path);
  const std::optional<SplitFileName> split = parse_split_name(file.filename().string());
  if (!split) {
    files.paths = {path};
    return files;
  }
  if (split->count == 0 || split->count > kMaxShards || split->number > split->count) {
    return Status::invalid_argument(fmt::format(
        "{}: part {} of {}; wanted 1 to {} parts", path, split->number, split->count, kMaxShards));
  }
  for (size_t i = 1; i <= split->count; ++i) {
    const std::string part =
        (file.parent_path() / split_name(split->stem, i, split->count)).string();
    if (!posix_file_system().stat(part).is_ok()) {
      return Status::not_found(fmt::format(
          "{} is part of a model in {} files, and {} is missing", path, split->count, part));
    }
    files.paths.push_back(part);
  }
  return files;
}

struct FolderContents {
  std::vector<std::string> safetensors;
  std::vector<std::string> gguf;  // one name a set
  std::vector<std::string> others;
};

Result<FolderContents> list_folder(const std::string& folder) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<DirEntry> entries, posix_file_system().list(folder));
  FolderContents found;
  for (const DirEntry& entry : entries) {
    if (entry.is_directory) continue;
    const std::string extension = fs::path(entry.name).extension().string();
    if (extension == kSuffix) found.safetensors.push_back(entry.name);
    if (extension == ".bin" || extension == ".pth" || extension == ".pt") {
      found.others.push_back(entry.name);
    }
    if (extension != kGgufSuffix || entry.name.starts_with("mmproj")) continue;
    const std::optional<SplitFileName> split = parse_split_name(entry.name);
    if (!split || split->number == 1) found.gguf.push_back(entry.name);
  }
  std::sort(found.safetensors.begin(), found.safetensors.end());
  std::sort(found.gguf.begin(), found.gguf.end());
  return found;
}

Status nothing_usable(const std::string& folder, const std::vector<std::string>& others) {
  if (!others.empty()) {
    return Status::unsupported(
        fmt::format("{} holds {} but no safetensors or GGUF file; this version reads no other: "
                    "convert the model, or download one of these",
                    folder,
                    others.front()));
  }
  return Status::not_found(
      fmt::format("{} has no weights: looked for {}, {}, a single *{} and a single *{}",
                  folder,
                  kSingleName,
                  kIndexName,
                  kSuffix,
                  kGgufSuffix));
}

Result<WeightFiles> only_weights_file(const std::string& folder) {
  CAIRN_ASSIGN_OR_RETURN(const FolderContents found, list_folder(folder));
  const auto in_folder = [&](const std::string& name) {
    return (fs::path(folder) / name).string();
  };
  if (found.safetensors.size() == 1) {
    return WeightFiles{WeightFormat::kSafetensors, {in_folder(found.safetensors.front())}, {}};
  }
  if (found.safetensors.size() > 1) {
    return Status::invalid_argument(
        fmt::format("{} has {} safetensors files ({}, {}, ...) and no {} that says which tensor is "
                    "where: add the index, or name one file",
                    folder,
                    found.safetensors.size(),
                    found.safetensors[0],
                    found.safetensors[1],
                    kIndexName));
  }
  if (found.gguf.empty()) return nothing_usable(folder, found.others);
  if (found.gguf.size() == 1) return gguf_files(in_folder(found.gguf.front()));
  return Status::invalid_argument(fmt::format("{} has {} GGUF models ({}, {}, ...): name one",
                                              folder,
                                              found.gguf.size(),
                                              found.gguf[0],
                                              found.gguf[1]));
}

Result<WeightFiles> indexed_files(const std::string& folder, const std::string& index) {
  CAIRN_ASSIGN_OR_RETURN(const Mapping file, Mapping::open(index));
  if (file.bytes().size() > kMaxIndexBytes) {
    return Status::invalid_argument(fmt::format(
        "{}: {} bytes, at most {} are read", index, file.bytes().size(), kMaxIndexBytes));
  }
  Result<std::map<std::string, std::string>> map = parse_safetensors_index(
      {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  if (!map.is_ok()) return map.status().with_prefix(index);
  std::set<std::string> shards;
  for (const auto& [name, shard] : *map) shards.insert(shard);
  if (shards.empty() || shards.size() > kMaxShards) {
    return Status::corruption(
        fmt::format("{} names {} shards, wanted 1 to {}", index, shards.size(), kMaxShards));
  }
  WeightFiles files;
  for (const std::string& shard : shards)
    files.paths.push_back((fs::path(folder) / shard).string());
  files.weight_map = std::move(map).value();
  return files;
}

}  // namespace

Result<std::map<std::string, std::string>> parse_safetensors_index(std::string_view json) {
  IndexVisitor visitor;
  CAIRN_RETURN_IF_ERROR(walk_json(json, 16, visitor));
  if (!visitor.seen_map()) return Status::corruption("no object \"weight_map\"");
  return visitor.take();
}

Result<WeightFiles> find_weight_files(const std::string& path) {
  FileSystem& files = posix_file_system();
  CAIRN_ASSIGN_OR_RETURN(const FileStat stat, files.stat(path));
  if (!stat.is_directory) {
    const fs::path extension = fs::path(path).extension();
    if (extension == kSuffix) return WeightFiles{WeightFormat::kSafetensors, {path}, {}};
    if (extension == kGgufSuffix) return gguf_files(path);
    return Status::unsupported(
        fmt::format("{} is no *{} or *{} file; name a model folder or a weights file",
                    path,
                    kSuffix,
                    kGgufSuffix));
  }
  const std::string single = (fs::path(path) / kSingleName).string();
  if (files.stat(single).is_ok()) return WeightFiles{WeightFormat::kSafetensors, {single}, {}};
  const std::string index = (fs::path(path) / kIndexName).string();
  if (files.stat(index).is_ok()) return indexed_files(path, index);
  return only_weights_file(path);
}

}  // namespace cairn
