#include "tensor/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace cairn {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMappedFrom = size_t{4} << 20;

std::shared_ptr<std::byte> allocate_small(size_t n_bytes) {
  const size_t rounded = (n_bytes + kAlignment - 1) / kAlignment * kAlignment;
  // Never zero bytes: an empty buffer that was asked for still has an address.
  const size_t n_allocated = rounded == 0 ? kAlignment : rounded;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, n_allocated));
  if (data == nullptr) return nullptr;
  std::memset(data, 0, n_allocated);
  return {data, [](std::byte* p) { std::free(p); }};
}

// Mapped, so that zeroing is the kernel's (when first touched) and freeing gives the memory back.
std::shared_ptr<std::byte> allocate_mapped(size_t n_bytes) {
  if (n_bytes > std::numeric_limits<size_t>::max() / 2) return nullptr;
  const size_t n_kept = (n_bytes + kHugePage - 1) / kHugePage * kHugePage;
  const size_t n_mapped = n_kept + kHugePage;
  void* const mapped =
      ::mmap(nullptr, n_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  const size_t misfit = reinterpret_cast<uintptr_t>(begin) % kHugePage;
  const size_t n_front = misfit == 0 ? 0 : kHugePage - misfit;
  std::byte* const data = begin + n_front;
  if (n_front > 0) ::munmap(begin, n_front);
  if (n_mapped - n_front > n_kept) ::munmap(data + n_kept, n_mapped - n_front - n_kept);
  // Advice: a kernel without huge pages refuses it, and ordinary pages do.
  ::madvise(data, n_kept, MADV_HUGEPAGE);
  return {data, [n_kept](std::byte* p) { ::munmap(p, n_kept); }};
}

}  // namespace

Buffer Buffer::try_allocate(size_t n_bytes) {
  Buffer buffer;
  buffer.data_ = n_bytes >= kMappedFrom ? allocate_mapped(n_bytes) : allocate_small(n_bytes);
  if (buffer.data_ != nullptr) buffer.size_ = n_bytes;
  return buffer;
}

Buffer Buffer::allocate(size_t n_bytes) {
  Buffer buffer = try_allocate(n_bytes);
  CAIRN_CHECK(buffer.data() != nullptr, fmt::format("no memory for {} bytes", n_bytes));
  return buffer;
}

int64_t TensorView::n_elements() const {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

std::string TensorView::shape_text() const {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace cairn
