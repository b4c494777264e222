#include "cache/page_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"

namespace cairn {

namespace {

constexpr size_t kSlotAlignment = 4096;

struct Chunk {
  Buffer memory;
  std::byte* base = nullptr;  // first slot
  size_t n_bytes = 0;         // as the budget counts it; 0: the index is free
  size_t slot_bytes = 0;
  size_t n_live = 0;
  std::vector<std::byte*> free;
};

}  // namespace

struct PagePool::Impl {
  Backend& backend;
  size_t budget = 0;  // as given
  size_t chunk_size = 0;
  size_t other = 0;
  size_t held = 0;
  size_t used = 0;
  std::vector<Chunk> chunks;
  std::vector<uint32_t> free_indices;
  // Chunks of a slot size that have a free slot. The lowest index goes first, so that the others
  // drain and can be given back.
  std::map<size_t, std::set<uint32_t>> open;

  size_t chunk_size_for(size_t page_bytes) const { return std::max(chunk_size, page_bytes); }

  size_t whole_chunks(size_t n_bytes) const {
    return std::max<size_t>(n_bytes / chunk_size, 1) * chunk_size;
  }

  size_t limit() const { return std::max(chunk_size, budget > other ? budget - other : 0); }

  bool fits(size_t n_bytes) const { return n_bytes <= limit() && held <= limit() - n_bytes; }

  bool has_open(size_t page_bytes) const {
    const auto it = open.find(page_bytes);
    return it != open.end() && !it->second.empty();
  }

  Status add_chunk(size_t page_bytes);
  void give_back(uint32_t index, std::byte* data, size_t n_bytes);
};

Status PagePool::Impl::add_chunk(size_t page_bytes) {
  Chunk chunk;
  chunk.n_bytes = chunk_size_for(page_bytes);
  chunk.slot_bytes = page_bytes;
  // Buffers promise 64 bytes only; the room to align is not worth a budget line.
  CAIRN_ASSIGN_OR_RETURN(chunk.memory, backend.allocate(chunk.n_bytes + kSlotAlignment));
  const auto address = reinterpret_cast<uintptr_t>(chunk.memory.data());
  const size_t n_skip = (kSlotAlignment - address % kSlotAlignment) % kSlotAlignment;
  chunk.base = chunk.memory.data() + n_skip;
  const size_t n_slots = chunk.n_bytes / page_bytes;
  for (size_t i = n_slots; i > 0; --i) chunk.free.push_back(chunk.base + (i - 1) * page_bytes);

  uint32_t index = static_cast<uint32_t>(chunks.size());
  if (free_indices.empty()) {
    chunks.emplace_back();
  } else {
    index = free_indices.back();
    free_indices.pop_back();
  }
  held += chunk.n_bytes;
  chunks[index] = std::move(chunk);
  open[page_bytes].insert(index);
  return Status::ok();
}

void PagePool::Impl::give_back(uint32_t index, std::byte* data, size_t n_bytes) {
  Chunk& chunk = chunks[index];
  CAIRN_CHECK(chunk.n_live > 0 && chunk.slot_bytes == n_bytes, "slot given back twice");
  used -= n_bytes;
  chunk.free.push_back(data);
  std::set<uint32_t>& open_chunks = open[n_bytes];
  if (--chunk.n_live > 0) {
    open_chunks.insert(index);
    return;
  }
  open_chunks.erase(index);
  held -= chunk.n_bytes;
  chunk = Chunk();
  free_indices.push_back(index);
}

Slot::Slot(Slot&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      n_bytes_(std::exchange(other.n_bytes_, 0)),
      chunk_(std::exchange(other.chunk_, 0)) {}

Slot& Slot::operator=(Slot&& other) noexcept {
  if (this != &other) {
    reset();
    pool_ = std::exchange(other.pool_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    n_bytes_ = std::exchange(other.n_bytes_, 0);
    chunk_ = std::exchange(other.chunk_, 0);
  }
  return *this;
}

Slot::~Slot() {
  reset();
}

void Slot::reset() {
  if (data_ == nullptr) return;
  pool_->impl_->give_back(chunk_, data_, n_bytes_);
  pool_ = nullptr;
  data_ = nullptr;
  n_bytes_ = 0;
  chunk_ = 0;
}

PagePool::PagePool(Backend& backend, size_t budget_bytes, size_t chunk_bytes)
    : impl_(new Impl{.backend = backend,
                     .budget = budget_bytes,
                     .chunk_size = chunk_bytes,
                     .chunks = {},
                     .free_indices = {},
                     .open = {}}) {
  CAIRN_CHECK(chunk_bytes > 0 && chunk_bytes % kSlotAlignment == 0, "chunk size");
}

PagePool::~PagePool() {
  CAIRN_CHECK(impl_->used == 0, "a slot outlived its pool");
}

Result<Slot> PagePool::acquire(size_t page_bytes) {
  CAIRN_CHECK(page_bytes > 0 && page_bytes % kSlotAlignment == 0, "slot size");
  if (!impl_->has_open(page_bytes)) {
    if (!impl_->fits(impl_->chunk_size_for(page_bytes))) {
      return Status::overloaded(
          fmt::format("page pool is full: {} of {} bytes held, none free for a page of {}; raise "
                      "--cache-ram",
                      impl_->held,
                      impl_->limit(),
                      page_bytes));
    }
    CAIRN_RETURN_IF_ERROR(impl_->add_chunk(page_bytes));
  }
  std::set<uint32_t>& open_chunks = impl_->open[page_bytes];
  const uint32_t index = *open_chunks.begin();
  Chunk& chunk = impl_->chunks[index];
  std::byte* data = chunk.free.back();
  chunk.free.pop_back();
  ++chunk.n_live;
  if (chunk.free.empty()) open_chunks.erase(index);
  impl_->used += page_bytes;
  return Slot(this, index, data, page_bytes);
}

bool PagePool::can_acquire(size_t page_bytes) const {
  return impl_->has_open(page_bytes) || impl_->fits(impl_->chunk_size_for(page_bytes));
}

void PagePool::set_other_bytes(size_t n_bytes) {
  impl_->other = n_bytes;
}

bool PagePool::is_over_budget() const {
  return impl_->held > impl_->limit();
}

size_t PagePool::budget_bytes() const {
  return impl_->whole_chunks(impl_->budget);
}

size_t PagePool::limit_bytes() const {
  return impl_->limit();
}

size_t PagePool::chunk_bytes() const {
  return impl_->held;
}

size_t PagePool::used_bytes() const {
  return impl_->used;
}

size_t PagePool::slots_per_chunk(size_t page_bytes) const {
  return impl_->chunk_size_for(page_bytes) / page_bytes;
}

size_t PagePool::chunk_size(size_t page_bytes) const {
  return impl_->chunk_size_for(page_bytes);
}

size_t PagePool::capacity_slots(size_t page_bytes) const {
  return impl_->limit() / impl_->chunk_size_for(page_bytes) * slots_per_chunk(page_bytes);
}

size_t PagePool::live_slots(uint32_t chunk) const {
  return impl_->chunks.at(chunk).n_live;
}

std::vector<uint32_t> PagePool::emptiest_chunks() const {
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < impl_->chunks.size(); ++i) {
    if (impl_->chunks[i].n_bytes > 0) indices.push_back(i);
  }
  std::stable_sort(indices.begin(), indices.end(), [this](uint32_t a, uint32_t b) {
    return impl_->chunks[a].n_live < impl_->chunks[b].n_live;
  });
  return indices;
}

}  // namespace cairn
