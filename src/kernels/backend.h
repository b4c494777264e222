// What a device does for a model: own memory, and run an ordered stream of whole operations.
//
// Operations take plain device pointers and shapes, are ordered among themselves, and may return
// before they are done; the host reads results only after synchronize() (on the CPU backend each
// operation has finished when it returns). Activations are f32, row-major, rows contiguous unless a
// stride is given. Nothing above this layer asks which backend it has. Design: DESIGN.md section 2.
//
// Numerics (DESIGN section 4): every output element has one order of sums, fixed by weight layout
// and absolute position, so results do not depend on n_rows, on how rows are batched, on chunks or
// on the number of threads. Thread: the engine's only (worker 0 of the pool).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/kernel_pool.h"
#include "base/result.h"
#include "kernels/isa.h"
#include "kernels/page_layout.h"
#include "tensor/buffer.h"

namespace cairn {

// A weight matrix [n_out, n_in] in the layout a backend's kernels want, biases included.
// Immutable; may be shared between models.
class PackedWeight {
 public:
  PackedWeight() = default;
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;
  PackedWeight(PackedWeight&&) = delete;
  PackedWeight& operator=(PackedWeight&&) = delete;
  virtual ~PackedWeight() = default;

  virtual size_t n_out() const = 0;
  virtual size_t n_in() const = 0;
  virtual size_t n_bytes() const = 0;
  // The layout as the host can keep it for a later Backend::adopt(); n_bytes() of them.
  virtual std::span<const std::byte> bytes() const = 0;
};

// MLX's affine groups: w = scale * q + bias, with q unsigned, `bits` wide, in groups along n_in.
struct AffineGroups {
  TensorView scales;  // [n_out, n_in / group_size], f16, bf16 or f32
  TensorView biases;  // the same
  uint32_t bits = 0;  // 2, 3, 4, 5, 6 or 8
  uint32_t group_size = 0;
};

// One matrix as it lies in a file.
struct WeightPart {
  // [n_out, n_in]: f32, bf16, f16, or a block type. With `affine`, u32 words of packed q instead:
  // [n_out, n_in * bits / 32], a row's values from the lowest bit of its first word on.
  TensorView values;
  std::optional<AffineGroups> affine;
  // Row i of the packed matrix is row row_order[i] of the file's; empty: as they lie. (GGUF keeps
  // the rows of q and k in the order of interleaved rotary pairs.)
  std::vector<uint32_t> row_order;
};

// Matrices stacked along the output axis (q, k, v become one product).
struct PackRequest {
  std::vector<WeightPart> parts;  // the same n_in; types may differ
  std::vector<std::optional<TensorView>>
      biases;  // empty, or one per part: [n_out_i] or absent (zeros)
};

// Rows of one sequence in a step. Positions are absolute.
struct RowSegment {
  size_t row_begin = 0;  // first row in the step's activations
  size_t n_rows = 0;
  size_t pos_begin = 0;  // position of the first row
  // Page table of the group: pages[i] holds positions [i * page_tokens, (i + 1) * page_tokens).
  // Covers every position < pos_begin + n_rows. Pages before pos_begin / page_tokens are read only.
  std::byte* const* pages = nullptr;
};

struct EmbedArgs {
  const PackedWeight* table = nullptr;  // [vocab_size, hidden_dim]
  const uint32_t* ids = nullptr;        // host memory, [n_rows], each < vocab_size
  size_t n_rows = 0;
  float* out = nullptr;  // [n_rows, hidden_dim]
};

struct RmsNormArgs {
  const float* x = nullptr;       // [n_rows, dim]
  const float* weight = nullptr;  // [dim]
  float eps = 0;
  size_t n_rows = 0;
  size_t dim = 0;
  float* out = nullptr;  // [n_rows, dim]; may be x
};

struct MatmulArgs {
  const float* x = nullptr;  // [n_rows, n_in]
  size_t n_rows = 0;
  const PackedWeight* weight = nullptr;
  float* out = nullptr;     // [n_rows, n_out]; must not overlap x
  bool add_to_out = false;  // out += product (residual) instead of out = product
};

struct RopeAppendArgs {
  float* qkv = nullptr;  // [n_rows, (n_heads + 2 * n_kv_heads) * head_dim]; q is turned in place
  size_t n_rows = 0;
  size_t n_heads = 0;
  const float* q_norm = nullptr;  // [head_dim] RMS weights before the turn, or null
  const float* k_norm = nullptr;  // [head_dim], or null
  float norm_eps = 0;
  // [n_rows, rope_dim / 2, 2] cos, sin of each row's position; pairs are (i, i + rope_dim / 2).
  const float* cos_sin = nullptr;
  size_t rope_dim = 0;  // even, <= head_dim; dimensions from rope_dim on pass through
  std::span<const RowSegment> segments;
  const PageLayout* layout = nullptr;
  uint32_t layer = 0;  // inside the group; K and V rows are written in the layout's encoding
};

struct AttendArgs {
  const float* q = nullptr;  // row r at q + r * q_stride, [n_heads, head_dim], turned, not scaled
  size_t q_stride = 0;
  size_t n_heads = 0;  // a multiple of layout->n_kv_heads
  float scale = 0;
  size_t window = 0;  // a row sees the last `window` positions, its own included; 0 = all
  std::span<const RowSegment> segments;
  const PageLayout* layout = nullptr;
  uint32_t layer = 0;
  float* out = nullptr;  // [n_rows, n_heads * head_dim]; must not overlap q
};

enum class Activation { kSilu };

struct GateArgs {
  const float* gate_up = nullptr;  // [n_rows, 2 * dim], the gate half first
  size_t n_rows = 0;
  size_t dim = 0;
  Activation activation = Activation::kSilu;
  float* out = nullptr;  // [n_rows, dim] = act(gate) * up; must not overlap gate_up
};

struct GatherRowsArgs {
  const float* x = nullptr;  // [*, dim]
  std::span<const uint32_t> rows;
  size_t dim = 0;
  float* out = nullptr;  // [rows.size(), dim]
};

// What a sampler needs of a row of logits, without a sort. Ties go to the lowest id.
struct LogitSummary {
  uint32_t argmax = 0;
  float max = 0;
  double sum_exp = 0;  // sum of exp(logit - max), fixed blocks of 4096 summed in order
};

struct SampleReduceArgs {
  const float* logits = nullptr;  // [n_rows, row_stride]
  size_t n_rows = 0;
  size_t row_stride = 0;
  size_t n_ids = 0;             // the first so many of a row count, 1 to row_stride
  LogitSummary* out = nullptr;  // host memory, [n_rows]; valid after synchronize()
};

struct CopyRowsArgs {
  const PageLayout* layout = nullptr;
  const std::byte* src = nullptr;  // a page
  std::byte* dst = nullptr;        // a page, wholly overwritten: rows from n_rows on become zero
  size_t n_rows = 0;               // rows [0, n_rows) are copied, 0..page_tokens
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  Backend(Backend&&) = delete;
  Backend& operator=(Backend&&) = delete;
  virtual ~Backend() = default;

  // --- memory
  // Zeroed device memory. Errors: kNoSpace.
  virtual Result<Buffer> allocate(size_t n_bytes) = 0;
  // Packs in parallel on the pool. Errors: kUnsupported (dtype, named), kInvalidArgument (shapes
  // that do not fit together).
  virtual Result<std::shared_ptr<const PackedWeight>> pack(const PackRequest& request) = 0;
  // What pack() made of the same request earlier, from its bytes (aligned to 64, shared if the
  // device can read them). Of the request only types and shapes are read, not the values. Errors:
  // those of pack(); kCorruption when the number of bytes is not that of this request.
  virtual Result<std::shared_ptr<const PackedWeight>> adopt(const PackRequest& request,
                                                            SharedBytes packed) = 0;
  // Changes whenever pack() makes other bytes of a request.
  virtual std::string packing_version() const = 0;
  // Host to device and back; both wait for completion.
  virtual void upload(std::byte* dst, std::span<const std::byte> src) = 0;
  virtual void read_back(std::span<std::byte> dst, const std::byte* src) = 0;

  // --- operations
  virtual void embed(const EmbedArgs& args) = 0;
  virtual void rms_norm(const RmsNormArgs& args) = 0;
  virtual void matmul(const MatmulArgs& args) = 0;
  virtual void rope_append(const RopeAppendArgs& args) = 0;
  virtual void attend(const AttendArgs& args) = 0;
  virtual void gate(const GateArgs& args) = 0;
  virtual void gather_rows(const GatherRowsArgs& args) = 0;
  virtual void sample_reduce(const SampleReduceArgs& args) = 0;
  virtual void copy_rows(const CopyRowsArgs& args) = 0;
  virtual void zero_page(std::byte* page, size_t n_bytes) = 0;

  // --- order
  using Event = uint64_t;
  virtual Event record() = 0;             // after everything enqueued so far
  virtual bool is_done(Event event) = 0;  // does not wait
  virtual void wait(Event event) = 0;
  virtual void synchronize() = 0;

  // --- pages and the host: the store moves page bytes through these
  // Bytes of a page that the host can read once `ready` is done. The CPU backend hands out the page
  // itself and never touches `staging`; a device backend copies into staging (n_bytes, pinned).
  struct HostPage {
    std::byte* bytes = nullptr;
    Event ready = 0;
  };

  virtual HostPage read_page(std::byte* page, size_t n_bytes, std::byte* staging) = 0;
  // Where the host should put the bytes of a page that is being restored (the page itself, or
  // staging), and the call that makes them the page's contents afterwards.
  virtual std::byte* begin_write_page(std::byte* page, size_t n_bytes, std::byte* staging) = 0;
  virtual Event end_write_page(std::byte* page, size_t n_bytes, std::byte* staging) = 0;

  // --- identity
  // Everything that decides bits here: kernel revision, ISA class, precision, backend, split
  // ("cpu-r1-avx512bf16-fast-s512"). Part of every cache root.
  virtual std::string numerics_version() const = 0;
  virtual unsigned n_threads() const = 0;
};

struct CpuBackendOptions {
  Isa isa = Isa::kAvx2;
  Precision precision = Precision::kFast;
  unsigned n_threads = 1;  // the caller included
};

std::unique_ptr<Backend> make_cpu_backend(const CpuBackendOptions& options);

}  // namespace cairn
