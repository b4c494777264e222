#include "cli/progress_line.h"

#include <unistd.h>

#include <cstdio>

namespace cairn::cli {

ProgressLine::ProgressLine() : is_seen_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (is_shown_) std::fprintf(stderr, "\r\033[K");
}

std::function<void(double, std::string_view)> ProgressLine::reporter() {
  if (!is_seen_) return {};
  return [this](double share, std::string_view what) { show(share, what); };
}

void ProgressLine::show(double share, std::string_view what) {
  std::fprintf(
      stderr, "\r\033[K%3.0f %% %.*s", share * 100, static_cast<int>(what.size()), what.data());
  std::fflush(stderr);
  is_shown_ = true;
}

}  // namespace cairn::cli
