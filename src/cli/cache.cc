// `cairn cache ls|stat|verify`: looks at a store's folder, beside a running server if there is one.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <map>

#include "base/clock.h"
#include "base/json.h"
#include "base/options.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_flags.h"
#include "store/root_description.h"
#include "store/store_files.h"

namespace cairn::cli {
namespace {

struct CacheCommandFlags {
  std::string store;
  bool json = false;
};

struct OpenedStore {
  std::unique_ptr<StoreFiles> files;
  OpenReport report;
};

Result<OpenedStore> open_store(const std::string& directory, const Clock& clock) {
  const auto stat = posix_file_system().stat(directory);
  if (stat.status().code() == StatusCode::kNotFound) {
    return Status::not_found(fmt::format(
        "there is no cache store at {}; give the folder that `cairn serve` printed with --store",
        directory));
  }
  CAIRN_RETURN_IF_ERROR(stat.status());
  if (!stat->is_directory) return Status::invalid_argument(directory + " is not a folder");
  StoreOptions options;
  options.directory = directory;
  options.read_only = true;
  OpenedStore store;
  CAIRN_ASSIGN_OR_RETURN(store.files,
                         StoreFiles::open(posix_file_system(), clock, options, &store.report));
  return store;
}

struct RootTotals {
  std::string label;  // empty when root.cairn cannot be read
  uint64_t n_objects = 0, n_tokens = 0, n_bytes = 0;
};

uint64_t n_tokens_of(const ObjectEntry& entry) {
  uint64_t n = 0;
  for (const PageRecord& page : entry.pages) n += page.tokens.size();
  return n;
}

std::map<RootKey, RootTotals> totals_by_root(const OpenedStore& store) {
  std::map<RootKey, RootTotals> roots;
  for (const ObjectEntry& entry : store.report.objects) {
    RootTotals& totals = roots[entry.root];
    ++totals.n_objects;
    totals.n_tokens += n_tokens_of(entry);
    totals.n_bytes += entry.file_bytes;
  }
  for (auto& [key, totals] : roots) {
    const auto description = read_root_description(
        posix_file_system(),
        fmt::format("{}/{}/root.cairn", store.files->directory(), to_hex(key)));
    if (description.is_ok()) totals.label = description->spec.model_label;
  }
  return roots;
}

Status list_objects(const OpenedStore& store, bool json) {
  if (json) {
    Json rows = Json::array();
    for (const ObjectEntry& entry : store.report.objects) {
      rows.push_back({{"root", to_hex(entry.root)},
                      {"kind", to_string(entry.kind)},
                      {"key", to_hex(entry.key())},
                      {"parent", to_hex(entry.parent)},
                      {"pages", entry.pages.size()},
                      {"tokens", n_tokens_of(entry)},
                      {"bytes", entry.file_bytes},
                      {"last_use", entry.last_use_unix}});
    }
    std::printf("%s\n", dump_json(rows).c_str());
    return Status::ok();
  }
  std::printf("%-12s %-5s %-16s %6s %7s %10s\n", "root", "kind", "key", "pages", "tokens", "size");
  for (const ObjectEntry& entry : store.report.objects) {
    std::printf("%-12.12s %-5s %-16.16s %6zu %7llu %10s\n",
                to_hex(entry.root).c_str(),
                std::string(to_string(entry.kind)).c_str(),
                to_hex(entry.key()).c_str(),
                entry.pages.size(),
                static_cast<unsigned long long>(n_tokens_of(entry)),
                format_size(entry.file_bytes).c_str());
  }
  return Status::ok();
}

Status print_totals(const OpenedStore& store, bool json) {
  const auto roots = totals_by_root(store);
  const OpenReport& report = store.report;
  if (json) {
    Json out;
    out["directory"] = store.files->directory();
    out["objects"] = report.objects.size();
    out["bytes"] = report.total_bytes;
    out["missing_files"] = report.n_missing_files;
    out["bad_records"] = report.n_bad_records;
    out["unknown_version"] = report.n_unknown_version;
    out["roots"] = Json::array();
    for (const auto& [key, totals] : roots) {
      out["roots"].push_back({{"root", to_hex(key)},
                              {"model", totals.label},
                              {"objects", totals.n_objects},
                              {"tokens", totals.n_tokens},
                              {"bytes", totals.n_bytes}});
    }
    std::printf("%s\n", dump_json(out).c_str());
    return Status::ok();
  }
  std::printf("%s: %zu objects, %s\n",
              store.files->directory().c_str(),
              report.objects.size(),
              format_size(report.total_bytes).c_str());
  for (const auto& [key, totals] : roots) {
    std::printf("  %.12s  %-24s %6llu objects %10llu tokens %10s\n",
                to_hex(key).c_str(),
                totals.label.empty() ? "(unknown model)" : totals.label.c_str(),
                static_cast<unsigned long long>(totals.n_objects),
                static_cast<unsigned long long>(totals.n_tokens),
                format_size(totals.n_bytes).c_str());
  }
  if (report.n_missing_files + report.n_bad_records + report.n_unknown_version > 0) {
    std::printf("  %llu missing files, %llu bad records, %llu of unknown version\n",
                static_cast<unsigned long long>(report.n_missing_files),
                static_cast<unsigned long long>(report.n_bad_records),
                static_cast<unsigned long long>(report.n_unknown_version));
  }
  return Status::ok();
}

Status verify(const OpenedStore& store, bool json) {
  uint64_t n_ok = 0;
  Json faults = Json::array();
  CAIRN_RETURN_IF_ERROR(store.files->verify_all([&](const std::string& path, const Status& status) {
    if (status.is_ok()) {
      ++n_ok;
      return;
    }
    faults.push_back({{"path", path}, {"fault", status.message()}});
    if (!json) std::printf("bad  %s: %s\n", path.c_str(), status.message().c_str());
  }));
  if (json) {
    std::printf("%s\n",
                dump_json(Json{{"ok", n_ok}, {"bad", faults.size()}, {"faults", faults}}).c_str());
  } else {
    std::printf("%llu objects are sound, %zu are not\n",
                static_cast<unsigned long long>(n_ok),
                faults.size());
  }
  if (!faults.empty()) {
    return Status::corruption(fmt::format(
        "{} damaged objects; a server will set them aside and recompute", faults.size()));
  }
  return Status::ok();
}

}  // namespace

int run_cache(int argc, const char* const* argv) {
  const std::string verb = argc > 1 && argv[1][0] != '-' ? argv[1] : "";
  CacheCommandFlags flags;
  Arguments arguments(
      "cache " + (verb.empty() ? "ls|stat|verify" : verb),
      "Look at a cache store: ls lists objects, stat sums them up, verify checks every byte.");
  arguments.text("--store", &flags.store, "Folder of the store; default " + default_cache_dir());
  arguments.flag("--json", &flags.json, "Print JSON");
  const int skipped = verb.empty() ? 0 : 1;
  if (const auto status = arguments.parse(argc - skipped, argv + skipped)) return *status;
  if (verb != "ls" && verb != "stat" && verb != "verify") {
    const std::string fault = verb.empty() ? "a verb is missing" : "unknown verb \"" + verb + "\"";
    std::fprintf(stderr, "cairn cache: %s; wanted ls, stat or verify\n", fault.c_str());
    return kExitUsage;
  }
  const SystemClock clock;
  const auto store = open_store(flags.store.empty() ? default_cache_dir() : flags.store, clock);
  if (!store.is_ok()) return report_failure(store.status());
  const Status status = verb == "ls"     ? list_objects(*store, flags.json)
                        : verb == "stat" ? print_totals(*store, flags.json)
                                         : verify(*store, flags.json);
  return status.is_ok() ? kExitOk : report_failure(status);
}

}  // namespace cairn::cli
