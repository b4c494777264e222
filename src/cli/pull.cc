// `cairn pull`: a model from a hub into our models folder, and what is there already.
#include "hub/pull.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "base/json.h"
#include "base/options.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_flags.h"
#include "cli/pull_display.h"
#include "cli/signal_watcher.h"
#include "hub/model_folders.h"

namespace cairn::cli {
namespace {

struct PullFlags {
  std::string name;
  bool list = false;
  bool json = false;
};

constexpr std::chrono::milliseconds kPauseStep{50};

// How soon Ctrl-C ends a pause.
bool pause_unless(const std::atomic<bool>& is_stopped, std::chrono::milliseconds wait) {
  const auto end = std::chrono::steady_clock::now() + wait;
  while (!is_stopped && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::min(wait, kPauseStep));
  }
  return !is_stopped;
}

void print_report(const ModelName& name, const PullReport& report) {
  if (report.n_received == 0) {
    std::printf("%s is up to date in %s (%zu files, %s)\n",
                name.text().c_str(),
                report.path.c_str(),
                report.files.size(),
                format_size(report.n_bytes).c_str());
  } else {
    std::printf("%s is in %s (%zu files, %s, of which %s came now)\n",
                name.text().c_str(),
                report.path.c_str(),
                report.files.size(),
                format_size(report.n_bytes).c_str(),
                format_size(report.n_received).c_str());
  }
  for (const std::string& removed : report.removed) {
    std::printf("removed %s: the hub has it no more\n", removed.c_str());
  }
  std::printf("run it with: cairn serve --model %s\n", name.text().c_str());
}

void print_json(const ModelName& name, const PullReport& report) {
  Json files = Json::array();
  for (const FileOutcome& file : report.files) {
    files.push_back({{"name", file.name},
                     {"bytes", file.size_bytes},
                     {"content", file.content},
                     {"fetched", file.was_fetched}});
  }
  const Json out = {{"name", name.text()},
                    {"path", report.path},
                    {"folder", report.folder},
                    {"commit", report.commit},
                    {"bytes", report.n_bytes},
                    {"received", report.n_received},
                    {"files", files},
                    {"removed", report.removed}};
  std::printf("%s\n", dump_json(out).c_str());
}

void list_stored(bool json) {
  const ModelPlaces places = model_places_from_environment();
  const std::vector<StoredModel> models = list_models(places);
  if (json) {
    Json out = Json::array();
    for (const StoredModel& model : models) {
      out.push_back({{"name", model.name},
                     {"path", model.path},
                     {"bytes", model.size_bytes},
                     {"complete", model.is_complete},
                     {"source", model.is_ours ? "cairn" : "huggingface"}});
    }
    std::printf("%s\n", dump_json(out).c_str());
    return;
  }
  for (const StoredModel& model : models) {
    std::printf("%10s  %s%s%s\n",
                format_size(model.size_bytes).c_str(),
                model.name.c_str(),
                model.is_complete ? "" : "  (only partly here: pull it again)",
                model.is_ours ? "" : "  (in the Hugging Face cache)");
  }
  if (models.empty()) {
    std::printf("no models in %s or %s\n", places.models_dir.c_str(), places.hub_cache_dir.c_str());
  }
}

Result<PullReport> pull(const ModelName& name) {
  CAIRN_ASSIGN_OR_RETURN(HubSettings settings, hub_settings_from_environment());
  std::atomic<bool> is_stopped{false};
  SignalWatcher signals;
  signals.watch([&is_stopped] { is_stopped = true; });
  settings.http.user_agent = "cairn/" CAIRN_VERSION;
  settings.http.is_stopped = [&is_stopped] { return is_stopped.load(); };
  settings.retry.pause = [&is_stopped](std::chrono::milliseconds wait) {
    return pause_unless(is_stopped, wait);
  };
  PullDisplay display;
  auto report = pull_model(name, settings, model_places_from_environment(), display);
  if (report.status().code() != StatusCode::kCancelled) return report;
  return Status::cancelled(fmt::format(
      "stopped; what has come is kept, and `cairn pull {}` goes on from there", name.text()));
}

int refuse_usage(const std::string& message) {
  std::fprintf(stderr, "cairn pull: %s\nTry: cairn pull --help\n", message.c_str());
  return kExitUsage;
}

}  // namespace

int run_pull(int argc, const char* const* argv) {
  PullFlags flags;
  Arguments arguments("pull",
                      "Fetch a model from a Hugging Face style hub; `--model NAME` then finds it. "
                      "Reads HF_ENDPOINT, "
                      "HF_TOKEN and HF_HOME, and proxies from the environment.");
  arguments.text("NAME",
                 &flags.name,
                 "ORG/REPO, ORG/REPO:Q4_K_M (the GGUF of that type), ORG/REPO/FILE.gguf; each with "
                 "@REVISION after the repository or the file");
  arguments.flag("--list", &flags.list, "List the models that are here, with their sizes");
  arguments.flag("--json", &flags.json, "Print JSON");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  if (flags.list) {
    if (!flags.name.empty()) return refuse_usage("--list takes no NAME");
    list_stored(flags.json);
    return kExitOk;
  }
  if (flags.name.empty()) return refuse_usage("NAME is required: ORG/REPO, or --list");
  const auto name = parse_model_name(flags.name);
  if (!name.is_ok()) return refuse_usage(name.status().message());
  const auto report = pull(*name);
  if (!report.is_ok()) return report_failure(report.status());
  if (flags.json) {
    print_json(*name, *report);
  } else {
    print_report(*name, *report);
  }
  return kExitOk;
}

}  // namespace cairn::cli
