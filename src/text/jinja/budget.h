// What one rendering may use. Templates and messages are untrusted: a template can loop, double a
// string forty times or nest a list in itself, so everything that costs is counted before it is
// done.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/jinja/error.h"

namespace cairn::jinja {

struct Limits {
  // Nodes evaluated, elements walked. Renderings of long conversations need about 1 % of it.
  uint64_t n_steps = 10'000'000;
  // All strings and lists made while rendering, freed or not, and the output. Ten times what a
  // conversation of 1 MB needs.
  uint64_t n_bytes = uint64_t{256} << 20U;
  // Nested evaluations; each takes about 1 KiB of stack. A macro that calls itself uses six or so.
  uint32_t depth = 500;
};

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void spend(uint64_t n_steps = 1) {
    if (n_steps > limits_.n_steps - steps_) fail("the template takes too many steps");
    steps_ += n_steps;
  }

  void allocate(uint64_t n_bytes) {
    if (n_bytes > limits_.n_bytes - bytes_) fail("the template takes too much memory");
    bytes_ += n_bytes;
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

}  // namespace cairn::jinja
