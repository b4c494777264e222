// What one rendering may use. Templates and messages are untrusted: a template can loop, double a
// string forty times or nest a list in itself, so everything that costs is counted before it is
// done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "text/jinja/error.h"

namespace cairn::jinja {

struct Limits {
  // Nodes evaluated, elements walked, 64-byte pieces of text copied. Renderings of long
  // conversations need about 1 % of it.
  uint64_t n_steps = 10'000'000;
  // Strings and lists that are alive, and the text being built. The inputs add to it: a prompt may
  // be as long as its messages, several times over.
  uint64_t n_bytes = uint64_t{16} << 20U;
  // Nested evaluations; each takes about 1 KiB of stack. A macro that calls itself uses six or so.
  uint32_t depth = 500;
};

// Outlives every value that is charged to it.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void spend(uint64_t n_steps = 1) {
    if (n_steps > limits_.n_steps - steps_) fail("the template takes too many steps");
    steps_ += n_steps;
  }

  // Work of copying or searching text.
  void spend_text(uint64_t n_bytes) { spend(1 + n_bytes / 64); }

  // Fails when so many bytes more would be too many. For memory that is soon given back.
  void check(uint64_t n_bytes) const {
    if (n_bytes > limits_.n_bytes - bytes_) fail("the template takes too much memory");
  }

  void allocate(uint64_t n_bytes) {
    check(n_bytes);
    bytes_ += n_bytes;
  }

  void release(uint64_t n_bytes) { bytes_ -= n_bytes; }

  // All that is alive now are inputs: what they take does not count, and for each of their bytes
  // the rendering may use sixteen more, and one more step.
  void admit_inputs() {
    limits_.n_bytes += 17 * bytes_;
    limits_.n_steps += bytes_;
  }

  // Held while something nested is evaluated.
  class Nesting {
   public:
    explicit Nesting(Budget& budget) : budget_(budget) {
      if (budget_.depth_ >= budget_.limits_.depth) fail("the template nests too deeply");
      ++budget_.depth_;
    }

    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Nesting(Nesting&&) = delete;
    Nesting& operator=(Nesting&&) = delete;

    ~Nesting() { --budget_.depth_; }

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
  uint32_t depth_ = 0;
};

// Memory charged to a budget, given back when this goes.
class MemoryCharge {
 public:
  MemoryCharge() = default;

  MemoryCharge(Budget& budget, uint64_t n_bytes) : budget_(&budget), n_bytes_(n_bytes) {
    budget.allocate(n_bytes);
  }

  MemoryCharge(const MemoryCharge&) = delete;
  MemoryCharge& operator=(const MemoryCharge&) = delete;

  MemoryCharge(MemoryCharge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), n_bytes_(other.n_bytes_) {}

  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(n_bytes_, other.n_bytes_);
    return *this;
  }

  ~MemoryCharge() {
    if (budget_ != nullptr) budget_->release(n_bytes_);
  }

 private:
  Budget* budget_ = nullptr;
  uint64_t n_bytes_ = 0;
};

}  // namespace cairn::jinja
