#include "base/options.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <memory>
#include <thread>

#include "base/coding.h"
#include "base/file_system.h"

namespace cairn {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr uint64_t kKiB = 1024;
constexpr std::array<Unit, 10> kSizeUnits = {{{"", 1},
                                              {"B", 1},
                                              {"KB", 1000},
                                              {"MB", 1000 * 1000},
                                              {"GB", 1000 * 1000 * 1000},
                                              {"TB", 1000ULL * 1000 * 1000 * 1000},
                                              {"KiB", kKiB},
                                              {"MiB", kKiB* kKiB},
                                              {"GiB", kKiB* kKiB* kKiB},
                                              {"TiB", kKiB* kKiB* kKiB* kKiB}}};
constexpr std::array<Unit, 4> kDurationUnits = {
    {{"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 60 * 60 * 1000}}};

// With more digits, digits * factor could pass 2^64 for a TiB.
constexpr size_t kFractionDigitsMax = 6;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(a, b, [&](char x, char y) { return lower(x) == lower(y); });
}

// Digits off the front of `text` as a number; false when they pass 2^64.
bool take_digits(std::string_view* text, uint64_t* value, size_t* n_digits) {
  *n_digits = 0;
  while (*n_digits < text->size() && is_digit((*text)[*n_digits])) ++*n_digits;
  const std::string_view digits = text->substr(0, *n_digits);
  *value = 0;
  text->remove_prefix(*n_digits);
  if (digits.empty()) return true;
  return std::from_chars(digits.data(), digits.data() + digits.size(), *value).ec == std::errc();
}

// "<whole>[.<fraction>][ ]<unit>" times the unit's factor; nullopt when the text is something else
// or the product passes 2^64.
std::optional<uint64_t> parse_with_unit(std::string_view text, std::span<const Unit> units) {
  uint64_t whole = 0;
  uint64_t fraction = 0;
  size_t n_whole = 0;
  size_t n_fraction = 0;
  if (!take_digits(&text, &whole, &n_whole) || n_whole == 0) return std::nullopt;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!take_digits(&text, &fraction, &n_fraction)) return std::nullopt;
    if (n_fraction == 0 || n_fraction > kFractionDigitsMax) return std::nullopt;
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  const auto unit =
      std::ranges::find_if(units, [&](const Unit& u) { return same_word(u.name, text); });
  if (unit == units.end()) return std::nullopt;
  if (n_fraction > 0 && unit->factor == 1) return std::nullopt;
  uint64_t scale = 1;
  for (size_t i = 0; i < n_fraction; ++i) scale *= 10;
  uint64_t value = 0;
  if (!checked_mul(whole, unit->factor, &value)) return std::nullopt;
  if (!checked_add(value, fraction * unit->factor / scale, &value)) return std::nullopt;
  return value;
}

// First number after `key` in a kernel text file; nullopt when either is missing ("max" is no
// number).
std::optional<uint64_t> number_in_file(const std::string& path, std::string_view key) {
  const auto text = read_text_file(posix_file_system(), path, 1 << 20);
  if (!text.is_ok()) return std::nullopt;
  std::string_view rest = *text;
  if (!key.empty()) {
    const size_t at = rest.starts_with(key) ? 0 : rest.find(fmt::format("\n{}", key));
    if (at == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(at + (at == 0 ? 0 : 1) + key.size());
  }
  while (!rest.empty() && (rest.front() == ' ' || rest.front() == '\t')) rest.remove_prefix(1);
  uint64_t value = 0;
  size_t n_digits = 0;
  if (!take_digits(&rest, &value, &n_digits) || n_digits == 0) return std::nullopt;
  return value;
}

// What the control groups above this process still leave it, page cache counted as free because the
// kernel gives it back first. Only cgroup v2; elsewhere there is no limit.
uint64_t cgroup_headroom_bytes() {
  uint64_t headroom = std::numeric_limits<uint64_t>::max();
  const auto membership = read_text_file(posix_file_system(), "/proc/self/cgroup", 1 << 16);
  if (!membership.is_ok()) return headroom;
  const size_t at = membership->find("0::/");
  if (at == std::string::npos) return headroom;
  std::string folder = membership->substr(at + 3, membership->find('\n', at) - at - 3);
  while (true) {
    const std::string root = "/sys/fs/cgroup" + (folder == "/" ? "" : folder);
    const auto limit = number_in_file(root + "/memory.max", "");
    const auto used = number_in_file(root + "/memory.current", "");
    if (limit && used) {
      const uint64_t cached = number_in_file(root + "/memory.stat", "inactive_file ").value_or(0) +
                              number_in_file(root + "/memory.stat", "active_file ").value_or(0);
      const uint64_t kept = *used > cached ? *used - cached : 0;
      headroom = std::min(headroom, *limit > kept ? *limit - kept : 0);
    }
    const size_t slash = folder.rfind('/');
    if (folder == "/" || slash == std::string::npos) return headroom;
    folder = slash == 0 ? "/" : folder.substr(0, slash);
  }
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text) {
  const auto value = parse_with_unit(text, kSizeUnits);
  if (value) return *value;
  return Status::invalid_argument(
      fmt::format("'{}' is not a size; write bytes (1000) or a number with KiB, MiB, GiB, TiB, KB, "
                  "MB, GB or TB "
                  "(64MiB, 1.5GB), below 16777216 TiB",
                  text));
}

std::string format_size(uint64_t bytes) {
  static constexpr std::array<const char*, 7> kNames = {
      "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.95 would round to "1024.0".
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const auto value = parse_with_unit(text, kDurationUnits);
  // A century is enough, and leaves room to add such values to a clock.
  constexpr uint64_t kMsMax = 100ULL * 366 * 24 * 3600 * 1000;
  if (value && *value <= kMsMax) return std::chrono::milliseconds(static_cast<int64_t>(*value));
  return Status::invalid_argument(
      fmt::format("'{}' is not a duration; write a number with ms, s, m or h (250ms, 1.5s, 2m), at "
                  "most a century",
                  text));
}

std::optional<std::string> env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::string default_cache_dir() {
  const auto cache = env("XDG_CACHE_HOME");
  if (cache && cache->starts_with('/')) return *cache + "/cairn";
  const auto home = env("HOME");
  if (home && home->starts_with('/')) return (*home == "/" ? "" : *home) + "/.cache/cairn";
  // Without either (a service, cron) the account's own home; never a folder that others can make
  // first.
  const passwd* account = ::getpwuid(::getuid());
  const std::string own = account != nullptr && account->pw_dir != nullptr ? account->pw_dir : "";
  return (own == "/" ? "" : own) + "/.cache/cairn";
}

std::string executable_dir() {
  std::array<char, 4096> path{};
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size());
  if (n <= 0) return ".";
  const std::string_view full(path.data(), static_cast<size_t>(n));
  const size_t slash = full.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(full.substr(0, std::max<size_t>(slash, 1)));
}

uint64_t available_memory_bytes() {
  const uint64_t kib = number_in_file("/proc/meminfo", "MemAvailable:").value_or(0);
  return std::min(kib * 1024, cgroup_headroom_bytes());
}

unsigned n_usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(1U, static_cast<unsigned>(CPU_COUNT(&set)));
  }
  // More than 1024 processors: the fixed set is too small, the library knows better.
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace cairn
