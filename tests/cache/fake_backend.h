// A backend that only keeps memory and copies rows, and rows whose bytes tell which ids they stand
// for.
//
// Row t of a timeline is filled from a hash of ids[0..t], so a row that is reused for another
// prefix, a torn copy or a missing row shows as a difference of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "cache/geometry.h"
#include "cache/token.h"
#include "kernels/backend.h"

namespace cairn::testing {

// Offset of element `dim` of a row of one part (0 = K, 1 = V), spelled out from
// kernels/page_layout.h and independent of the code under test.
inline size_t element_offset(const PageLayout& layout,
                             uint32_t layer,
                             uint32_t part,
                             uint32_t head,
                             size_t row,
                             size_t dim) {
  const size_t strip = row / kStripTokens;
  const size_t r = row % kStripTokens;
  const size_t start = part == 0 ? layout.k_offset(layer, head) : layout.v_offset(layer, head);
  size_t element = 0;
  if (layout.encoding == RowEncoding::kF32) {
    element = part == 0 ? dim * kStripTokens + r : r * layout.head_dim + dim;
  } else {
    element = part == 0 ? (dim / 2) * kStripTokens * 2 + r * 2 + dim % 2
                        : (r / 2) * layout.head_dim * 2 + dim * 2 + r % 2;
  }
  return start + strip * layout.strip_bytes() + element * layout.element_bytes();
}

inline uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
  return h ^ (h >> 29);
}

template <typename Visit>
void for_each_element(const PageLayout& layout, size_t row, const Visit& visit) {
  for (uint32_t layer = 0; layer < layout.n_layers; ++layer) {
    for (uint32_t part = 0; part < 2; ++part) {
      for (uint32_t head = 0; head < layout.n_kv_heads; ++head) {
        for (size_t dim = 0; dim < layout.head_dim; ++dim) {
          const uint64_t salt = mix(mix(layer, part), mix(head, dim));
          visit(element_offset(layout, layer, part, head, row, dim), salt);
        }
      }
    }
  }
}

inline uint64_t prefix_hash(std::span<const TokenId> ids) {
  uint64_t h = 0x243f6a8885a308d3ULL;
  for (const TokenId id : ids) h = mix(h, id + 1);
  return h;
}

// Writes the row of the last of `ids`, at ids.size() - 1 in its timeline.
inline void write_row(const PageLayout& layout, std::byte* page, std::span<const TokenId> ids) {
  const uint64_t h = prefix_hash(ids);
  for_each_element(
      layout, (ids.size() - 1) % layout.page_tokens, [&](size_t offset, uint64_t salt) {
        const uint64_t value = mix(h, salt) | 1;  // never all zero
        std::memcpy(page + offset, &value, layout.element_bytes());
      });
}

inline bool has_row(const PageLayout& layout, const std::byte* page, std::span<const TokenId> ids) {
  const uint64_t h = prefix_hash(ids);
  bool is_same = true;
  for_each_element(
      layout, (ids.size() - 1) % layout.page_tokens, [&](size_t offset, uint64_t salt) {
        const uint64_t value = mix(h, salt) | 1;
        is_same = is_same && std::memcmp(page + offset, &value, layout.element_bytes()) == 0;
      });
  return is_same;
}

inline bool is_zero_row(const PageLayout& layout, const std::byte* page, size_t row) {
  bool is_zero = true;
  const uint64_t zero = 0;
  for_each_element(layout, row, [&](size_t offset, uint64_t) {
    is_zero = is_zero && std::memcmp(page + offset, &zero, layout.element_bytes()) == 0;
  });
  return is_zero;
}

class FakeBackend final : public Backend {
 public:
  // Allocations fail from now on, as when the system has no memory left.
  bool refuse_memory = false;

  Result<Buffer> allocate(size_t n_bytes) override {
    if (refuse_memory) return Status::no_space("the fake backend was told to refuse");
    return Buffer::allocate(n_bytes);
  }

  Result<std::shared_ptr<const PackedWeight>> pack(const PackRequest&) override {
    return Status::unsupported("the fake backend computes nothing");
  }

  Result<std::shared_ptr<const PackedWeight>> adopt(const PackRequest&, SharedBytes) override {
    return Status::unsupported("the fake backend computes nothing");
  }

  std::string packing_version() const override { return "fake"; }

  void upload(std::byte* dst, std::span<const std::byte> src) override {
    std::memcpy(dst, src.data(), src.size());
  }

  void read_back(std::span<std::byte> dst, const std::byte* src) override {
    std::memcpy(dst.data(), src, dst.size());
  }

  void embed(const EmbedArgs&) override { no_compute(); }

  void rms_norm(const RmsNormArgs&) override { no_compute(); }

  void matmul(const MatmulArgs&) override { no_compute(); }

  void rope_append(const RopeAppendArgs&) override { no_compute(); }

  void attend(const AttendArgs&) override { no_compute(); }

  void gate(const GateArgs&) override { no_compute(); }

  void gather_rows(const GatherRowsArgs&) override { no_compute(); }

  void sample_reduce(const SampleReduceArgs&) override { no_compute(); }

  void copy_rows(const CopyRowsArgs& args) override {
    std::memset(args.dst, 0, args.layout->page_bytes());
    for (size_t row = 0; row < args.n_rows; ++row) {
      for_each_element(*args.layout, row, [&](size_t offset, uint64_t) {
        std::memcpy(args.dst + offset, args.src + offset, args.layout->element_bytes());
      });
    }
  }

  void zero_page(std::byte* page, size_t n_bytes) override { std::memset(page, 0, n_bytes); }

  Event record() override { return 0; }

  bool is_done(Event) override { return true; }

  void wait(Event) override {}

  void synchronize() override {}

  HostPage read_page(std::byte* page, size_t, std::byte*) override {
    return {.bytes = page, .ready = 0};
  }

  std::byte* begin_write_page(std::byte* page, size_t, std::byte*) override { return page; }

  Event end_write_page(std::byte*, size_t, std::byte*) override { return 0; }

  std::string numerics_version() const override { return "fake-r1"; }

  unsigned n_threads() const override { return 1; }

 private:
  [[noreturn]] static void no_compute() {
    check_failed("compute", __FILE__, __LINE__, "the fake backend computes nothing");
  }
};

// A small model: two layers, two kv heads of 8, one group. `page_tokens`: a multiple of 16.
inline RootSpec fake_root(uint32_t page_tokens = 16, RowEncoding encoding = RowEncoding::kBf16) {
  RootSpec spec;
  spec.model_identity.bytes[0] = std::byte{7};
  spec.numerics_version = "fake-r1";
  spec.model_label = "fake";
  spec.geometry.page_tokens = page_tokens;
  CacheGroup group;
  group.layers = {0, 1};
  group.layout = {.encoding = encoding,
                  .n_layers = 2,
                  .n_kv_heads = 2,
                  .head_dim = 8,
                  .page_tokens = page_tokens};
  spec.geometry.groups.push_back(group);
  return spec;
}

}  // namespace cairn::testing
