#include "base/seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace cairn {
namespace {

std::vector<std::byte> counting(uint8_t first, size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

std::string hex_of(std::span<const std::byte> bytes) {
  Digest padded;
  std::copy(bytes.begin(), bytes.end(), padded.bytes.begin());
  return to_hex(padded).substr(0, 2 * bytes.size());
}

// RFC 5869, A.1: the first block of its 42 bytes.
TEST(Seal, HkdfMakesTheBytesOfTheStandard) {
  const std::vector<std::byte> secret(22, std::byte{0x0b});
  const std::vector<std::byte> info = counting(0xf0, 10);
  EXPECT_EQ(
      to_hex(hkdf_sha256(
          secret, counting(0, 13), {reinterpret_cast<const char*>(info.data()), info.size()})),
      "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
}

// McGrew & Viega, "The Galois/Counter Mode of Operation", test cases 13 and 14.
TEST(Seal, AesGcmMakesTheBytesOfTheStandard) {
  Aes256Gcm cipher{Digest{}};
  EXPECT_EQ(hex_of(cipher.seal(SealNonce{}, {}, {}, nullptr)), "530f8afbc74536b9a963b4f1c4cb738b");
  std::vector<std::byte> bytes(16);
  const SealTag tag = cipher.seal(SealNonce{}, {}, bytes, bytes.data());
  EXPECT_EQ(hex_of(bytes), "cea7403d4d606b6e074ec5d3baf39d18");
  EXPECT_EQ(hex_of(tag), "d0d1c8a799996bf0265b98b5d48ab919");
}

TEST(Seal, OpensOnlyWhatItSealed) {
  Aes256Gcm cipher{sha256(counting(1, 9))};
  for (const size_t n : {0U, 1U, 15U, 16U, 17U, 1000U}) {
    const std::vector<std::byte> plain = counting(3, n);
    const std::vector<std::byte> clear = counting(9, n % 20);
    std::vector<std::byte> sealed(n);
    const SealTag tag = cipher.seal(counted_nonce(n), clear, plain, sealed.data());
    std::vector<std::byte> opened(n);
    ASSERT_TRUE(cipher.open(counted_nonce(n), clear, sealed, tag, opened.data()));
    EXPECT_EQ(opened, plain);
    EXPECT_FALSE(cipher.open(counted_nonce(n + 1), clear, sealed, tag, opened.data()));
    SealTag other = tag;
    other[15] ^= std::byte{1};
    EXPECT_FALSE(cipher.open(counted_nonce(n), clear, sealed, other, opened.data()));
    if (!clear.empty()) {
      EXPECT_FALSE(cipher.open(
          counted_nonce(n), std::span(clear).first(clear.size() - 1), sealed, tag, opened.data()));
    }
    if (n > 0) {
      sealed[n / 2] ^= std::byte{1};
      EXPECT_FALSE(cipher.open(counted_nonce(n), clear, sealed, tag, opened.data()));
    }
    Aes256Gcm stranger{sha256(counting(2, 9))};
    EXPECT_FALSE(stranger.open(counted_nonce(n), clear, sealed, tag, opened.data()));
  }
}

}  // namespace
}  // namespace cairn
