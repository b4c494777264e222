// What a person sees of a pull: on a terminal one line that is written over, elsewhere a line when
// a file begins. All on standard error; the result is the command's.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/progress_line.h"
#include "hub/pull_observer.h"

namespace cairn::cli {

class PullDisplay final : public PullObserver {
 public:
  PullDisplay() : report_(line_.reporter()) {}

  void on_note(const std::string& text) override;
  void on_plan(const PullPlan& plan) override;
  void on_file_begin(const std::string& name,
                     std::optional<uint64_t> size_bytes,
                     uint64_t n_there) override;
  void on_progress(uint64_t n_bytes) override;
  void on_retry(const std::string& reason, std::chrono::milliseconds pause) override;
  void on_file_end() override;

 private:
  using Time = std::chrono::steady_clock::time_point;

  void print(const std::string& text);
  void show(Time now);

  ProgressLine line_;
  std::function<void(double, std::string_view)> report_;  // empty: nobody sees the line
  std::string name_;
  uint64_t n_total_ = 0;    // bytes of all files to fetch
  uint64_t n_before_ = 0;   // received of files before this one
  uint64_t n_there_ = 0;    // of this one, from an earlier pull
  uint64_t n_of_file_ = 0;  // of this one, now
  Time started_ = {};
  Time shown_ = {};
};

}  // namespace cairn::cli
