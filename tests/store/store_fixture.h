// Synthetic roots, runs and leaves whose bytes follow from their keys, so that any byte that comes
// back can be checked without remembering what was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "store/aligned_bytes.h"
#include "store/store_files.h"

namespace cairn::test {

inline constexpr char kStore[] = "/store";

// SplitMix64: the same numbers everywhere, unlike the distributions of <random>.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next();

  // In [0, n).
  uint64_t below(uint64_t n) { return next() % n; }

 private:
  uint64_t state_;
};

// Pages of 4 KiB multiples: direct I/O is possible.
PageLayout aligned_layout(uint32_t n_layers = 2, uint32_t page_tokens = 64);
// Pages that are not: buffered I/O.
PageLayout odd_layout(uint32_t n_layers = 3, uint32_t page_tokens = 64);

// One root with a group for each layout. Roots of different seeds differ in their model identity.
RootSpec make_root(uint64_t seed, std::vector<PageLayout> layouts);
std::vector<PageLayout> layouts_of(const RootSpec& spec);

// The bytes of a page as the cache would hold them: rows [0, n_tokens) from `key`, rows behind the
// last used strip and the padding zero.
AlignedBytes make_page(const PageLayout& layout,
                       const PageKey& key,
                       uint32_t n_tokens,
                       size_t group);

// A source with the memory that it points at.
struct TestObject {
  ObjectSource source;
  std::vector<AlignedBytes> memory;
  ObjectEntry entry;  // as the index will hold it (last_use_unix apart)

  const PageKey& key() const { return entry.key(); }
};

// A run of full pages (n_pages > 0) or a leaf of `leaf_tokens` ids under `parent`.
TestObject make_run(const RootSpec& root, const PageKey& parent, size_t n_pages, uint64_t seed);
TestObject make_leaf(const RootSpec& root,
                     const PageKey& parent,
                     uint32_t leaf_tokens,
                     uint64_t seed);

// Reads the pages `which` (all when empty) into memory full of 0xaa and compares every byte with
// make_page(). Errors: as read_object; kInternal when it said ok but a byte is wrong.
Status read_and_compare(StoreFiles& files,
                        const ObjectEntry& entry,
                        std::span<const PageLayout> layouts,
                        std::vector<uint32_t> which = {});

// Opens with defaults in kStore; aborts on failure.
std::unique_ptr<StoreFiles> open_store(FileSystem& fs,
                                       const Clock& clock,
                                       OpenReport* report,
                                       StoreOptions options = {});

const ObjectEntry* find_entry(const OpenReport& report, const PageKey& key);

}  // namespace cairn::test
