#include "hub/pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/file_system.h"
#include "base/options.h"
#include "hub/download.h"
#include "hub/listing.h"
#include "hub/part_file.h"
#include "hub/pull_record.h"
#include "hub/selection.h"

namespace cairn {
namespace {

constexpr uint64_t kLargeBytes = uint64_t{8} << 20;

// One pull, step by step. Holds the folder's lock once the hub has said what is to be fetched.
class Pull {
 public:
  Pull(const ModelName& name,
       const HubSettings& settings,
       const ModelPlaces& places,
       PullObserver& observer)
      : name_(name),
        settings_(settings),
        observer_(observer),
        client_(settings.http),
        folder_(places.folder_of(name)) {}

  Result<PullReport> run();

 private:
  Status lock();
  Status list_files();
  Result<bool> is_here(const RepoFile& file);
  Status find_missing();
  Status check_space() const;
  Status fetch(const RepoFile& file);
  Status fetch_missing();
  Status remove_stale();
  Result<PullReport> report();

  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  const ModelName& name_;
  const HubSettings& settings_;
  PullObserver& observer_;
  HttpClient client_;
  std::string folder_;
  std::unique_ptr<FileLock> lock_;
  Listing listing_;
  Selection selection_;
  PullRecord record_;
  std::vector<RepoFile> missing_;
  uint64_t n_wanted_ = 0;  // bytes, as far as sizes are known
  uint64_t n_received_ = 0;
  std::vector<std::string> removed_;
};

Status Pull::lock() {
  CAIRN_RETURN_IF_ERROR(posix_file_system().make_directories(folder_));
  auto lock = posix_file_system().lock(path_of(".cairn-pull.lock"));
  if (lock.status().code() == StatusCode::kOverloaded) {
    return lock.status().with_prefix(
        fmt::format("{} is being pulled by another process", name_.repo_id()));
  }
  CAIRN_ASSIGN_OR_RETURN(lock_, std::move(lock));
  return Status::ok();
}

Status Pull::list_files() {
  const std::string revision = name_.revision.empty() ? "main" : name_.revision;
  std::string in_url;  // a slash in a revision must not look like the next part of the address
  for (const char c : revision) in_url += c == '/' ? "%2F" : std::string(1, c);
  const std::string url = fmt::format(
      "{}/api/models/{}/revision/{}?blobs=true", settings_.endpoint, name_.repo_id(), in_url);
  const std::string what =
      name_.repo_id() + (name_.revision.empty() ? "" : " at revision " + name_.revision);
  CAIRN_ASSIGN_OR_RETURN(const std::string text,
                         fetch_text(client_, settings_, url, what, kListingBytesMax, observer_));
  auto listing = parse_listing(text);
  if (!listing.is_ok()) return listing.status().with_prefix(what);
  listing_ = std::move(*listing);
  CAIRN_ASSIGN_OR_RETURN(selection_, select_files(listing_, name_));
  if (!selection_.note.empty()) observer_.on_note(selection_.note);
  return Status::ok();
}

// A file that this program did not put here, or that was touched since, is read to know it.
Result<bool> Pull::is_here(const RepoFile& file) {
  const std::string path = path_of(file.name);
  const auto stat = posix_file_system().stat(path);
  if (!stat.is_ok() || stat->is_directory) return false;
  if (file.size_bytes && *file.size_bytes != stat->size_bytes) return false;
  const auto known = record_.files.find(file.name);
  const bool is_untouched = record_.is_untouched(folder_, file.name);
  if (!file.content.is_known()) {  // the same commit is all there is to go by
    return is_untouched && !listing_.commit.empty() && listing_.commit == known->second.commit;
  }
  if (is_untouched && known->second.listed == file.content) return true;
  CAIRN_ASSIGN_OR_RETURN(const ContentId found, content_id_of_file(path, file.content.kind));
  if (found != file.content) return false;
  record_.files[file.name] = {stat->size_bytes, found, found, listing_.commit, stat->mtime_ns};
  return true;
}

Status Pull::find_missing() {
  record_ = load_pull_record(folder_);
  PullPlan plan;
  plan.n_files = selection_.files.size();
  for (const RepoFile& file : selection_.files) {
    CAIRN_ASSIGN_OR_RETURN(const bool here, is_here(file));
    if (here) {
      record_.pending.erase(file.name);
      ++plan.n_unchanged;
      continue;
    }
    missing_.push_back(file);
    if (file.size_bytes) {
      plan.n_bytes += *file.size_bytes - n_part_bytes(path_of(file.name), file);
    }
  }
  n_wanted_ = plan.n_bytes;
  observer_.on_plan(plan);
  return Status::ok();
}

Status Pull::check_space() const {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t n_free, free_space_bytes(folder_));
  if (n_wanted_ <= n_free) return Status::ok();
  return Status::no_space(
      fmt::format("{} needs {} more and {} has {} free: free some, or set XDG_CACHE_HOME to a "
                  "folder on a larger disk",
                  name_.repo_id(),
                  format_size(n_wanted_),
                  folder_,
                  format_size(n_free)));
}

Status Pull::fetch(const RepoFile& file) {
  const std::string path = path_of(file.name);
  CAIRN_RETURN_IF_ERROR(posix_file_system().make_directories(path.substr(0, path.rfind('/'))));
  DownloadTask task;
  task.file = file;
  task.path = path;
  task.what = name_.repo_id() + ": " + file.name;
  std::string revision = listing_.commit;  // all files of one commit, whatever is pushed meanwhile
  if (revision.empty()) revision = name_.revision.empty() ? "main" : name_.revision;
  task.url = fmt::format(
      "{}/{}/resolve/{}/{}", settings_.endpoint, name_.repo_id(), revision, escape_path(file.name));
  CAIRN_ASSIGN_OR_RETURN(const Downloaded done, download(client_, settings_, task, observer_));
  n_received_ += done.n_received;
  if (!done.content.is_known()) {
    observer_.on_note(
        fmt::format("{}: the hub tells no checksum, only the size was checked", file.name));
  }
  CAIRN_ASSIGN_OR_RETURN(const FileStat stat, posix_file_system().stat(path));
  record_.files[file.name] = {
      stat.size_bytes, done.content, file.content, listing_.commit, stat.mtime_ns};
  record_.pending.erase(file.name);
  // Small files are as soon read again as written down.
  if (stat.size_bytes < kLargeBytes) return Status::ok();
  CAIRN_RETURN_IF_ERROR(posix_file_system().sync_directory(path.substr(0, path.rfind('/'))));
  return save_pull_record(folder_, record_);
}

Status Pull::fetch_missing() {
  record_.revision = name_.revision;
  record_.commit = listing_.commit;
  if (missing_.empty()) return Status::ok();
  for (const RepoFile& file : missing_) record_.pending.insert(file.name);
  CAIRN_RETURN_IF_ERROR(save_pull_record(folder_, record_));
  for (const RepoFile& file : missing_) {
    const Status status = fetch(file);
    if (status.is_ok()) continue;
    // What did come is known next time; a failure to say so is not the one to report.
    static_cast<void>(save_pull_record(folder_, record_).is_ok());
    return status;
  }
  return Status::ok();
}

// A model that is split another way than before must not leave its old weights beside the new ones.
Status Pull::remove_stale() {
  std::set<std::string> listed;
  for (const RepoFile& file : listing_.files) listed.insert(file.name);
  std::erase_if(record_.pending, [&](const std::string& name) { return !listed.contains(name); });
  for (auto it = record_.files.begin(); it != record_.files.end();) {
    const std::string& name = it->first;
    if (listed.contains(name)) {
      ++it;
      continue;
    }
    // The record is a file that others could write: only names that a hub could have sent.
    if (check_repo_path(name).is_ok() && record_.is_untouched(folder_, name)) {
      CAIRN_RETURN_IF_ERROR(posix_file_system().remove(path_of(name)));
      removed_.push_back(name);
    }
    it = record_.files.erase(it);
  }
  return save_pull_record(folder_, record_);
}

Result<PullReport> Pull::report() {
  PullReport report;
  report.folder = folder_;
  report.path = selection_.gguf.empty() ? folder_ : path_of(selection_.gguf);
  report.commit = listing_.commit;
  report.n_received = n_received_;
  report.removed = removed_;
  for (const RepoFile& file : selection_.files) {
    const PulledFile& pulled = record_.files.at(file.name);
    const bool was_missing = std::ranges::any_of(
        missing_, [&](const RepoFile& other) { return other.name == file.name; });
    report.files.push_back({file.name, pulled.size_bytes, pulled.content.text(), was_missing});
    report.n_bytes += pulled.size_bytes;
  }
  return report;
}

Result<PullReport> Pull::run() {
  CAIRN_RETURN_IF_ERROR(list_files());  // a name that the hub does not know leaves no folder behind
  CAIRN_RETURN_IF_ERROR(lock());
  CAIRN_RETURN_IF_ERROR(find_missing());
  CAIRN_RETURN_IF_ERROR(check_space());
  CAIRN_RETURN_IF_ERROR(fetch_missing());
  CAIRN_RETURN_IF_ERROR(remove_stale());
  return report();
}

}  // namespace

Result<PullReport> pull_model(const ModelName& name,
                              const HubSettings& settings,
                              const ModelPlaces& places,
                              PullObserver& observer) {
  if (!settings.warning.empty()) observer.on_note(settings.warning);
  return Pull(name, settings, places, observer).run();
}

}  // namespace cairn
