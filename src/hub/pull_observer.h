// What a pull tells while it runs, for people to watch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace cairn {

struct PullPlan {
  size_t n_files = 0;      // that make the model
  size_t n_unchanged = 0;  // of those, already here
  uint64_t n_bytes = 0;    // to fetch; files whose size the hub does not tell count as nothing
};

// Thread: that of the pull. Must not block for long: the connection waits.
class PullObserver {
 public:
  PullObserver() = default;
  PullObserver(const PullObserver&) = delete;
  PullObserver& operator=(const PullObserver&) = delete;
  PullObserver(PullObserver&&) = delete;
  PullObserver& operator=(PullObserver&&) = delete;
  virtual ~PullObserver() = default;

  virtual void on_note(const std::string& text) = 0;  // a choice or a warning, in words
  virtual void on_plan(const PullPlan& plan) = 0;
  // `n_there`: bytes kept from an earlier pull that was cut off.
  virtual void on_file_begin(const std::string& name,
                             std::optional<uint64_t> size_bytes,
                             uint64_t n_there) = 0;
  virtual void on_progress(uint64_t n_bytes) = 0;  // of this file, so far; may go back
  virtual void on_retry(const std::string& reason, std::chrono::milliseconds pause) = 0;
  virtual void on_file_end() = 0;
};

}  // namespace cairn
