#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <atomic>
#include <memory>

#include "base/options.h"

namespace cairn {
namespace {

std::atomic<LogLevel>& current_level() {
  static std::atomic<LogLevel> level = [] {
    const auto wanted = env("CAIRN_LOG");
    const auto parsed = wanted ? parse_log_level(*wanted) : std::nullopt;
    return parsed.value_or(LogLevel::kInfo);
  }();
  return level;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

// Never destroyed: threads may still log while static objects are torn down.
spdlog::logger& logger() {
  static spdlog::logger* const kLogger = [] {
    auto sink =
        std::make_shared<spdlog::sinks::stderr_color_sink_mt>(spdlog::color_mode::automatic);
    auto made = std::make_unique<spdlog::logger>("cairn", std::move(sink));
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%-7l%$ %v");
    made->set_level(spdlog::level::trace);  // log_enabled() has decided already
    return made.release();
  }();
  return *kLogger;
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warning" || text == "warn") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return std::nullopt;
}

void set_log_level(LogLevel level) {
  current_level().store(level, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
  return level != LogLevel::kOff && level >= current_level().load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view line) {
  logger().log(spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace cairn
