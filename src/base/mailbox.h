// A bounded queue of messages from many threads to one.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace cairn {

// `capacity` bounds what outsiders may push; push_reply() is for answers to commands whose number
// is bounded already (so an answer can never be refused). Thread: push from any, pop from one or
// more.
template <typename T>
class Mailbox {
 public:
  explicit Mailbox(size_t capacity) : capacity_(capacity) {}

  // False when full or closed: the caller answers "overloaded".
  bool push(T message) {
    {
      MutexLock lock(mutex_);
      if (closed_ || queue_.size() >= capacity_) return false;
      queue_.push_back(std::move(message));
    }
    ready_.notify_one();
    return true;
  }

  void push_reply(T message) {
    {
      MutexLock lock(mutex_);
      queue_.push_back(std::move(message));
    }
    ready_.notify_one();
  }

  std::optional<T> try_pop() {
    MutexLock lock(mutex_);
    return take();
  }

  // Waits; nullopt when the time has passed, or when closed and empty.
  std::optional<T> pop_until(std::chrono::steady_clock::time_point deadline) {
    MutexLock lock(mutex_);
    while (queue_.empty() && !closed_) {
      if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
      ready_.wait_until(mutex_, deadline);
    }
    return take();
  }

  // Waits; nullopt only when closed and empty.
  std::optional<T> pop() {
    MutexLock lock(mutex_);
    while (queue_.empty() && !closed_) ready_.wait(mutex_);
    return take();
  }

  // No more pushes; what is queued can still be popped.
  void close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  size_t size() {
    MutexLock lock(mutex_);
    return queue_.size();
  }

 private:
  std::optional<T> take() CAIRN_REQUIRES(mutex_) {
    if (queue_.empty()) return std::nullopt;
    std::optional<T> message(std::move(queue_.front()));
    queue_.pop_front();
    return message;
  }

  const size_t capacity_;
  Mutex mutex_;
  CondVar ready_;
  std::deque<T> queue_ CAIRN_GUARDED_BY(mutex_);
  bool closed_ CAIRN_GUARDED_BY(mutex_) = false;
};

}  // namespace cairn
