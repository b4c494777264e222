#include "hub/model_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/file_system.h"
#include "hub/gguf_choice.h"
#include "hub/pull_record.h"

namespace cairn {
namespace {

constexpr int kDepthMax = 4;  // of folders inside a repository
constexpr std::string_view kHubPrefix = "models--";
constexpr uint64_t kRefBytesMax = 256;

// A model's folder and what this program knows of it.
struct RepoFolder {
  std::string path;
  std::vector<std::string> files;  // relative
  PullRecord record;

  bool is_pending(const std::vector<std::string>& names) const {
    return std::ranges::any_of(names, [&](const auto& n) { return record.pending.contains(n); });
  }
};

std::vector<DirEntry> entries_of(const std::string& folder) {
  auto entries = posix_file_system().list(folder);
  if (!entries.is_ok()) return {};
  std::erase_if(*entries, [](const DirEntry& e) { return e.name.starts_with("."); });
  return std::move(*entries);
}

void add_files(const std::string& folder, const std::string& prefix, int depth, RepoFolder* repo) {
  for (const DirEntry& entry : entries_of(folder)) {
    const std::string path = folder + "/" + entry.name;
    if (!entry.is_directory) {
      repo->files.push_back(prefix + entry.name);
    } else if (depth > 0) {
      add_files(path, prefix + entry.name + "/", depth - 1, repo);
    }
  }
}

std::optional<RepoFolder> read_folder(const std::string& path) {
  const auto stat = posix_file_system().stat(path);
  if (!stat.is_ok() || !stat->is_directory) return std::nullopt;
  RepoFolder repo;
  repo.path = path;
  repo.record = load_pull_record(path);
  add_files(path, "", kDepthMax, &repo);
  return repo;
}

// The GGUF files that are here or on their way.
std::vector<GgufChoice> choices_in(const RepoFolder& repo) {
  std::vector<std::string> paths = repo.files;
  for (const std::string& name : repo.record.pending) {
    if (std::ranges::find(paths, name) == paths.end()) paths.push_back(name);
  }
  return gguf_choices(paths);
}

bool has_safetensors(const RepoFolder& repo) {
  return std::ranges::any_of(repo.files, [](const std::string& f) {
    return f.ends_with(".safetensors") && f.find('/') == std::string::npos;
  });
}

// Whether anything but a GGUF is still to come; a GGUF needs nothing but itself.
bool lacks_parts(const RepoFolder& repo) {
  return std::ranges::any_of(repo.record.pending,
                             [](const std::string& f) { return !f.ends_with(".gguf"); });
}

Status not_finished(const RepoFolder& repo, const ModelName& name) {
  return Status::corruption(fmt::format("{} in {} is only partly here; go on with: cairn pull {}",
                                        name.text(),
                                        repo.path,
                                        name.text()));
}

Result<std::string> open_in(const RepoFolder& repo, const ModelName& name) {
  const bool wants_gguf = !name.quant.empty() || !name.file.empty();
  if (!wants_gguf && (has_safetensors(repo) || lacks_parts(repo))) {
    return lacks_parts(repo) ? Result<std::string>(not_finished(repo, name)) : repo.path;
  }
  const std::vector<GgufChoice> choices = choices_in(repo);
  CAIRN_ASSIGN_OR_RETURN(const GgufChoice choice,
                         name.file.empty() ? choose_gguf(choices, name.quant, repo.path)
                                           : find_gguf(choices, name.file, repo.path));
  if (!choice.is_whole() || repo.is_pending(choice.parts)) return not_finished(repo, name);
  return repo.path + "/" + choice.name();
}

bool is_commit(std::string_view text) {
  return content_id_from_hex(text).kind == ContentKind::kGitBlob;
}

std::string hub_folder(const ModelName& name, const ModelPlaces& places) {
  return fmt::format("{}/{}{}--{}", places.hub_cache_dir, kHubPrefix, name.org, name.repo);
}

// The snapshot that a revision means in `folder` (models--org--repo).
std::optional<std::string> snapshot_of(const std::string& folder, const std::string& revision) {
  if (is_commit(revision)) return folder + "/snapshots/" + revision;
  const std::string ref = folder + "/refs/" + (revision.empty() ? "main" : revision);
  const auto text = read_text_file(posix_file_system(), ref, kRefBytesMax);
  if (!text.is_ok()) return std::nullopt;
  const std::string commit = text->substr(0, text->find_first_of(" \r\n"));
  if (!is_commit(commit)) return std::nullopt;  // it becomes a part of a path
  return folder + "/snapshots/" + commit;
}

std::optional<RepoFolder> our_folder(const ModelName& name, const ModelPlaces& places) {
  std::optional<RepoFolder> repo = read_folder(places.folder_of(name));
  if (!repo) return std::nullopt;
  const bool is_wanted = name.revision.empty() || name.revision == repo->record.revision ||
                         name.revision == repo->record.commit;
  return is_wanted ? std::move(repo) : std::nullopt;
}

uint64_t size_of_files(const RepoFolder& repo, const std::vector<std::string>& files) {
  uint64_t n_bytes = 0;
  for (const std::string& file : files) {
    const std::string path = repo.path + "/" + file;
    auto stat = posix_file_system().stat(path);
    if (!stat.is_ok()) stat = posix_file_system().stat(path + ".part");
    if (stat.is_ok()) n_bytes += stat->size_bytes;
  }
  return n_bytes;
}

// A safetensors model is one entry, each GGUF is one.
void add_stored(const RepoFolder& repo,
                const std::string& repo_id,
                bool is_ours,
                std::vector<StoredModel>* models) {
  for (const GgufChoice& choice : choices_in(repo)) {
    models->push_back({repo_id + "/" + choice.name(),
                       repo.path + "/" + choice.name(),
                       size_of_files(repo, choice.parts),
                       choice.is_whole() && !repo.is_pending(choice.parts),
                       is_ours});
  }
  if (!has_safetensors(repo) && !lacks_parts(repo)) return;
  std::vector<std::string> files = repo.files;
  std::erase_if(files, [](const std::string& f) { return f.ends_with(".gguf"); });
  models->push_back({repo_id, repo.path, size_of_files(repo, files), !lacks_parts(repo), is_ours});
}

void add_ours(const ModelPlaces& places, std::vector<StoredModel>* models) {
  for (const DirEntry& org : entries_of(places.models_dir)) {
    if (!org.is_directory) continue;
    for (const DirEntry& repo : entries_of(places.models_dir + "/" + org.name)) {
      const std::string id = org.name + "/" + repo.name;
      const auto folder = read_folder(places.models_dir + "/" + id);
      if (folder && parse_model_name(id).is_ok()) add_stored(*folder, id, true, models);
    }
  }
}

void add_hub_cache(const ModelPlaces& places, std::vector<StoredModel>* models) {
  for (const DirEntry& entry : entries_of(places.hub_cache_dir)) {
    if (!entry.is_directory || !entry.name.starts_with(kHubPrefix)) continue;
    std::string id = entry.name.substr(kHubPrefix.size());
    const size_t between = id.find("--");
    if (between == std::string::npos) continue;
    id.replace(between, 2, "/");
    const auto snapshot = snapshot_of(places.hub_cache_dir + "/" + entry.name, "");
    if (!snapshot || !parse_model_name(id).is_ok()) continue;
    const auto folder = read_folder(*snapshot);
    if (folder) add_stored(*folder, id, false, models);
  }
}

}  // namespace

Result<std::string> find_model(const ModelName& name, const ModelPlaces& places) {
  const std::string theirs = hub_folder(name, places);
  const std::optional<RepoFolder> ours = our_folder(name, places);
  Status said;
  if (ours) {
    auto path = open_in(*ours, name);
    if (path.is_ok()) return path;
    said = path.status();
  }
  const std::optional<std::string> snapshot = snapshot_of(theirs, name.revision);
  const std::optional<RepoFolder> cached = snapshot ? read_folder(*snapshot) : std::nullopt;
  if (cached) {
    auto path = open_in(*cached, name);
    if (path.is_ok()) return path;
    if (said.is_ok()) said = path.status();
  }
  if (!said.is_ok() && said.code() != StatusCode::kNotFound) return said;
  return Status::not_found(fmt::format(
      "model \"{}\" is not here: no file or folder has that path, and it is neither in {} nor in "
      "{}{}{}; fetch it with: cairn pull {}",
      name.text(),
      places.folder_of(name),
      theirs,
      said.is_ok() ? "" : " (",
      said.is_ok() ? "" : said.message() + ")",
      name.text()));
}

std::vector<StoredModel> list_models(const ModelPlaces& places) {
  std::vector<StoredModel> models;
  add_ours(places, &models);
  add_hub_cache(places, &models);
  std::ranges::stable_sort(models, {}, &StoredModel::name);
  return models;
}

}  // namespace cairn
