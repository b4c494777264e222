#include "cache/geometry.h"

#include <gtest/gtest.h>

#include "cache/fake_backend.h"

namespace cairn {
namespace {

TEST(Geometry, CountsBytesOfAPage) {
  const RootSpec spec = testing::fake_root(64);
  // 2 layers x (K, V) x 2 heads x 64 tokens x 8 dims x 2 bytes
  EXPECT_EQ(spec.geometry.payload_bytes(), 2U * 2 * 2 * 64 * 8 * 2);
  EXPECT_EQ(spec.geometry.page_bytes(), 8192U);
}

TEST(Geometry, PadsEachGroupToFourKib) {
  RootSpec spec = testing::fake_root(16);
  spec.geometry.groups.push_back(spec.geometry.groups[0]);
  spec.geometry.groups[1].layout.head_dim = 12;
  EXPECT_EQ(spec.geometry.payload_bytes(), 2048U + 3072U);
  EXPECT_EQ(spec.geometry.page_bytes(), 2U * 4096);
}

TEST(Geometry, ParsesEncodings) {
  EXPECT_EQ(*parse_row_encoding("f32"), RowEncoding::kF32);
  EXPECT_EQ(*parse_row_encoding("bf16"), RowEncoding::kBf16);
  const Result<RowEncoding> bad = parse_row_encoding("q8");
  ASSERT_FALSE(bad.is_ok());
  EXPECT_EQ(bad.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(bad.status().message().find("q8"), std::string::npos);
  EXPECT_NE(bad.status().message().find("bf16"), std::string::npos);
}

}  // namespace
}  // namespace cairn
