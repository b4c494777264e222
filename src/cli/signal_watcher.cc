#include "cli/signal_watcher.h"

#include <unistd.h>

#include <csignal>
#include <ctime>
#include <utility>

namespace cairn::cli {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

void watch_loop(const std::stop_token& stop, const std::function<void()>& on_signal) {
  const sigset_t set = stop_signals();
  const timespec pause{0, 100'000'000};  // how soon the thread notices that it is no longer wanted
  bool was_called = false;
  while (!stop.stop_requested()) {
    if (sigtimedwait(&set, nullptr, &pause) < 0) continue;
    if (was_called) _exit(1);
    was_called = true;
    on_signal();
  }
}

}  // namespace

SignalWatcher::SignalWatcher() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a client that went away is an error of its socket
}

void SignalWatcher::watch(std::function<void()> on_signal) {
  thread_ = std::jthread([on_signal = std::move(on_signal)](const std::stop_token& stop) {
    watch_loop(stop, on_signal);
  });
}

}  // namespace cairn::cli
