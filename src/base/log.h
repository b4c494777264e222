// Log lines on standard error (spdlog inside; this header stays light).
//
//   log_info("store {} opened in {} ms", path, ms);
//
// Level: --log-level, or CAIRN_LOG in the environment (read in options.cc), or info. An unknown
// word in the environment counts as none, because no log exists yet that could complain.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string_view>
#include <utility>

namespace cairn {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// "debug", "info", "warning", "error", "off"; nullopt for other words.
std::optional<LogLevel> parse_log_level(std::string_view text);

// Thread: any, for all of these.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view line);

template <typename... Args>
void log_at(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kDebug, format, std::forward<Args>(args)...);
}

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kInfo, format, std::forward<Args>(args)...);
}

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kWarning, format, std::forward<Args>(args)...);
}

template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace cairn
