// How fast pages become objects and objects pages, with one I/O thread, and how much of the disk's
// own speed is left.
//
//   cairn-store-bench (--memory | --dir DIR) [--sealed --bytes 2GiB --pool 512MiB --rounds 5
//                     --json]
//
// --sealed: with AES-256-GCM under a key of zeros. --memory: no disk at all (a file system in an
// arena). --dir: a disk or a tmpfs; each measurement is paired with raw probes of the same sizes
// right before and after (O_DIRECT writes with a sync each 64 MiB, reads with as many in flight),
// and counts only if these two agree within 15 %. The last line of each size is the median of the
// rounds that count. Memory is the peak of the process above the pool and the arena. Pages of 256
// KiB, 1 MiB and 2 MiB.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "arena_file_system.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options.h"
#include "store/store_files.h"
#include "tensor/buffer.h"

namespace cairn {
namespace {

constexpr uint64_t kSyncBytes = uint64_t{64} << 20;
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr double kAgreement = 0.15;

struct Options {
  bool memory = false;
  bool sealed = false;
  std::string dir;
  uint64_t bytes = uint64_t{2} << 30;
  uint64_t pool_bytes = uint64_t{512} << 20;
  int rounds = 5;
  bool json = false;
};

struct Rates {
  double save = 0;  // GB/s
  double restore = 0;
};

struct Measurement {
  size_t page_bytes = 0;
  Rates store;
  std::optional<Rates> probe_before;
  std::optional<Rates> probe_after;
  double extra_mib = 0;  // peak resident memory above the pool
  bool counts = true;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double gb_per_s(uint64_t n_bytes, double seconds) {
  return static_cast<double>(n_bytes) / seconds / 1e9;
}

void must(const Status& status) {
  if (status.is_ok()) return;
  fmt::print(stderr, "store_bench: {}\n", status.to_string());
  std::exit(1);
}

template <typename T>
T must(Result<T> result) {
  must(result.status());
  return std::move(result).value();
}

uint64_t status_kib(const char* field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field)) return std::stoull(line.substr(std::strlen(field)));
  }
  return 0;
}

// Makes VmHWM start again from what is resident now.
void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

// --- The store ----------------------------------------------------------------------------------

struct Workload {
  std::vector<PageLayout> layouts;
  std::vector<ObjectSource> sources;
  std::vector<ObjectEntry> entries;
  std::vector<std::byte*> pages;  // the pool, as slots
  uint64_t payload_bytes = 0;
  uint64_t object_bytes = 0;  // of one file
};

// 8 layers of bf16 rows, 4 kv heads; head_dim makes up the size.
PageLayout layout_of(size_t page_bytes) {
  PageLayout layout;
  layout.n_layers = 8;
  layout.n_kv_heads = 4;
  layout.head_dim = static_cast<uint32_t>(page_bytes / (size_t{8} * 4 * 2 * 64 * 2));
  return layout;
}

Workload make_workload(const Options& options, const Buffer& pool, size_t page_bytes) {
  Workload work;
  work.layouts = {layout_of(page_bytes)};
  for (size_t at = 0; at + page_bytes <= pool.size(); at += page_bytes)
    work.pages.push_back(pool.data() + at);
  const size_t pages_a_run = std::min<size_t>(kMaxRunPages, kTargetObjectBytes / page_bytes);
  RootKey root;
  root.bytes[0] = std::byte{1};
  PageKey parent = root;
  size_t page_idx = 0;
  while (work.payload_bytes < options.bytes) {
    ObjectSource source;
    source.root = root;
    source.parent = parent;
    source.layouts = work.layouts;
    for (size_t p = 0; p < pages_a_run; ++p, ++page_idx) {
      PageRecord page{{}, std::vector<TokenId>(kPageTokens, static_cast<TokenId>(page_idx))};
      page.key = chain_key(parent, page.tokens);
      parent = page.key;
      source.pages.push_back(std::move(page));
      source.bytes.push_back({work.pages[page_idx % work.pages.size()]});
    }
    work.payload_bytes += pages_a_run * page_bytes;
    work.sources.push_back(std::move(source));
  }
  return work;
}

double save(StoreFiles& files, Workload& work) {
  const auto begin = std::chrono::steady_clock::now();
  uint64_t unsynced = 0;
  for (const ObjectSource& source : work.sources) {
    const uint64_t n = must(files.write_object(source));
    work.entries.push_back({source.root, source.kind, source.parent, source.pages, n, 0});
    work.object_bytes = n;
    unsynced += n;
    if (unsynced >= kSyncBytes) {
      must(files.sync());
      unsynced = 0;
    }
  }
  must(files.sync());
  return seconds_since(begin);
}

double restore(StoreFiles& files, const Workload& work) {
  std::vector<std::vector<PageTarget>> targets(work.entries.size());
  std::vector<ReadJob> jobs;
  size_t page_idx = 0;
  for (size_t i = 0; i < work.entries.size(); ++i) {
    for (uint32_t p = 0; p < work.entries[i].pages.size(); ++p, ++page_idx) {
      targets[i].push_back({p, {work.pages[page_idx % work.pages.size()]}});
    }
    jobs.push_back({&work.entries[i], work.layouts, targets[i]});
  }
  const auto begin = std::chrono::steady_clock::now();
  size_t n_given = 0;
  files.read_objects([&]() { return n_given < jobs.size() ? &jobs[n_given++] : nullptr; },
                     [](const ReadJob&, const Status& status) { must(status); });
  return seconds_since(begin);
}

// --- The disk, or memory, without the store
// -------------------------------------------------------

std::byte* pool_at(const Workload& work, uint64_t offset, size_t n_bytes) {
  const size_t pool_bytes = work.pages.size() * static_cast<size_t>(work.pages[1] - work.pages[0]);
  return work.pages[0] + offset % (pool_bytes - n_bytes) / 4096 * 4096;
}

void sync_at_once(std::vector<std::unique_ptr<File>>& files) {
  std::atomic<size_t> next{0};
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < std::min<size_t>(32, files.size()); ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < files.size(); i = next++) must(files[i]->sync());
    });
  }
  threads.clear();
  files.clear();
}

double probe_write(const std::string& dir, const Workload& work, size_t file_bytes) {
  FileSystem& fs = posix_file_system();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<File>> unsynced;
  for (size_t i = 0; i < work.sources.size(); ++i) {
    const std::string path = fmt::format("{}/{}", dir, i);
    unsynced.push_back(must(fs.open(path, {.mode = FileMode::kWrite, .direct = true})));
    const std::byte* bytes =
        pool_at(work, i * file_bytes, file_bytes);  // any aligned bytes will do
    must(unsynced.back()->write_at(0, std::span<const std::byte>(bytes, file_bytes)));
    if (unsynced.size() * file_bytes >= kSyncBytes) sync_at_once(unsynced);
  }
  sync_at_once(unsynced);
  return gb_per_s(work.sources.size() * file_bytes, seconds_since(begin));
}

double probe_read(const std::string& dir, const Workload& work, size_t file_bytes) {
  const auto begin = std::chrono::steady_clock::now();
  const auto queue = must(IoQueue::open(IoEngine::kAuto, StoreOptions().read_depth));
  const size_t n_reads = (file_bytes + kReadBytes - 1) / kReadBytes;
  std::vector<std::unique_ptr<File>> files(work.sources.size());
  for (size_t i = 0; i < files.size() * n_reads; ++i) {
    const size_t file_idx = i / n_reads;
    const uint64_t offset = i % n_reads * kReadBytes;
    if (offset == 0) {
      const std::string path = fmt::format("{}/{}", dir, file_idx);
      files[file_idx] = must(posix_file_system().open(path, {.direct = true}));
    }
    if (queue->in_flight() == queue->depth()) must(queue->wait().status);
    const size_t n = std::min(kReadBytes, file_bytes - offset);
    queue->submit(
        {files[file_idx].get(), offset, {pool_at(work, i * kReadBytes, kReadBytes), n}, 0});
  }
  while (queue->in_flight() > 0) must(queue->wait().status);
  return gb_per_s(work.sources.size() * file_bytes, seconds_since(begin));
}

Rates probe(const std::string& dir, const Workload& work) {
  must(posix_file_system().make_directories(dir));
  const size_t file_bytes = (work.object_bytes + 4095) / 4096 * 4096;
  Rates rates;
  rates.save = probe_write(dir, work, file_bytes);
  rates.restore = probe_read(dir, work, file_bytes);
  std::filesystem::remove_all(dir);
  return rates;
}

// The same bytes, in the arena's pieces, without hashing and files.
Rates probe_copy(const Workload& work, ArenaFileSystem& arena) {
  constexpr size_t kPiece = ArenaFileSystem::kChunkBytes;
  std::vector<std::byte*> chunks;
  while (chunks.size() * kPiece < work.payload_bytes) chunks.push_back(must(arena.take_chunk()));
  Rates rates;
  auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < chunks.size(); ++i)
    std::memcpy(chunks[i], pool_at(work, i * kPiece, kPiece), kPiece);
  rates.save = gb_per_s(work.payload_bytes, seconds_since(begin));
  begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < chunks.size(); ++i)
    std::memcpy(pool_at(work, i * kPiece, kPiece), chunks[i], kPiece);
  rates.restore = gb_per_s(work.payload_bytes, seconds_since(begin));
  arena.give_back(chunks);
  return rates;
}

bool agree(double a, double b) {
  return std::abs(a - b) <= kAgreement * std::max(a, b);
}

Measurement measure(const Options& options, const Buffer& pool, size_t page_bytes) {
  Measurement out;
  out.page_bytes = page_bytes;
  Workload work = make_workload(options, pool, page_bytes);
  SystemClock clock;
  OpenReport report;
  StoreOptions store;
  if (options.sealed) store.key = std::make_shared<const StoreKey>(Digest{});
  std::unique_ptr<ArenaFileSystem> arena;
  FileSystem* fs = &posix_file_system();
  if (options.memory) {
    arena = std::make_unique<ArenaFileSystem>(options.bytes + options.bytes / 8);
    fs = arena.get();
    store.directory = "/store";
    out.probe_before = probe_copy(work, *arena);
  } else {
    store.directory = options.dir + "/store";
    std::filesystem::remove_all(store.directory);
    work.object_bytes = kTargetObjectBytes + kHeaderBlockBytes;
    out.probe_before = probe(options.dir + "/probe", work);
  }
  reset_peak();
  const uint64_t before_kib = status_kib("VmRSS:");
  auto files = must(StoreFiles::open(*fs, clock, store, &report));
  out.store.save = gb_per_s(work.payload_bytes, save(*files, work));
  out.store.restore = gb_per_s(work.payload_bytes, restore(*files, work));
  out.extra_mib = static_cast<double>(status_kib("VmHWM:") - before_kib) / 1024;
  files.reset();
  if (options.memory) {
    arena = std::make_unique<ArenaFileSystem>(options.bytes + options.bytes / 8);
    out.probe_after = probe_copy(work, *arena);
  } else {
    std::filesystem::remove_all(store.directory);
    out.probe_after = probe(options.dir + "/probe", work);
  }
  out.counts = agree(out.probe_before->save, out.probe_after->save) &&
               agree(out.probe_before->restore, out.probe_after->restore);
  return out;
}

double share(double store, double before, double after) {
  return store / ((before + after) / 2);
}

Json to_json(const Measurement& m) {
  Json json;
  json["page_bytes"] = m.page_bytes;
  json["save_gb_s"] = m.store.save;
  json["restore_gb_s"] = m.store.restore;
  json["extra_mib"] = m.extra_mib;
  json["counts"] = m.counts;
  if (m.probe_before) {
    json["probe_save_gb_s"] = {m.probe_before->save, m.probe_after->save};
    json["probe_restore_gb_s"] = {m.probe_before->restore, m.probe_after->restore};
    json["save_share"] = share(m.store.save, m.probe_before->save, m.probe_after->save);
    json["restore_share"] = share(m.store.restore, m.probe_before->restore, m.probe_after->restore);
  }
  return json;
}

void print(const Measurement& m) {
  fmt::print("pages of {:>8}: save {:.2f} GB/s, restore {:.2f} GB/s, {:.1f} MiB above the pool",
             format_size(m.page_bytes),
             m.store.save,
             m.store.restore,
             m.extra_mib);
  if (m.probe_before) {
    fmt::print("; raw {:.2f} / {:.2f} and {:.2f} / {:.2f}: {:.0f} % and {:.0f} %{}",
               m.probe_before->save,
               m.probe_after->save,
               m.probe_before->restore,
               m.probe_after->restore,
               100 * share(m.store.save, m.probe_before->save, m.probe_after->save),
               100 * share(m.store.restore, m.probe_before->restore, m.probe_after->restore),
               m.counts ? "" : " (does not count: the probes differ)");
  }
  fmt::print("\n");
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

void print_medians(const std::vector<Measurement>& rounds) {
  std::vector<double> save;
  std::vector<double> restore;
  std::vector<double> save_share;
  std::vector<double> restore_share;
  for (const Measurement& m : rounds) {
    if (!m.counts) continue;
    save.push_back(m.store.save);
    restore.push_back(m.store.restore);
    save_share.push_back(share(m.store.save, m.probe_before->save, m.probe_after->save));
    restore_share.push_back(
        share(m.store.restore, m.probe_before->restore, m.probe_after->restore));
  }
  fmt::print(
      "pages of {:>8}: median of {} rounds that count: save {:.2f} GB/s, {:.0f} %; restore "
      "{:.2f} GB/s, {:.0f} %\n",
      format_size(rounds.front().page_bytes),
      save.size(),
      median(save),
      100 * median(save_share),
      median(restore),
      100 * median(restore_share));
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (flag == "--memory") {
      options.memory = true;
    } else if (flag == "--sealed") {
      options.sealed = true;
    } else if (flag == "--json") {
      options.json = true;
    } else if (flag == "--dir") {
      options.dir = value();
    } else if (flag == "--bytes") {
      options.bytes = must(parse_size(value()));
    } else if (flag == "--pool") {
      options.pool_bytes = must(parse_size(value()));
    } else if (flag == "--rounds") {
      options.rounds = std::max(1, std::atoi(value().c_str()));
    } else {
      return std::nullopt;
    }
  }
  const bool is_sane = options.pool_bytes >= (uint64_t{64} << 20) && options.bytes > 0;
  if (options.memory == !options.dir.empty() || !is_sane) return std::nullopt;
  return options;
}

int run(const Options& options) {
  set_log_level(LogLevel::kWarning);
  const Buffer pool = Buffer::allocate(options.pool_bytes);
  for (size_t i = 0; i + 8 <= pool.size(); i += 8) {
    const uint64_t v = i * 0x9e3779b97f4a7c15U;
    std::memcpy(pool.data() + i, &v, sizeof(v));
  }
  Json results = Json::array();
  for (const size_t page_bytes : {size_t{256} << 10, size_t{1} << 20, size_t{2} << 20}) {
    std::vector<Measurement> rounds;
    for (int round = 0; round < options.rounds; ++round) {
      rounds.push_back(measure(options, pool, page_bytes));
      results.push_back(to_json(rounds.back()));
      if (!options.json) print(rounds.back());
    }
    if (!options.json) print_medians(rounds);
  }
  if (options.json) fmt::print("{}\n", dump_json(results));
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  const auto options = cairn::parse(argc, argv);
  if (!options) {
    fmt::print(
        stderr,
        "usage: cairn-store-bench (--memory | --dir DIR) [--sealed --bytes 2GiB --pool 512MiB "
        "--rounds 5 "
        "--json]\n--pool is at least 64MiB\n");
    return 2;
  }
  return cairn::run(*options);
}
