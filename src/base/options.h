// Values that people type (sizes, durations) and the environment. getenv is called here alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn {

// "64MiB", "2GiB", "1000" (bytes), "1.5GB" (decimal units too). Errors: kInvalidArgument naming the
// value and the accepted forms; negative, overflowing or empty values are errors.
Result<uint64_t> parse_size(std::string_view text);
std::string format_size(uint64_t bytes);  // "1.5 GiB"

// "250ms", "1s", "2m", "1h".
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

std::optional<std::string> env(const char* name);
// $XDG_CACHE_HOME/cairn, else $HOME/.cache/cairn, else the same under the account's home directory.
std::string default_cache_dir();
// Folder of the running executable (/proc/self/exe).
std::string executable_dir();

uint64_t available_memory_bytes();  // MemAvailable, or the cgroup's limit when that is smaller
unsigned n_usable_cpus();           // sched_getaffinity

}  // namespace cairn
