// What this machine can do at best, measured: the numbers to divide a benchmark by.
#pragma once

#include <cstddef>

#include "base/kernel_pool.h"
#include "kernels/isa.h"

namespace cairn {

struct MachineLimits {
  double gflops = 0;     // all threads, operands in registers; a multiply-add counts as two
  double read_gb_s = 0;  // all threads, a buffer far larger than the caches
};

// The arithmetic is that of products with bf16 weights: VDPBF16PS for kFast on kAvx512Bf16, f32
// multiply-add of the class's width otherwise. Takes about half a second. The pool is the one whose
// threads are to be counted. The best of several short runs: a limit is not an average.
MachineLimits measure_limits(Isa isa, Precision precision, KernelPool& pool);

// The bandwidth alone, about 0.2 s; for probes right before and after a measurement.
double measure_read_gb_s(KernelPool& pool);

}  // namespace cairn
