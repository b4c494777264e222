// The backend on this machine's processors. Every operation has finished when it returns.
//
// Operations are split over the kernel pool by outputs (panels, rows, heads), never along sums, so
// the number of threads does not show in the results. Scratch grows before an operation forks and
// is kept. Thread: the engine's (worker 0 of the pool).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/kernel_pool.h"
#include "kernels/backend.h"
#include "kernels/dispatch.h"
#include "kernels/packed_weight.h"

namespace cairn {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuBackendOptions& options);

  Result<Buffer> allocate(size_t n_bytes) override;
  Result<std::shared_ptr<const PackedWeight>> pack(const PackRequest& request) override;
  Result<std::shared_ptr<const PackedWeight>> adopt(const PackRequest& request,
                                                    SharedBytes packed) override;
  std::string packing_version() const override;
  void upload(std::byte* dst, std::span<const std::byte> src) override;
  void read_back(std::span<std::byte> dst, const std::byte* src) override;

  void embed(const EmbedArgs& args) override;
  void rms_norm(const RmsNormArgs& args) override;
  void matmul(const MatmulArgs& args) override;
  void rope_append(const RopeAppendArgs& args) override;
  void attend(const AttendArgs& args) override;
  void gate(const GateArgs& args) override;
  void gather_rows(const GatherRowsArgs& args) override;
  void sample_reduce(const SampleReduceArgs& args) override;
  void copy_rows(const CopyRowsArgs& args) override;
  void zero_page(std::byte* page, size_t n_bytes) override;

  Event record() override { return 0; }

  bool is_done(Event) override { return true; }

  void wait(Event) override {}

  void synchronize() override {}

  HostPage read_page(std::byte* page, size_t, std::byte*) override { return {page, 0}; }

  std::byte* begin_write_page(std::byte* page, size_t, std::byte*) override { return page; }

  Event end_write_page(std::byte*, size_t, std::byte*) override { return 0; }

  std::string numerics_version() const override;

  unsigned n_threads() const override { return pool_.n_threads(); }

 private:
  struct RowsPlan;
  using ProductKernel = void (*)(const MatmulPart&);

  // What a section wants of the activations: as they are, padded, rounded or quantised.
  RowsPlan plan_rows(const WeightSection& section, size_t n_in) const;
  // Makes that at `to` and notes it in `part`.
  void prepare_rows(
      const MatmulArgs& args, size_t n_in, const RowsPlan& plan, std::byte* to, MatmulPart* part);
  // Fills products_, one a section; each kind of rows is made once. Valid until the next call.
  void prepare_product(const MatmulArgs& args, const CpuPackedWeight& weight);
  ProductKernel product_kernel(const WeightSection& section) const;
  void list_attend_parts(const AttendArgs& args);
  void split_attend_parts();
  std::byte* scratch(size_t n_bytes);

  CpuBackendOptions options_;
  KernelPool pool_;
  const DotKernels& dot_;
  const ElementwiseKernels& elementwise_;
  Buffer scratch_;
  std::vector<MatmulPart> products_;       // of the current matmul
  std::vector<AttendPart> attend_parts_;   // of the current attend
  std::vector<AttendPart> attend_merges_;  // those whose splits went to scratch
  std::vector<double> block_sums_;
};

}  // namespace cairn
