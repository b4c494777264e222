#include "formats/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/check.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

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

// GGUF's names and those of published Llama-like checkpoints.
struct NamePair {
  std::string_view gguf;
  std::string_view published;
};

constexpr std::array<NamePair, 3> kModelNames = {{{"token_embd.", "model.embed_tokens."},
                                                  {"output_norm.", "model.norm."},
                                                  {"output.", "lm_head."}}};
constexpr std::array<NamePair, 11> kLayerNames = {{{"attn_norm.", "input_layernorm."},
                                                   {"attn_q.", "self_attn.q_proj."},
                                                   {"attn_k.", "self_attn.k_proj."},
                                                   {"attn_v.", "self_attn.v_proj."},
                                                   {"attn_output.", "self_attn.o_proj."},
                                                   {"attn_q_norm.", "self_attn.q_norm."},
                                                   {"attn_k_norm.", "self_attn.k_norm."},
                                                   {"ffn_norm.", "post_attention_layernorm."},
                                                   {"ffn_gate.", "mlp.gate_proj."},
                                                   {"ffn_up.", "mlp.up_proj."},
                                                   {"ffn_down.", "mlp.down_proj."}}};
constexpr std::string_view kGgufLayer = "blk.";
constexpr std::string_view kPublishedLayer = "model.layers.";

// Replaces one side's front by the other's; unknown names stay.
template <size_t n>
std::string translate(std::string_view name,
                      const std::array<NamePair, n>& pairs,
                      std::string_view NamePair::*from,
                      std::string_view NamePair::*to) {
  for (const NamePair& pair : pairs) {
    if (!name.starts_with(pair.*from)) continue;
    return std::string(pair.*to) + std::string(name.substr((pair.*from).size()));
  }
  return std::string(name);
}

std::string translate_name(std::string_view name,
                           std::string_view NamePair::*from,
                           std::string_view NamePair::*to,
                           std::string_view layer_from,
                           std::string_view layer_to) {
  if (!name.starts_with(layer_from)) return translate(name, kModelNames, from, to);
  name.remove_prefix(layer_from.size());
  const size_t dot = name.find('.');
  const std::string number(name.substr(0, dot));
  if (dot == std::string_view::npos) return std::string(layer_to) + number;
  return std::string(layer_to) + number + "." +
         translate(name.substr(dot + 1), kLayerNames, from, to);
}

}  // namespace

std::string published_name(std::string_view gguf_name) {
  return translate_name(
      gguf_name, &NamePair::gguf, &NamePair::published, kGgufLayer, kPublishedLayer);
}

std::string gguf_name(std::string_view published_name) {
  return translate_name(
      published_name, &NamePair::published, &NamePair::gguf, kPublishedLayer, kGgufLayer);
}

Status Checkpoint::add_tensors(const std::vector<TensorInfo>& tensors, size_t file_idx) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string name =
        format_ == WeightFormat::kGguf ? published_name(tensors[i].name) : tensors[i].name;
    const auto [at, added] = places_.emplace(name, Place{file_idx, i});
    if (added) continue;
    return Status::corruption(fmt::format("tensor {:?} is both in {} and in {}",
                                          name,
                                          file_path(at->second.file_idx),
                                          file_path(file_idx)));
  }
  return Status::ok();
}

Status Checkpoint::add_safetensors(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  safetensors_files_.push_back(std::move(file));
  return add_tensors(safetensors_files_.back().tensors(), safetensors_files_.size() - 1);
}

// Each file of a set says which part it is.
Status Checkpoint::add_gguf(const std::string& path, size_t n_files) {
  CAIRN_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(path));
  const size_t file_idx = gguf_files_.size();
  const auto max = static_cast<int64_t>(UINT16_MAX);
  CAIRN_ASSIGN_OR_RETURN(const auto count, file.metadata().find_int("split.count", 0, max));
  CAIRN_ASSIGN_OR_RETURN(const auto number, file.metadata().find_int("split.no", 0, max));
  const auto n_said = static_cast<size_t>(std::max<int64_t>(count.value_or(1), 1));
  const auto number_said = static_cast<size_t>(number.value_or(0));
  if (n_said != n_files || number_said != file_idx) {
    return Status::invalid_argument(fmt::format(
        "{} says it is part {} of {}, but it was found as part {} of {}; parts keep the names "
        "they were made with, NAME-00001-of-0000N.gguf",
        path,
        number_said + 1,
        n_said,
        file_idx + 1,
        n_files));
  }
  gguf_files_.push_back(std::move(file));
  return add_tensors(gguf_files_.back().tensors(), file_idx);
}

Status Checkpoint::check_index(const std::map<std::string, std::string>& weight_map) const {
  for (const auto& [name, shard] : weight_map) {
    const auto at = places_.find(name);
    const std::string found = at == places_.end()
                                  ? "no shard"
                                  : fs::path(file_path(at->second.file_idx)).filename().string();
    if (found != shard) {
      return Status::corruption(
          fmt::format("the index maps tensor {:?} to {}, but it is in {}", name, shard, found));
    }
  }
  return Status::ok();
}

Result<std::shared_ptr<const Checkpoint>> Checkpoint::open(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const WeightFiles files, find_weight_files(path));
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());  // NOLINT: the constructor is private
  checkpoint->path_ = path;
  checkpoint->format_ = files.format;
  for (const std::string& file : files.paths) {
    CAIRN_RETURN_IF_ERROR(files.format == WeightFormat::kGguf
                              ? checkpoint->add_gguf(file, files.paths.size())
                              : checkpoint->add_safetensors(file));
  }
  if (files.weight_map) CAIRN_RETURN_IF_ERROR(checkpoint->check_index(*files.weight_map));
  return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
}

bool Checkpoint::has(std::string_view name) const {
  return places_.find(name) != places_.end();
}

TensorView Checkpoint::view(const Place& place) const {
  return format_ == WeightFormat::kGguf
             ? gguf_files_[place.file_idx].tensor_at(place.tensor_idx)
             : safetensors_files_[place.file_idx].tensor_at(place.tensor_idx);
}

Result<TensorView> Checkpoint::find(std::string_view name) const {
  const auto at = places_.find(name);
  if (at != places_.end()) return view(at->second);
  return Status::not_found(
      fmt::format("no tensor \"{}\" among the {} of {}; the nearest are {}",
                  name,
                  places_.size(),
                  n_files() == 1 ? file_path(0) : fmt::format("{} shards", n_files()),
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
  for (const auto& [name, place] : places_) total += view(place).bytes.size();
  return total;
}

size_t Checkpoint::n_files() const {
  return format_ == WeightFormat::kGguf ? gguf_files_.size() : safetensors_files_.size();
}

const std::string& Checkpoint::file_path(size_t idx) const {
  return format_ == WeightFormat::kGguf ? gguf_files_[idx].path() : safetensors_files_[idx].path();
}

std::vector<std::string> Checkpoint::files() const {
  std::vector<std::string> result;
  for (size_t i = 0; i < n_files(); ++i) result.push_back(file_path(i));
  return result;
}

std::string Checkpoint::folder() const {
  return fs::path(file_path(0)).parent_path().string();
}

const GgufMetadata* Checkpoint::gguf_metadata() const {
  return gguf_files_.empty() ? nullptr : &gguf_files_.front().metadata();
}

bool Checkpoint::has_interleaved_heads() const {
  if (format_ != WeightFormat::kGguf) return false;
  const auto architecture = gguf_metadata()->find_string("general.architecture");
  return architecture.is_ok() && *architecture == "llama";
}

}  // namespace cairn
