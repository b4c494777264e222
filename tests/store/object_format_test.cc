#include "store/object_format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "base/coding.h"
#include "store/page_packing.h"
#include "store/store_fixture.h"

namespace cairn {
namespace {

using test::aligned_layout;
using test::make_leaf;
using test::make_root;
using test::make_run;
using test::odd_layout;

ObjectHeader header_of(const test::TestObject& object) {
  ObjectHeader header;
  header.kind = object.source.kind;
  header.root = object.source.root;
  header.parent = object.source.parent;
  header.pages = object.source.pages;
  header.layouts = object.source.layouts;
  header.created_unix = 1'700'000'000;
  EXPECT_TRUE(plan_object(&header).is_ok());
  uint64_t n = 1;
  for (Extent& extent : header.extents) extent.hash = 0x0123456789abcdefU * n++;
  return header;
}

ObjectHeader run_header() {
  const RootSpec root = make_root(1, {aligned_layout(), odd_layout()});
  return header_of(make_run(root, root_key(root), 3, 7));
}

ObjectHeader leaf_header() {
  const RootSpec root = make_root(1, {aligned_layout(), odd_layout()});
  return header_of(make_leaf(root, root_key(root), 21, 7));
}

ObjectHeader anchor_header() {
  ObjectHeader header;
  header.kind = ObjectKind::kAnchor;
  header.root = root_key(make_root(1, {odd_layout()}));
  header.parent = header.root;
  const std::vector<TokenId> full(kMaxObjectPageTokens, 17);
  header.pages.push_back({chain_key(header.parent, full), full});
  header.pages.push_back({sha256(std::as_bytes(std::span(full))), {1, 2, 3}});
  header.created_unix = 1'700'000'000;
  EXPECT_TRUE(plan_object(&header).is_ok());
  return header;
}

void rehash(std::vector<std::byte>* bytes) {
  const size_t at = bytes->size() - 8;
  store_le<uint64_t>(bytes->data() + at, xxh3_64(std::span(*bytes).first(at)));
}

TEST(ObjectFormat, RoundTripIsByteForByte) {
  for (const ObjectHeader& header : {run_header(), leaf_header(), anchor_header()}) {
    const std::vector<std::byte> bytes = encode_header(header);
    ASSERT_EQ(bytes.size(), header.header_bytes);
    const auto decoded = decode_header(bytes, header.file_bytes, nullptr);
    ASSERT_TRUE(decoded.is_ok()) << decoded.status().to_string();
    EXPECT_EQ(encode_header(*decoded), bytes);
    EXPECT_EQ(decoded->key(), header.key());
    EXPECT_EQ(decoded->created_unix, header.created_unix);
  }
}

// The bytes of version 1. When this fails the format has changed: raise the version and
// docs/formats.
TEST(ObjectFormat, GoldenBytesOfVersion1) {
  EXPECT_EQ(to_hex(sha256(encode_header(run_header()))),
            "8d71a0241d1ef2dfefc5cee31694b4ddc31b05da6d6aac16835c8c91a0c5109b");
  EXPECT_EQ(to_hex(sha256(encode_header(leaf_header()))),
            "5b545ad30a698c3533d97f5433bfce9a9a88e09e87d35f4484d1fc42d852c07e");
}

TEST(ObjectFormat, ExtentsTileThePayload) {
  for (const ObjectHeader& header : {run_header(), leaf_header()}) {
    uint64_t end = header.header_bytes;
    for (const Extent& extent : header.extents) {
      EXPECT_EQ(extent.offset, end);
      end += extent.length;
    }
    EXPECT_EQ(end, header.file_bytes);
    EXPECT_EQ(header.header_bytes % 4096, 0U);
  }
}

TEST(ObjectFormat, AnAnchorIsAHeaderAlone) {
  const ObjectHeader header = anchor_header();
  EXPECT_EQ(header.file_bytes, header.header_bytes);
  EXPECT_TRUE(header.extents.empty());
  const auto refuses = [&](auto change) {
    ObjectHeader other = header;
    change(other);
    return !plan_object(&other).is_ok();
  };
  EXPECT_TRUE(refuses([](ObjectHeader& h) { h.layouts.push_back(odd_layout()); }));
  EXPECT_TRUE(refuses([](ObjectHeader& h) { h.pages.front().tokens.pop_back(); }));
  EXPECT_TRUE(refuses([](ObjectHeader& h) { h.pages.back().tokens.clear(); }));
  EXPECT_TRUE(refuses([](ObjectHeader& h) { h.pages.back().tokens.resize(5000); }));
  EXPECT_TRUE(refuses([](ObjectHeader& h) { h.pages.clear(); }));
  EXPECT_TRUE(refuses([](ObjectHeader& h) { h.pages.resize(33, h.pages.front()); }));
  std::vector<std::byte> bytes = encode_header(header);
  bytes[112] ^= std::byte{1};  // in the key of the first record
  rehash(&bytes);
  EXPECT_FALSE(decode_header(bytes, header.file_bytes, nullptr).is_ok());
}

TEST(ObjectFormat, LongHeadersSayHowMuchTheyNeed) {
  const RootSpec root = make_root(1, {odd_layout(40)});
  const ObjectHeader header = header_of(make_run(root, root_key(root), 32, 3));
  ASSERT_GT(header.header_bytes, 4096U);
  const std::vector<std::byte> bytes = encode_header(header);
  size_t wanted = 0;
  const auto some = decode_header(std::span(bytes).first(4096), header.file_bytes, &wanted);
  EXPECT_EQ(some.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(wanted, header.header_bytes);
  EXPECT_TRUE(decode_header(bytes, header.file_bytes, nullptr).is_ok());
}

TEST(ObjectFormat, EveryFlippedHeaderByteIsRefused) {
  for (const ObjectHeader& header : {run_header(), leaf_header()}) {
    std::vector<std::byte> bytes = encode_header(header);
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (const unsigned mask : {0x01U, 0x80U, 0xffU}) {
        bytes[i] ^= static_cast<std::byte>(mask);
        EXPECT_FALSE(decode_header(bytes, header.file_bytes, nullptr).is_ok()) << "byte " << i;
        bytes[i] ^= static_cast<std::byte>(mask);
      }
    }
  }
}

// Damage that even recomputes the hash: refused, unless the byte is free to be what it likes (the
// root, which the reader compares with its own, the created time, and the payload's hashes).
TEST(ObjectFormat, RehashedDamageIsRefusedOrHarmless) {
  const ObjectHeader header = run_header();
  std::vector<std::byte> bytes = encode_header(header);
  size_t n_accepted = 0;
  for (size_t i = 0; i + 8 < bytes.size(); ++i) {
    std::vector<std::byte> damaged = bytes;
    damaged[i] ^= std::byte{0x04};
    rehash(&damaged);
    const auto decoded = decode_header(damaged, header.file_bytes, nullptr);
    if (!decoded.is_ok()) continue;
    ++n_accepted;
    EXPECT_EQ(encode_header(*decoded), damaged) << "byte " << i;
  }
  EXPECT_EQ(n_accepted, 32 + 8 + header.extents.size() * 8);
}

TEST(ObjectFormat, EveryTruncationIsRefused) {
  const ObjectHeader header = run_header();
  const std::vector<std::byte> bytes = encode_header(header);
  for (size_t n = 0; n < bytes.size(); n += 64) {
    EXPECT_FALSE(decode_header(std::span(bytes).first(n), n, nullptr).is_ok()) << n;
  }
  EXPECT_EQ(decode_header(bytes, header.file_bytes - 1, nullptr).status().code(),
            StatusCode::kCorruption);
  EXPECT_EQ(decode_header(bytes, header.file_bytes + 1, nullptr).status().code(),
            StatusCode::kCorruption);
}

StatusCode code_after(const std::function<void(std::byte*)>& edit) {
  const ObjectHeader header = run_header();
  std::vector<std::byte> bytes = encode_header(header);
  edit(bytes.data());
  rehash(&bytes);
  return decode_header(bytes, header.file_bytes, nullptr).status().code();
}

TEST(ObjectFormat, UnknownVersionSealKindAndEncodingAreUnsupported) {
  EXPECT_EQ(code_after([](std::byte* b) { store_le<uint32_t>(b + 8, 2); }),
            StatusCode::kUnsupported);
  EXPECT_EQ(code_after([](std::byte* b) { b[14] = std::byte{9}; }), StatusCode::kUnsupported);
  EXPECT_EQ(code_after([](std::byte* b) { b[15] = std::byte{2}; }), StatusCode::kUnsupported);
  EXPECT_EQ(code_after([](std::byte* b) { store_le<uint32_t>(b + 104, 9); }),
            StatusCode::kUnsupported);
}

TEST(ObjectFormat, HostileNumbersAreRefused) {
  const size_t at_pages = 104 + 2 * 20;
  // Page, group, layer, kv head, head_dim, page_tokens and token counts.
  for (const size_t at : {size_t{56},
                          size_t{60},
                          size_t{108},
                          size_t{112},
                          size_t{116},
                          size_t{120},
                          at_pages + 32}) {
    for (const uint32_t value : {0U, 7U, 33U, 65537U, 0x7fffffffU, 0xffffffffU}) {
      const StatusCode code = code_after([&](std::byte* b) { store_le<uint32_t>(b + at, value); });
      // A wrong group count reads pages as layouts: perhaps of an unknown encoding.
      EXPECT_TRUE(code == StatusCode::kCorruption || (at == 60 && code == StatusCode::kUnsupported))
          << value << " at " << at;
    }
  }
  for (const unsigned n_blocks : {0U, 2U, 0xffffU}) {
    const auto edit = [&](std::byte* b) {
      store_le<uint16_t>(b + 12, static_cast<uint16_t>(n_blocks));
    };
    EXPECT_NE(code_after(edit), StatusCode::kOk) << n_blocks;
  }
}

TEST(ObjectFormat, PlanRefusesWhatNoObjectMayHold) {
  const auto refuses = [](const std::function<void(ObjectHeader*)>& edit) {
    ObjectHeader header = run_header();
    edit(&header);
    return plan_object(&header).code() == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses([](ObjectHeader* h) { h->layouts.clear(); }));
  EXPECT_TRUE(refuses([](ObjectHeader* h) { h->layouts.resize(17, h->layouts[0]); }));
  EXPECT_TRUE(refuses([](ObjectHeader* h) { h->pages.clear(); }));
  EXPECT_TRUE(refuses([](ObjectHeader* h) { h->pages.resize(33, h->pages[0]); }));
  EXPECT_TRUE(refuses([](ObjectHeader* h) { h->pages[1].tokens.pop_back(); }));
  EXPECT_TRUE(refuses([](ObjectHeader* h) { h->kind = ObjectKind::kLeaf; }));
  EXPECT_TRUE(refuses([](ObjectHeader* h) { h->layouts[0].head_dim = 15; }));
  EXPECT_TRUE(refuses([](ObjectHeader* h) { h->layouts[1].page_tokens = 32; }));
  EXPECT_TRUE(refuses([](ObjectHeader* h) {
    h->layouts[0].n_kv_heads = 1024;
    h->layouts[0].head_dim = 65536;
  }));
}

TEST(PagePacking, UnpackRestoresEveryLengthOfLeaf) {
  for (const PageLayout& layout :
       {aligned_layout(), odd_layout(), odd_layout(1, 16), aligned_layout(5, 128)}) {
    for (uint32_t n = 1; n < layout.page_tokens; ++n) {
      PageKey key;
      key.bytes[0] = static_cast<std::byte>(n);
      const AlignedBytes page = test::make_page(layout, key, n, 0);
      AlignedBytes out(layout.page_bytes());
      std::memset(out.data(), 0xaa, out.size());
      const size_t layer_bytes = packed_layer_bytes(layout, n);
      for (uint32_t layer = 0; layer < layout.n_layers; ++layer) {
        pack_layer(layout,
                   layer,
                   n,
                   page.data(),
                   out.data() + packed_offset(layout, n) + layer * layer_bytes);
      }
      unpack_in_place(layout, n, out.data());
      ASSERT_EQ(std::memcmp(page.data(), out.data(), layout.page_bytes()), 0) << n;
    }
  }
}

TEST(PagePacking, OnlyUsedStripsAreKept) {
  const PageLayout layout = aligned_layout();
  EXPECT_EQ(packed_layer_bytes(layout, 1), layout.layer_bytes() / 4);
  EXPECT_EQ(packed_layer_bytes(layout, 16), layout.layer_bytes() / 4);
  EXPECT_EQ(packed_layer_bytes(layout, 17), layout.layer_bytes() / 2);
  EXPECT_EQ(packed_layer_bytes(layout, 63), layout.layer_bytes());
  EXPECT_EQ(packed_layer_bytes(layout, 64), layout.layer_bytes());
}

}  // namespace
}  // namespace cairn
