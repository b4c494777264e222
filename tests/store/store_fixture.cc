#include "store/store_fixture.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/coding.h"

namespace cairn::test {
namespace {

ObjectEntry entry_of(const ObjectSource& source) {
  ObjectHeader header;
  header.kind = source.kind;
  header.pages = source.pages;
  header.layouts = source.layouts;
  const Status planned = plan_object(&header);
  CAIRN_CHECK(planned.is_ok(), planned.message());
  return {source.root, source.kind, source.parent, source.pages, header.file_bytes, 0};
}

TestObject make_object(const RootSpec& root,
                       ObjectKind kind,
                       const PageKey& parent,
                       size_t n_pages,
                       uint32_t n_tokens,
                       uint64_t seed) {
  Random random(seed);
  TestObject out;
  out.source.root = root_key(root);
  out.source.kind = kind;
  out.source.parent = parent;
  out.source.layouts = layouts_of(root);
  PageKey above = parent;
  for (size_t p = 0; p < n_pages; ++p) {
    PageRecord page;
    for (uint32_t t = 0; t < n_tokens; ++t)
      page.tokens.push_back(static_cast<TokenId>(random.below(1U << 31)));
    page.key = chain_key(above, page.tokens);
    above = page.key;
    std::vector<const std::byte*> groups;
    for (size_t g = 0; g < out.source.layouts.size(); ++g) {
      out.memory.push_back(make_page(out.source.layouts[g], page.key, n_tokens, g));
      groups.push_back(out.memory.back().data());
    }
    out.source.pages.push_back(std::move(page));
    out.source.bytes.push_back(std::move(groups));
  }
  out.entry = entry_of(out.source);
  return out;
}

Status compare_page(const ObjectEntry& entry,
                    uint32_t page_index,
                    size_t group,
                    const PageLayout& layout,
                    const AlignedBytes& found) {
  const PageRecord& page = entry.pages[page_index];
  const AlignedBytes want =
      make_page(layout, page.key, static_cast<uint32_t>(page.tokens.size()), group);
  if (std::memcmp(want.data(), found.data(), layout.page_bytes()) == 0) return Status::ok();
  return Status::internal(
      fmt::format("page {} group {} of {} came back wrong", page_index, group, to_hex(page.key)));
}

}  // namespace

uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15U;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

PageLayout aligned_layout(uint32_t n_layers, uint32_t page_tokens) {
  return {RowEncoding::kBf16, n_layers, 2, 16, page_tokens};
}

PageLayout odd_layout(uint32_t n_layers, uint32_t page_tokens) {
  return {RowEncoding::kF32, n_layers, 1, 6, page_tokens};
}

RootSpec make_root(uint64_t seed, std::vector<PageLayout> layouts) {
  RootSpec root;
  store_le<uint64_t>(root.model_identity.bytes.data(), seed);
  root.numerics_version = "test-1";
  root.model_label = fmt::format("model {}", seed);
  root.geometry.page_tokens = layouts.front().page_tokens;
  uint32_t layer = 0;
  for (const PageLayout& layout : layouts) {
    CacheGroup group;
    group.layout = layout;
    for (uint32_t i = 0; i < layout.n_layers; ++i) group.layers.push_back(layer++);
    root.geometry.groups.push_back(std::move(group));
  }
  return root;
}

std::vector<PageLayout> layouts_of(const RootSpec& spec) {
  std::vector<PageLayout> out;
  for (const CacheGroup& group : spec.geometry.groups) out.push_back(group.layout);
  return out;
}

AlignedBytes make_page(const PageLayout& layout,
                       const PageKey& key,
                       uint32_t n_tokens,
                       size_t group) {
  AlignedBytes page(layout.page_bytes());
  std::memset(page.data(), 0, page.size());
  Random random(load_le<uint64_t>(key.bytes.data()) + group);
  const size_t n_strips = (n_tokens + kStripTokens - 1) / kStripTokens;
  const size_t used = n_strips * layout.strip_bytes();
  for (size_t head = 0; head < size_t{2} * layout.n_kv_heads * layout.n_layers; ++head) {
    std::byte* at = page.data() + head * layout.head_bytes();
    for (size_t i = 0; i + 8 <= used; i += 8) store_le<uint64_t>(at + i, random.next());
  }
  return page;
}

TestObject make_run(const RootSpec& root, const PageKey& parent, size_t n_pages, uint64_t seed) {
  return make_object(root, ObjectKind::kRun, parent, n_pages, root.geometry.page_tokens, seed);
}

TestObject make_leaf(const RootSpec& root,
                     const PageKey& parent,
                     uint32_t leaf_tokens,
                     uint64_t seed) {
  return make_object(root, ObjectKind::kLeaf, parent, 1, leaf_tokens, seed);
}

Status read_and_compare(StoreFiles& files,
                        const ObjectEntry& entry,
                        std::span<const PageLayout> layouts,
                        std::vector<uint32_t> which) {
  if (which.empty()) {
    which.resize(entry.pages.size());
    std::iota(which.begin(), which.end(), 0U);
  }
  std::vector<AlignedBytes> memory;
  std::vector<PageTarget> targets;
  for (const uint32_t page_index : which) {
    PageTarget target{page_index, {}};
    for (const PageLayout& layout : layouts) {
      memory.emplace_back(layout.page_bytes());
      std::memset(memory.back().data(), 0xaa, memory.back().size());
      target.bytes.push_back(memory.back().data());
    }
    targets.push_back(std::move(target));
  }
  CAIRN_RETURN_IF_ERROR(files.read_object(entry, layouts, targets));
  for (size_t i = 0; i < which.size(); ++i) {
    for (size_t g = 0; g < layouts.size(); ++g) {
      CAIRN_RETURN_IF_ERROR(
          compare_page(entry, which[i], g, layouts[g], memory[i * layouts.size() + g]));
    }
  }
  return Status::ok();
}

std::unique_ptr<StoreFiles> open_store(FileSystem& fs,
                                       const Clock& clock,
                                       OpenReport* report,
                                       StoreOptions options) {
  if (options.directory.empty()) options.directory = kStore;
  auto files = StoreFiles::open(fs, clock, options, report);
  CAIRN_CHECK(files.is_ok(), files.status().to_string());
  return std::move(files).value();
}

const ObjectEntry* find_entry(const OpenReport& report, const PageKey& key) {
  const auto it = std::find_if(report.objects.begin(),
                               report.objects.end(),
                               [&](const ObjectEntry& e) { return e.key() == key; });
  return it == report.objects.end() ? nullptr : &*it;
}

}  // namespace cairn::test
