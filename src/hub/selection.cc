#include "hub/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "hub/gguf_choice.h"

namespace cairn {
namespace {

constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::string_view kWholeWeights = "model.safetensors";
constexpr std::string_view kWeightsIndex = "model.safetensors.index.json";
constexpr std::array<std::string_view, 10> kSmallFiles = {"config.json",
                                                          "generation_config.json",
                                                          "tokenizer.json",
                                                          "tokenizer_config.json",
                                                          "tokenizer.model",
                                                          "special_tokens_map.json",
                                                          "added_tokens.json",
                                                          "vocab.json",
                                                          "merges.txt",
                                                          "chat_template.jinja"};

// Safetensors at the top of the repository that are model weights: adapters are no model, and
// "consolidated" holds the same weights once more under other names.
bool is_weights(std::string_view name) {
  return name.ends_with(kSafetensors) && name.find('/') == std::string_view::npos &&
         !name.starts_with("adapter_") && !name.starts_with("consolidated");
}

bool has(const Listing& listing, std::string_view name) {
  return std::ranges::any_of(listing.files, [&](const RepoFile& f) { return f.name == name; });
}

// As the loader looks for them: one file, else what belongs to the index, else whatever is there.
std::vector<RepoFile> weight_files(const Listing& listing) {
  const bool is_single = has(listing, kWholeWeights);
  const bool is_indexed = !is_single && has(listing, kWeightsIndex);
  const auto is_shard = [](const RepoFile& f) { return f.name.starts_with("model-"); };
  std::vector<RepoFile> weights;
  for (const RepoFile& file : listing.files) {
    if (is_weights(file.name) && (!is_single || file.name == kWholeWeights)) {
      weights.push_back(file);
    }
  }
  if (is_indexed && std::ranges::any_of(weights, is_shard)) {
    std::erase_if(weights, [&](const RepoFile& f) { return !is_shard(f); });
  }
  return weights;
}

Selection safetensors_selection(const Listing& listing, std::vector<RepoFile> weights) {
  Selection selection;
  const bool is_indexed = weights.size() > 1;
  for (const RepoFile& file : listing.files) {
    const bool is_small = std::ranges::find(kSmallFiles, file.name) != kSmallFiles.end();
    if (is_small || (is_indexed && file.name == kWeightsIndex)) selection.files.push_back(file);
  }
  std::ranges::move(weights, std::back_inserter(selection.files));
  return selection;
}

Result<Selection> gguf_selection(const Listing& listing, const ModelName& name) {
  std::vector<std::string> paths;
  for (const RepoFile& file : listing.files) paths.push_back(file.name);
  const std::vector<GgufChoice> choices = gguf_choices(paths);
  CAIRN_ASSIGN_OR_RETURN(const GgufChoice choice,
                         name.file.empty() ? choose_gguf(choices, name.quant, name.repo_id())
                                           : find_gguf(choices, name.file, name.repo_id()));
  if (!choice.is_whole()) {
    return Status::corruption(fmt::format("{} has {} of the {} parts of {}: ask its authors",
                                          name.repo_id(),
                                          choice.parts.size(),
                                          choice.n_parts,
                                          choice.name()));
  }
  Selection selection;
  selection.gguf = choice.name();
  for (const RepoFile& file : listing.files) {
    if (std::ranges::find(choice.parts, file.name) != choice.parts.end()) {
      selection.files.push_back(file);
    }
  }
  if (name.quant.empty() && name.file.empty() && choices.size() > 1) {
    selection.note = fmt::format(
        "{} has {} GGUF models; taking {} because {} is the usual choice (write {}:TYPE for "
        "another)",
        name.repo_id(),
        choices.size(),
        choice.name(),
        kDefaultQuant,
        name.repo_id());
  }
  return selection;
}

Status nothing_to_run(const Listing& listing, const ModelName& name) {
  const auto other = std::ranges::find_if(listing.files, [](const RepoFile& f) {
    return f.name.ends_with(".bin") || f.name.ends_with(".pt") || f.name.ends_with(".pth") ||
           f.name.ends_with(".onnx");
  });
  return Status::not_found(fmt::format(
      "{} has no safetensors and no GGUF file among its {} files{}; look for a converted copy on "
      "the hub",
      name.repo_id(),
      listing.files.size(),
      other == listing.files.end()
          ? ""
          : fmt::format(" (it has {}, which this version does not read)", other->name)));
}

}  // namespace

Result<Selection> select_files(const Listing& listing, const ModelName& name) {
  if (!name.quant.empty() || !name.file.empty()) return gguf_selection(listing, name);
  std::vector<RepoFile> weights = weight_files(listing);
  if (!weights.empty()) return safetensors_selection(listing, std::move(weights));
  auto selection = gguf_selection(listing, name);
  const bool has_none = selection.status().code() == StatusCode::kNotFound;
  return has_none ? nothing_to_run(listing, name) : std::move(selection);
}

}  // namespace cairn
