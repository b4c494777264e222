// SIGTERM and SIGINT as calls on an ordinary thread, so that no handler and no global state is
// needed.
#pragma once

#include <functional>
#include <thread>

namespace cairn::cli {

// Blocks the two signals in the calling thread and in all threads started after it: make the
// watcher before any other thread. The first signal calls what watch() was given, a second one ends
// the process at once with status 1.
class SignalWatcher {
 public:
  SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;
  SignalWatcher(SignalWatcher&&) = delete;
  SignalWatcher& operator=(SignalWatcher&&) = delete;
  ~SignalWatcher() = default;  // joins the watching thread

  // `on_signal` runs on the watcher's thread, once. Signals that came before are not lost.
  void watch(std::function<void()> on_signal);

 private:
  std::jthread thread_;
};

}  // namespace cairn::cli
