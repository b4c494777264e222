#include "base/coding.h"

#include <gtest/gtest.h>

#include <limits>

namespace cairn {
namespace {

std::vector<std::byte> sample() {
  ByteWriter writer;
  writer.u8(0x12);
  writer.u16(0x3456);
  writer.u32(0x789abcde);
  writer.u64(0x0123456789abcdefULL);
  writer.i64(-2);
  writer.text("abc");
  writer.zeros(3);
  return writer.take();
}

TEST(Coding, NumbersAreLittleEndian) {
  const auto bytes = sample();
  EXPECT_EQ(bytes[1], std::byte{0x56});
  EXPECT_EQ(bytes[2], std::byte{0x34});
  EXPECT_EQ(bytes[3], std::byte{0xde});
  EXPECT_EQ(bytes[7], std::byte{0xef});
  EXPECT_EQ(bytes[23], std::byte{3});
}

TEST(Coding, ReadsWhatWasWritten) {
  const auto bytes = sample();
  ByteReader reader(bytes);
  EXPECT_EQ(*reader.u8("a"), 0x12);
  EXPECT_EQ(*reader.u16("b"), 0x3456);
  EXPECT_EQ(*reader.u32("c"), 0x789abcdeU);
  EXPECT_EQ(*reader.u64("d"), 0x0123456789abcdefULL);
  EXPECT_EQ(*reader.i64("e"), -2);
  EXPECT_EQ(*reader.text(3, "f"), "abc");
  EXPECT_TRUE(reader.skip(3, "g").is_ok());
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(Coding, EveryCutIsNoticedAndNamed) {
  const auto bytes = sample();
  for (size_t n = 0; n < bytes.size(); ++n) {
    ByteReader reader({bytes.data(), n});
    Status status = reader.u8("one").status();
    if (status.is_ok()) status = reader.u16("two").status();
    if (status.is_ok()) status = reader.u32("three").status();
    if (status.is_ok()) status = reader.u64("four").status();
    if (status.is_ok()) status = reader.i64("five").status();
    if (status.is_ok()) status = reader.text(3, "six").status();
    if (status.is_ok()) status = reader.skip(3, "seven");
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << n;
  }
  ByteReader reader({bytes.data(), 2});
  ASSERT_TRUE(reader.u8("kind").is_ok());
  EXPECT_EQ(reader.u32("length").status().message(),
            "length: needs 4 bytes at offset 1, 1 are left");
}

TEST(Coding, AfterAFailureNothingMoreIsRead) {
  const auto bytes = sample();
  ByteReader reader(bytes);
  ASSERT_FALSE(reader.bytes(1000, "big").is_ok());
  EXPECT_FALSE(reader.u8("small").is_ok());
}

TEST(Coding, AHugeLengthDoesNotOverflow) {
  const auto bytes = sample();
  ByteReader reader(bytes);
  ASSERT_TRUE(reader.u8("first").is_ok());
  EXPECT_FALSE(reader.bytes(std::numeric_limits<uint64_t>::max(), "huge").is_ok());
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(Coding, ATextLongerThanAllowedIsRefused) {
  ByteWriter writer;
  writer.text("four");
  ByteReader reader(writer.view());
  const auto text = reader.text(3, "name");
  EXPECT_EQ(text.status().message(), "name: length 4 at offset 0, at most 3 are allowed");
  EXPECT_FALSE(reader.u8("rest").is_ok());
}

TEST(Coding, CheckedArithmeticSeesOverflow) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  uint64_t out = 0;
  EXPECT_TRUE(checked_add(kMax - 1, 1, &out));
  EXPECT_EQ(out, kMax);
  EXPECT_FALSE(checked_add(kMax, 1, &out));
  EXPECT_TRUE(checked_mul(kMax / 3, 3, &out));
  EXPECT_FALSE(checked_mul(kMax / 3 + 1, 3, &out));
}

}  // namespace
}  // namespace cairn
