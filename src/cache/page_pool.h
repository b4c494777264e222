// Memory for pages: slots cut from 32 MiB chunks under one budget.
//
// One slot size a chunk (groups and models differ); a chunk with no live slot goes back to the
// system. The budget counts chunks and, through set_other_bytes(), everything else that grows
// (tree, index); it is enforced before allocation. Thread: engine thread only; plain integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"

namespace cairn {

class PagePool;

// Owns one slot; gives it back when destroyed. The pool must outlive it.
class Slot {
 public:
  Slot() = default;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  Slot(Slot&& other) noexcept;
  Slot& operator=(Slot&& other) noexcept;
  ~Slot();

  explicit operator bool() const { return data_ != nullptr; }

  std::byte* data() const { return data_; }  // device memory, 4 KiB aligned

  size_t n_bytes() const { return n_bytes_; }

  uint32_t chunk() const { return chunk_; }  // as in PagePool::emptiest_chunks()

  void reset();

 private:
  friend class PagePool;

  Slot(PagePool* pool, uint32_t chunk, std::byte* data, size_t n_bytes)
      : pool_(pool), data_(data), n_bytes_(n_bytes), chunk_(chunk) {}

  PagePool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  size_t n_bytes_ = 0;
  uint32_t chunk_ = 0;
};

class PagePool {
 public:
  static constexpr size_t kChunkBytes = size_t{32} << 20;

  // The backend must outlive the pool. budget_bytes is rounded down to whole chunks, at least one;
  // a slot larger than a chunk gets a chunk of its own size. chunk_bytes: a multiple of 4096; tests
  // take small ones.
  PagePool(Backend& backend, size_t budget_bytes, size_t chunk_bytes = kChunkBytes);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  PagePool(PagePool&&) = delete;
  PagePool& operator=(PagePool&&) = delete;
  ~PagePool();

  // A slot of page_bytes (a multiple of 4096). Contents are NOT cleared: callers zero or overwrite.
  // Errors: kOverloaded when the budget is full (evict and try again), kNoSpace from the system.
  Result<Slot> acquire(size_t page_bytes);

  // True when acquire(page_bytes) would succeed without a new chunk or with one inside the budget.
  bool can_acquire(size_t page_bytes) const;

  // Memory outside the pool that the same budget pays for. Chunks that are held already stay: the
  // owner evicts until is_over_budget() is false.
  void set_other_bytes(size_t n_bytes);
  bool is_over_budget() const;

  size_t budget_bytes() const;  // whole chunks
  size_t limit_bytes()
      const;  // what chunks may take now: the budget less other bytes, at least one chunk
  size_t chunk_bytes() const;  // chunks held now
  size_t used_bytes() const;   // live slots
  size_t slots_per_chunk(size_t page_bytes) const;
  size_t chunk_size(size_t page_bytes) const;      // of a chunk for such slots
  size_t capacity_slots(size_t page_bytes) const;  // how many limit_bytes() could hold

  // Chunks held, fewest live slots first: emptying the first gives memory back soonest.
  std::vector<uint32_t> emptiest_chunks() const;
  size_t live_slots(uint32_t chunk) const;

 private:
  friend class Slot;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
