#include "kernels/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace cairn {

namespace {

// Raised whenever the bits of any operation change; the golden bits test says when that is.
constexpr int kKernelRevision = 1;

// A part of an element-wise operation: enough work to be worth a fork, about 5 us.
constexpr size_t kPartElements = size_t{1} << 14;

const DotKernels& dot_kernels(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return dot_kernels_avx2();
    case Isa::kAvx512:
      return dot_kernels_avx512();
    case Isa::kAvx512Bf16:
      return dot_kernels_avx512bf16();
  }
  check_failed("isa", __FILE__, __LINE__, "unknown instruction-set class");
}

size_t ceil_div(size_t a, size_t b) {
  return (a + b - 1) / b;
}

const CpuPackedWeight& as_cpu(const PackedWeight* weight) {
  CAIRN_CHECK(weight != nullptr, "a product needs a weight");
  return static_cast<const CpuPackedWeight&>(*weight);
}

// Runs task(begin, end) over [0, n) in runs of about kPartElements elements.
template <typename Task>
void for_row_blocks(KernelPool& pool, size_t n, size_t row_elements, const Task& task) {
  const size_t rows = std::max<size_t>(1, kPartElements / std::max<size_t>(1, row_elements));
  pool.run(ceil_div(n, rows),
           [&](size_t part) { task(part * rows, std::min(n, (part + 1) * rows)); });
}

}  // namespace

CpuBackend::CpuBackend(const CpuBackendOptions& options)
    : options_(options),
      pool_(options.n_threads),
      dot_(dot_kernels(options.isa)),
      elementwise_(elementwise_kernels(options.isa)) {
  const std::vector<Isa> here = supported_isas();
  CAIRN_CHECK(std::find(here.begin(), here.end(), options.isa) != here.end(),
              "this processor lacks the instruction-set class; parse_isa says which it has");
}

std::unique_ptr<Backend> make_cpu_backend(const CpuBackendOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

std::string CpuBackend::numerics_version() const {
  return fmt::format("cpu-r{}-{}-{}-s{}",
                     kKernelRevision,
                     to_string(options_.isa),
                     to_string(options_.precision),
                     kSplitTokens);
}

Result<Buffer> CpuBackend::allocate(size_t n_bytes) {
  Buffer buffer = Buffer::try_allocate(n_bytes);
  if (!buffer && n_bytes != 0) {
    return Status::no_space(fmt::format("memory: the system refused {} bytes", n_bytes));
  }
  return buffer;
}

Result<std::shared_ptr<const PackedWeight>> CpuBackend::pack(const PackRequest& request) {
  return CpuPackedWeight::pack(request, pool_);
}

Result<std::shared_ptr<const PackedWeight>> CpuBackend::adopt(const PackRequest& request,
                                                              SharedBytes packed) {
  return CpuPackedWeight::adopt(request, std::move(packed));
}

std::string CpuBackend::packing_version() const {
  return CpuPackedWeight::kPackingVersion;
}

void CpuBackend::upload(std::byte* dst, std::span<const std::byte> src) {
  if (!src.empty()) std::memcpy(dst, src.data(), src.size());
}

void CpuBackend::read_back(std::span<std::byte> dst, const std::byte* src) {
  if (!dst.empty()) std::memcpy(dst.data(), src, dst.size());
}

std::byte* CpuBackend::scratch(size_t n_bytes) {
  if (scratch_.size() < n_bytes) {
    scratch_ = Buffer();  // first, so that old and new never exist together
    scratch_ = Buffer::allocate(n_bytes + n_bytes / 4);
  }
  return scratch_.data();
}

void CpuBackend::embed(const EmbedArgs& args) {
  const CpuPackedWeight& table = as_cpu(args.table);
  const size_t dim = table.n_in();
  for_row_blocks(pool_, args.n_rows, dim * 8, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      CAIRN_CHECK(args.ids[row] < table.n_out(), "token id outside the vocabulary");
      table.gather_row(args.ids[row], args.out + row * dim);
    }
  });
}

void CpuBackend::rms_norm(const RmsNormArgs& args) {
  for_row_blocks(pool_, args.n_rows, args.dim, [&](size_t begin, size_t end) {
    elementwise_.rms_norm(args, begin, end);
  });
}

// The rows of `x` as the sections of one kind want them. Words and codes of a row lie one cache
// line more than a row apart: rows 4 KiB apart would all share one set of the L1 cache.
struct CpuBackend::RowsPlan {
  enum class Kind { kAsTheyAre, kPadded, kRounded, kQuantised } kind = Kind::kAsTheyAre;
  size_t group_size = 0;  // quantised
  size_t row_bytes = 0;
  size_t group_bytes = 0;  // of a row's groups, quantised

  bool operator==(const RowsPlan&) const = default;
};

CpuBackend::RowsPlan CpuBackend::plan_rows(const WeightSection& section, size_t n_in) const {
  using Kind = RowsPlan::Kind;
  const bool fast = options_.precision == Precision::kFast;
  const auto lines = [](size_t n_bytes) { return ceil_div(n_bytes, 64) * 64; };
  if (section.quant.has_value()) {
    if (!fast) return {};
    const size_t n_groups = n_in / section.quant->group_size;
    return {Kind::kQuantised,
            section.quant->group_size,
            lines(n_in) + 64,
            lines(n_groups * sizeof(QuantGroup))};
  }
  const bool rounds = fast && section.dtype == DType::kBf16;
  if (section.dtype == DType::kF32 || (!rounds && n_in % 2 == 0)) return {};
  const size_t words = rounds && dot_.rounds_to_pairs ? ceil_div(n_in, 2) : n_in + 1;
  return {rounds ? Kind::kRounded : Kind::kPadded, 0, lines(words * 4) + 64, 0};
}

void CpuBackend::prepare_rows(
    const MatmulArgs& args, size_t n_in, const RowsPlan& plan, std::byte* to, MatmulPart* part) {
  part->x = reinterpret_cast<const uint32_t*>(args.x);
  part->x_stride = n_in;
  if (plan.kind == RowsPlan::Kind::kAsTheyAre) return;
  if (plan.kind == RowsPlan::Kind::kQuantised) {
    int8_t* codes = reinterpret_cast<int8_t*>(to);
    auto* groups = reinterpret_cast<QuantGroup*>(to + args.n_rows * plan.row_bytes);
    const size_t groups_stride = n_in / plan.group_size;
    part->x_codes = codes;
    part->x_codes_stride = plan.row_bytes;
    part->x_groups = groups;
    part->x_groups_stride = groups_stride;
    for_row_blocks(pool_, args.n_rows, n_in, [&](size_t begin, size_t end) {
      dot_.quantize_rows({args.x,
                          n_in,
                          plan.group_size,
                          codes,
                          plan.row_bytes,
                          groups,
                          groups_stride,
                          begin,
                          end});
    });
    return;
  }
  uint32_t* x = reinterpret_cast<uint32_t*>(to);
  part->x = x;
  part->x_stride = plan.row_bytes / 4;
  for_row_blocks(pool_, args.n_rows, n_in, [&](size_t begin, size_t end) {
    if (plan.kind == RowsPlan::Kind::kRounded) {
      dot_.round_rows({args.x, n_in, x, part->x_stride, begin, end});
      return;
    }
    for (size_t row = begin; row < end; ++row) {
      std::memcpy(x + row * part->x_stride, args.x + row * n_in, n_in * 4);
      x[row * part->x_stride + n_in] = 0;
    }
  });
}

void CpuBackend::prepare_product(const MatmulArgs& args, const CpuPackedWeight& weight) {
  const size_t n_in = weight.n_in();
  std::vector<RowsPlan> plans;
  size_t n_bytes = 0;
  for (const WeightSection& section : weight.sections()) {
    plans.push_back(plan_rows(section, n_in));
    n_bytes += args.n_rows * (plans.back().row_bytes + plans.back().group_bytes);
  }
  std::byte* to = scratch(n_bytes);
  products_.clear();
  for (size_t i = 0; i < plans.size(); ++i) {
    const WeightSection& section = weight.sections()[i];
    const auto twin = std::find(plans.begin(), plans.end(), plans[i]) - plans.begin();
    MatmulPart part;
    if (static_cast<size_t>(twin) < i) {
      part = products_[static_cast<size_t>(twin)];
    } else {
      prepare_rows(args, n_in, plans[i], to, &part);
      to += args.n_rows * (plans[i].row_bytes + plans[i].group_bytes);
    }
    part.panels = weight.panels(section);
    part.format = section.quant.has_value() ? &*section.quant : nullptr;
    part.n_in = n_in;
    part.n_out = section.n_out;
    part.bias = weight.bias() == nullptr ? nullptr : weight.bias() + section.out_begin;
    part.out = args.out + section.out_begin;
    part.out_stride = weight.n_out();
    part.add_to_out = args.add_to_out;
    products_.push_back(part);
  }
}

CpuBackend::ProductKernel CpuBackend::product_kernel(const WeightSection& section) const {
  const bool fast = options_.precision == Precision::kFast;
  if (section.quant.has_value()) return fast ? dot_.matmul_quant : dot_.matmul_quant_exact;
  if (section.dtype == DType::kF32) return dot_.matmul_f32;
  if (section.dtype == DType::kF16) return dot_.matmul_f16;
  return fast ? dot_.matmul_bf16 : dot_.matmul_bf16_exact;
}

void CpuBackend::matmul(const MatmulArgs& args) {
  if (args.n_rows == 0) return;
  const CpuPackedWeight& weight = as_cpu(args.weight);
  prepare_product(args, weight);
  const std::span<const WeightSection> sections = weight.sections();
  const size_t n_blocks = ceil_div(args.n_rows, kMatmulRows);
  const size_t block_rows = ceil_div(args.n_rows, n_blocks);
  // Parts of at least 128 KiB of weights, unless there are too few panels to share.
  const auto panels_a_part = [&](const WeightSection& section) {
    const size_t by_bytes = std::max<size_t>(1, (size_t{128} << 10) / section.panel_bytes);
    const size_t by_share =
        std::max<size_t>(1, section.n_panels() / (size_t{4} * pool_.n_threads()));
    return std::min(by_bytes, by_share);
  };
  size_t n_parts = 0;
  for (const WeightSection& section : sections) {
    n_parts += ceil_div(section.n_panels(), panels_a_part(section)) * n_blocks;
  }
  pool_.run(n_parts, [&](size_t idx) {
    size_t i = 0;
    for (;; ++i) {  // few sections: one, or two or three of a stacked q, k, v
      const size_t n = ceil_div(sections[i].n_panels(), panels_a_part(sections[i])) * n_blocks;
      if (idx < n) break;
      idx -= n;
    }
    const size_t panels = panels_a_part(sections[i]);
    MatmulPart part = products_[i];
    part.panel_begin = idx / n_blocks * panels;
    part.panel_end = std::min(sections[i].n_panels(), part.panel_begin + panels);
    part.row_begin = idx % n_blocks * block_rows;
    part.row_end = std::min(args.n_rows, part.row_begin + block_rows);
    product_kernel(sections[i])(part);
  });
}

void CpuBackend::rope_append(const RopeAppendArgs& args) {
  const size_t row_elements = (args.n_heads + 2 * args.layout->n_kv_heads) * args.layout->head_dim;
  for (const RowSegment& segment : args.segments) {
    for_row_blocks(pool_, segment.n_rows, row_elements, [&](size_t begin, size_t end) {
      elementwise_.rope_append(
          {&args, &segment, segment.row_begin + begin, segment.row_begin + end});
    });
  }
}

void CpuBackend::gate(const GateArgs& args) {
  const size_t blocks = ceil_div(args.dim, kPartElements);
  for_row_blocks(pool_,
                 args.n_rows * blocks,
                 std::min(args.dim, kPartElements),
                 [&](size_t begin, size_t end) {
                   for (size_t i = begin; i < end; ++i) {
                     const size_t column = i % blocks * kPartElements;
                     elementwise_.gate(
                         args, i / blocks, column, std::min(args.dim, column + kPartElements));
                   }
                 });
}

void CpuBackend::gather_rows(const GatherRowsArgs& args) {
  for (size_t i = 0; i < args.rows.size(); ++i) {
    std::memcpy(
        args.out + i * args.dim, args.x + args.rows[i] * args.dim, args.dim * sizeof(float));
  }
}

void CpuBackend::sample_reduce(const SampleReduceArgs& args) {
  pool_.run(args.n_rows, [&](size_t row) {
    LogitSummary& out = args.out[row];
    elementwise_.arg_max(args.logits + row * args.row_stride, args.n_ids, &out.max, &out.argmax);
  });
  const size_t blocks = ceil_div(args.n_ids, kReduceBlock);
  block_sums_.resize(args.n_rows * blocks);
  pool_.run(args.n_rows * blocks, [&](size_t i) {
    const size_t row = i / blocks;
    const size_t begin = i % blocks * kReduceBlock;
    const size_t n = std::min(kReduceBlock, args.n_ids - begin);
    block_sums_[i] =
        elementwise_.sum_exp(args.logits + row * args.row_stride + begin, n, args.out[row].max);
  });
  for (size_t row = 0; row < args.n_rows; ++row) {
    double sum = 0;
    for (size_t block = 0; block < blocks; ++block) sum += block_sums_[row * blocks + block];
    args.out[row].sum_exp = sum;
  }
}

}  // namespace cairn
