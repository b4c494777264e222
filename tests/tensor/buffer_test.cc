#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace cairn {
namespace {

uintptr_t address(const Buffer& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data());
}

TEST(Buffer, IsAlignedAndZero) {
  for (const size_t n :
       {size_t{0}, size_t{1}, size_t{63}, size_t{4096}, size_t{4} << 20, (size_t{5} << 20) + 3}) {
    const Buffer buffer = Buffer::allocate(n);
    EXPECT_EQ(buffer.size(), n);
    EXPECT_TRUE(buffer);
    EXPECT_EQ(address(buffer) % (n >= size_t{4} << 20 ? size_t{2} << 20 : 64), 0U);
    const auto bytes = buffer.as<std::byte>();
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::ranges::fill(bytes, std::byte{1});
  }
}

TEST(Buffer, CopiesShareTheBytes) {
  Buffer copy;
  EXPECT_FALSE(copy);
  {
    const Buffer buffer = Buffer::allocate(64);
    copy = buffer;
    buffer.as<float>()[3] = 2.5F;
  }
  EXPECT_EQ(copy.as<float>().size(), 16U);
  EXPECT_EQ(copy.as<float>()[3], 2.5F);
}

TEST(Buffer, ARefusalIsAnEmptyBuffer) {
  const Buffer buffer = Buffer::try_allocate(std::numeric_limits<size_t>::max() - 5);
  EXPECT_FALSE(buffer);
  EXPECT_EQ(buffer.size(), 0U);
  EXPECT_FALSE(Buffer::try_allocate(size_t{1} << 60));
}

TEST(TensorView, CountsAndNamesItsShape) {
  const TensorView view{DType::kF32, {64, 128}, {}};
  EXPECT_EQ(view.n_elements(), 64 * 128);
  EXPECT_EQ(view.shape_text(), "[64, 128]");
  EXPECT_EQ(TensorView{}.n_elements(), 1);
  EXPECT_EQ(TensorView{}.shape_text(), "[]");
}

}  // namespace
}  // namespace cairn
