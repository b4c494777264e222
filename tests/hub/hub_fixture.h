// What the tests of pulling share: settings that do not wait, and an observer that remembers.
#pragma once

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "hub/fake_hub.h"
#include "hub/hub_settings.h"
#include "hub/pull_observer.h"
#include "support/temp_folder.h"

namespace cairn::testing {

// Local servers are reached directly, whatever proxy the machine has.
inline void ignore_proxies() {
  ::setenv("no_proxy", "*", 1);
  ::setenv("NO_PROXY", "*", 1);
}

class RecordingObserver final : public PullObserver {
 public:
  void on_note(const std::string& text) override { notes.push_back(text); }

  void on_plan(const PullPlan& p) override { plan = p; }

  void on_file_begin(const std::string& name,
                     std::optional<uint64_t> /*size_bytes*/,
                     uint64_t n_there) override {
    begun.push_back(name);
    resumed_at.push_back(n_there);
  }

  void on_progress(uint64_t n_bytes) override { n_last = n_bytes; }

  void on_retry(const std::string& reason, std::chrono::milliseconds pause) override {
    retries.push_back(reason);
    pauses.push_back(pause);
  }

  void on_file_end() override { ++n_ended; }

  std::vector<std::string> notes, begun, retries;
  std::vector<uint64_t> resumed_at;
  std::vector<std::chrono::milliseconds> pauses;
  PullPlan plan;
  uint64_t n_last = 0;
  size_t n_ended = 0;
};

// Pauses are passed over, but the observer sees how long they would have been.
inline HubSettings settings_for(const FakeHub& hub, const std::string& token = "") {
  ignore_proxies();
  HubSettings settings;
  settings.endpoint = hub.url();
  settings.http.token = token;
  settings.http.token_origin = hub.url();
  settings.retry.pause = [](std::chrono::milliseconds) { return true; };
  return settings;
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace cairn::testing
