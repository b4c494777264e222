// What /metrics shows, in the Prometheus text format. Thread: net.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"

namespace cairn {

class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  Metrics(Metrics&&) = delete;
  Metrics& operator=(Metrics&&) = delete;
  ~Metrics();

  void count_response(int http_status);
  void observe_first_token(double seconds);

  // The exposition text, with the engine's numbers as they are in `stats`.
  std::string render(const EngineStats& stats, size_t n_connections);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
