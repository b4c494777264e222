// How near are products and attention to what this machine can do?
//
//   cairn-kernels-bench [--threads N] [--isa CLASS] [--seconds S] [--only matmul,pack,attend]
//                      [--types bf16,q4_k,...]
//
// Arithmetic peaks and the read bandwidth are measured in the same run, by the same threads, so
// that a share means the same on every machine. Shapes are those of a 1B-parameter Llama (hidden
// 2048, ffn 8192, 32 query and 8 kv heads of 64). Each figure is the best of the runs that fit into
// S seconds: other work on the machine only ever makes a run slower.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/kernel_pool.h"
#include "kernels/backend.h"
#include "kernels/isa.h"
#include "kernels/limits.h"

namespace cairn {
namespace {

struct Options {
  unsigned n_threads = 2;
  Isa isa = Isa::kAvx2;
  double seconds = 0.5;
  std::string only;
  std::string types;  // of weights; empty: all

  bool wants(std::string_view name) const {
    return only.empty() || only.find(name) != std::string::npos;
  }
};

template <typename Run>
double best_seconds(double budget, const Run& run) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double best = 1e30;
  do {
    const auto begin = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  } while (std::chrono::duration<double>(Clock::now() - start).count() < budget);
  return best;
}

struct Limits {
  double f32_gflops = 0;
  double bf16_gflops = 0;  // the class's way to multiply bf16: VDPBF16PS, or widened FMA
  double read_gb = 0;
};

Limits measure(const Options& options) {
  KernelPool pool(options.n_threads);
  const MachineLimits fast = measure_limits(options.isa, Precision::kFast, pool);
  const MachineLimits f32 = measure_limits(options.isa, Precision::kF32, pool);
  return {f32.gflops, fast.gflops, std::max(f32.read_gb_s, fast.read_gb_s)};
}

void fill(std::span<float> values) {
  uint32_t state = 1;
  for (float& x : values) {
    state = state * 1664525U + 1013904223U;
    x = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31F;
  }
}

struct MatmulShape {
  const char* name;
  int64_t n_in, n_out;
};

// Copies of a matrix of constant bytes, more than the caches hold, so that decode reads memory as a
// model would.
std::vector<std::shared_ptr<const PackedWeight>> pack_copies(Backend& backend,
                                                             DType dtype,
                                                             const MatmulShape& shape) {
  const BlockShape block = block_shape(dtype);
  const size_t n = static_cast<size_t>(shape.n_in * shape.n_out);
  const Buffer data = Buffer::allocate(n / block.n_elements * block.n_bytes);
  std::memset(data.data(), 0x3c, data.size());  // a small positive number in most types
  std::vector<std::shared_ptr<const PackedWeight>> weights;
  for (size_t total = 0; total < (size_t{256} << 20); total += weights.back()->n_bytes()) {
    PackRequest request;
    request.parts = {
        {{dtype, {shape.n_out, shape.n_in}, data.as<const std::byte>()}, std::nullopt, {}}};
    weights.push_back(*backend.pack(request));
  }
  return weights;
}

void bench_matmul(const Options& options, const Limits& limits, Backend& backend) {
  for (const DType dtype :
       {DType::kBf16, DType::kF32, DType::kQ8_0, DType::kQ4_0, DType::kQ4K, DType::kQ6K}) {
    const std::string name(to_string(dtype));
    if (!options.types.empty() && options.types.find(name) == std::string::npos) continue;
    // Quantised: of the peak of bf16, because no loop measures that of bytes; it is twice that
    // where there is VNNI.
    const double peak = dtype == DType::kF32 ? limits.f32_gflops : limits.bf16_gflops;
    for (const MatmulShape& shape : {MatmulShape{"qkv", 2048, 3072},
                                     MatmulShape{"o", 2048, 2048},
                                     MatmulShape{"gate_up", 2048, 16384},
                                     MatmulShape{"down", 8192, 2048}}) {
      const auto weights = pack_copies(backend, dtype, shape);
      const size_t n = static_cast<size_t>(shape.n_in * shape.n_out);
      for (const size_t n_rows : {1, 2, 4, 8, 64, 512}) {
        const Buffer x = Buffer::allocate(n_rows * static_cast<size_t>(shape.n_in) * 4);
        const Buffer out = Buffer::allocate(n_rows * static_cast<size_t>(shape.n_out) * 4);
        fill(x.as<float>());
        size_t next = 0;
        const double s = best_seconds(options.seconds, [&] {
          backend.matmul({.x = x.as<float>().data(),
                          .n_rows = n_rows,
                          .weight = weights[next++ % weights.size()].get(),
                          .out = out.as<float>().data()});
        });
        const double gops = 2.0 * static_cast<double>(n * n_rows) / s / 1e9;
        const double gb = static_cast<double>(weights[0]->n_bytes()) / s / 1e9;
        std::printf(
            "matmul %-4s %-8s rows %4zu  %9.1f us  %7.1f GOP/s %5.1f %% of %s peak  %6.1f GB/s "
            "%5.1f %% of read\n",
            name.c_str(),
            shape.name,
            n_rows,
            s * 1e6,
            gops,
            100 * gops / peak,
            dtype == DType::kF32 ? "f32" : "bf16",
            gb,
            100 * gb / limits.read_gb);
      }
    }
  }
}

// How fast weights are packed, from memory to memory: what a first load waits for.
void bench_pack(const Options& options, Backend& backend) {
  for (const DType dtype :
       {DType::kBf16, DType::kQ8_0, DType::kQ4_0, DType::kQ4K, DType::kQ5K, DType::kQ6K}) {
    const std::string name(to_string(dtype));
    if (!options.types.empty() && options.types.find(name) == std::string::npos) continue;
    const BlockShape block = block_shape(dtype);
    const Buffer data = Buffer::allocate((size_t{2048} * 8192) / block.n_elements * block.n_bytes);
    std::memset(data.data(), 0x3c, data.size());
    PackRequest request;
    request.parts = {{{dtype, {8192, 2048}, data.as<const std::byte>()}, std::nullopt, {}}};
    const double s = best_seconds(options.seconds, [&] {
      if (!backend.pack(request).is_ok()) std::abort();
    });
    std::printf("pack   %-4s  %9.1f us  %6.2f GB/s of source\n",
                name.c_str(),
                s * 1e6,
                static_cast<double>(data.size()) / s / 1e9);
  }
}

void bench_attend(const Options& options, const Limits& limits, Backend& backend) {
  const size_t n_heads = 32;
  for (const RowEncoding encoding : {RowEncoding::kBf16, RowEncoding::kF32}) {
    const double peak = encoding == RowEncoding::kBf16 ? limits.bf16_gflops : limits.f32_gflops;
    for (const uint32_t hd : {64U, 128U}) {
      const PageLayout layout{encoding, 1, 8, hd, 64};
      const size_t most = 16384 + 512;
      const Buffer memory = Buffer::allocate(most / 64 * layout.page_bytes());
      std::memset(memory.data(), 0x3c, memory.size());
      std::vector<std::byte*> pages;
      for (size_t i = 0; i < most / 64; ++i)
        pages.push_back(memory.data() + i * layout.page_bytes());
      for (const auto& [context, n_rows] :
           {std::pair<size_t, size_t>{0, 512}, {4096, 512}, {1024, 1}, {4096, 1}, {16384, 1}}) {
        const Buffer q = Buffer::allocate(n_rows * n_heads * hd * 4);
        const Buffer out = Buffer::allocate(n_rows * n_heads * hd * 4);
        fill(q.as<float>());
        const RowSegment segment{0, n_rows, context, pages.data()};
        const double s = best_seconds(options.seconds, [&] {
          backend.attend({.q = q.as<float>().data(),
                          .q_stride = n_heads * hd,
                          .n_heads = n_heads,
                          .scale = 0.125F,
                          .segments = {&segment, 1},
                          .layout = &layout,
                          .layer = 0,
                          .out = out.as<float>().data()});
        });
        const double pairs = static_cast<double>(n_rows) *
                             (static_cast<double>(context) + static_cast<double>(n_rows + 1) / 2);
        const double gflops = 4.0 * pairs * static_cast<double>(n_heads * hd) / s / 1e9;
        const double gb = static_cast<double>(context + n_rows) / 64 *
                          static_cast<double>(layout.payload_bytes()) / s / 1e9;
        std::printf(
            "attend %-4s head_dim %3u context %5zu rows %3zu  %9.1f us  %7.1f GFLOP/s %5.1f %% of "
            "peak  %6.1f GB/s %5.1f %% of read\n",
            std::string(to_string(encoding)).c_str(),
            hd,
            context,
            n_rows,
            s * 1e6,
            gflops,
            100 * gflops / peak,
            gb,
            100 * gb / limits.read_gb);
      }
    }
  }
}

int run(int argc, char** argv) {
  Options options;
  options.isa = *parse_isa("auto");
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--threads")
      options.n_threads = static_cast<unsigned>(std::atoi(argv[i + 1]));
    else if (name == "--seconds")
      options.seconds = std::atof(argv[i + 1]);
    else if (name == "--only")
      options.only = argv[i + 1];
    else if (name == "--types")
      options.types = argv[i + 1];
    else if (name == "--isa" && parse_isa(argv[i + 1]).is_ok())
      options.isa = *parse_isa(argv[i + 1]);
    else
      argc = 0;
  }
  if (argc % 2 == 0 || options.n_threads < 1 || options.n_threads > 1024) {
    std::fprintf(stderr,
                 "usage: cairn-kernels-bench [--threads N] [--isa CLASS] [--seconds S] [--only "
                 "matmul,pack,attend] [--types bf16,q4_k,...]\n");
    return 2;
  }
  const Limits limits = measure(options);
  std::printf("%s, %u threads: f32 %.0f GFLOP/s, bf16 %.0f GFLOP/s, read %.1f GB/s\n",
              std::string(to_string(options.isa)).c_str(),
              options.n_threads,
              limits.f32_gflops,
              limits.bf16_gflops,
              limits.read_gb);
  const auto backend = make_cpu_backend({options.isa, Precision::kFast, options.n_threads});
  if (options.wants("matmul")) bench_matmul(options, limits, *backend);
  if (options.wants("pack")) bench_pack(options, *backend);
  if (options.wants("attend")) bench_attend(options, limits, *backend);
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  return cairn::run(argc, argv);
}
