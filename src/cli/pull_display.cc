#include "cli/pull_display.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/options.h"

namespace cairn::cli {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLines{100};
constexpr size_t kBarWidth = 20;
constexpr size_t kNameWidth = 28;  // the whole line stays below 80 columns

std::string bar(double share) {
  const auto n_full = static_cast<size_t>(share * kBarWidth);
  return "[" + std::string(n_full, '#') + std::string(kBarWidth - n_full, '.') + "]";
}

// The end of a name tells shards apart.
std::string shortened(const std::string& name) {
  return name.size() <= kNameWidth ? name : ".." + name.substr(name.size() - kNameWidth + 2);
}

std::string time_left(double seconds) {
  if (seconds < 1) return "";
  if (seconds < 90) return fmt::format(" {:.0f} s", seconds);
  return seconds < 5400 ? fmt::format(" {:.0f} min", seconds / 60)
                        : fmt::format(" {:.1f} h", seconds / 3600);
}

}  // namespace

// A line in between starts at the margin, whatever the progress line has left there.
void PullDisplay::print(const std::string& text) {
  std::fprintf(stderr, "%s%s\n", report_ ? "\r\033[K" : "", text.c_str());
}

void PullDisplay::on_note(const std::string& text) {
  print("note: " + text);
}

void PullDisplay::on_plan(const PullPlan& plan) {
  n_total_ = plan.n_bytes;
  started_ = steady_clock::now();
  const size_t n_missing = plan.n_files - plan.n_unchanged;
  if (n_missing == 0) return;
  print(fmt::format("fetching {} of {} files, {}", n_missing, plan.n_files, format_size(n_total_)));
}

void PullDisplay::on_file_begin(const std::string& name,
                                std::optional<uint64_t> size_bytes,
                                uint64_t n_there) {
  name_ = name;
  n_there_ = n_there;
  n_of_file_ = n_there;
  if (report_) return show(steady_clock::now());
  print(
      fmt::format("  {}{}{}",
                  name,
                  size_bytes ? ", " + format_size(*size_bytes) : "",
                  n_there > 0 ? fmt::format(", of which {} are here", format_size(n_there)) : ""));
}

void PullDisplay::on_progress(uint64_t n_bytes) {
  n_of_file_ = n_bytes;
  const Time now = steady_clock::now();
  if (report_ && now - shown_ >= kBetweenLines) show(now);
}

void PullDisplay::on_retry(const std::string& reason, std::chrono::milliseconds pause) {
  print(fmt::format(
      "{}; trying again in {:.1f} s", reason, std::chrono::duration<double>(pause).count()));
}

void PullDisplay::on_file_end() {
  n_before_ += n_of_file_ > n_there_ ? n_of_file_ - n_there_ : 0;
}

void PullDisplay::show(Time now) {
  shown_ = now;
  const uint64_t n_received = n_before_ + (n_of_file_ > n_there_ ? n_of_file_ - n_there_ : 0);
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const double rate = seconds > 0 ? static_cast<double>(n_received) / seconds : 0;
  const double share =
      n_total_ == 0 ? 0 : static_cast<double>(n_received) / static_cast<double>(n_total_);
  const uint64_t n_left = n_total_ > n_received ? n_total_ - n_received : 0;
  report_(std::min(share, 1.0),
          fmt::format("{} {}/s{} {}",
                      bar(std::min(share, 1.0)),
                      format_size(static_cast<uint64_t>(rate)),
                      rate > 0 ? time_left(static_cast<double>(n_left) / rate) : "",
                      shortened(name_)));
}

}  // namespace cairn::cli
