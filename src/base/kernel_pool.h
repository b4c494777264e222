// Fork-join over a fixed set of threads; the caller is worker 0.
//
// A step of a model forks some hundreds of times, so workers spin for a short time between tasks
// and park when none comes. Tasks write only their own buffers; which worker runs which part never
// changes a result (P2: work is split over outputs, never over sums).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>

namespace cairn {

// Thread: run() from one thread at a time (the engine's).
class KernelPool {
 public:
  // 1 <= n_threads <= 1024, the caller included; n_threads - 1 threads are started. Every worker
  // sets MXCSR to round-to-nearest with denormals kept; the constructor sets it for the caller too.
  explicit KernelPool(unsigned n_threads);
  KernelPool(const KernelPool&) = delete;
  KernelPool& operator=(const KernelPool&) = delete;
  KernelPool(KernelPool&&) = delete;
  KernelPool& operator=(KernelPool&&) = delete;
  ~KernelPool();

  unsigned n_threads() const { return n_threads_; }

  // Runs task(part) for part in [0, n_parts), each once, parts taken in order by whoever is free.
  // Returns when all are done. n_parts == 1 or one thread: runs in the caller without waking
  // anyone. The task must not throw, allocate, lock or log.
  template <typename Task>
  void run(size_t n_parts, const Task& task) {
    run_erased(
        n_parts, [](const void* t, size_t part) { (*static_cast<const Task*>(t))(part); }, &task);
  }

 private:
  using Call = void (*)(const void* task, size_t part);
  void run_erased(size_t n_parts, Call call, const void* task);

  struct Shared;
  unsigned n_threads_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace cairn
