// A mutex that clang's -Wthread-safety can follow. State belongs to one thread where possible
// (STYLE section 7); these are for the few queues between threads.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define CAIRN_TS(x) __attribute__((x))
#else
#define CAIRN_TS(x)
#endif
#define CAIRN_GUARDED_BY(m) CAIRN_TS(guarded_by(m))
#define CAIRN_REQUIRES(...) CAIRN_TS(requires_capability(__VA_ARGS__))

namespace cairn {

class CAIRN_TS(capability("mutex")) Mutex {
 public:
  void lock() CAIRN_TS(acquire_capability()) { mutex_.lock(); }

  void unlock() CAIRN_TS(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class CAIRN_TS(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CAIRN_TS(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }

  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  MutexLock(MutexLock&&) = delete;
  MutexLock& operator=(MutexLock&&) = delete;

  ~MutexLock() CAIRN_TS(release_capability()) { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Wakes may be spurious: wait in a loop over the condition.
  void wait(Mutex& mutex) CAIRN_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cv_.wait(lock);
    lock.release();
  }

  template <typename TimePoint>
  void wait_until(Mutex& mutex, TimePoint deadline) CAIRN_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cv_.wait_until(lock, deadline);
    lock.release();
  }

  void notify_one() { cv_.notify_one(); }

  void notify_all() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace cairn
