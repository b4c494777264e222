#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "base/coding.h"

namespace cairn {
namespace {

TEST(Sha256, MatchesTheStandardsExamples) {
  // FIPS 180-4 example values.
  EXPECT_EQ(to_hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256(as_bytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PiecesGiveTheSameAsTheWhole) {
  const std::string text(1000, 'x');
  Sha256 hash;
  for (size_t i = 0; i < text.size(); i += 7) hash.update(std::string_view(text).substr(i, 7));
  EXPECT_EQ(hash.finish(), sha256(as_bytes(text)));
}

TEST(Sha256, IsReadyAgainAfterFinish) {
  Sha256 hash;
  hash.update("something else").finish();
  EXPECT_EQ(hash.update("abc").finish(), sha256(as_bytes("abc")));
}

TEST(Sha256, NumbersAreHashedLittleEndian) {
  Sha256 numbers;
  numbers.update_u8(0x61).update_u32(0x65646362).update_u64(0x6d6c6b6a69686766ULL);
  EXPECT_EQ(numbers.finish(), sha256(as_bytes("abcdefghijklm")));
}

TEST(Sha256, FieldsCannotRunIntoEachOther) {
  Sha256 hash;
  const Digest first = hash.update_field("ab").update_field("c").finish();
  const Digest second = hash.update_field("a").update_field("bc").finish();
  EXPECT_NE(first, second);
}

TEST(Sha256, MovesWithItsState) {
  Sha256 hash;
  hash.update("ab");
  Sha256 moved(std::move(hash));
  EXPECT_EQ(moved.update("c").finish(), sha256(as_bytes("abc")));
}

TEST(Sha1, MatchesTheStandardsExampleInPiecesAndAgain) {
  Sha1 hash;
  for (int round = 0; round < 2; ++round) {
    hash.update(as_bytes("a")).update(as_bytes("bc"));
    EXPECT_EQ(hash.finish_hex(), "a9993e364706816aba3e25717850c26c9cd0d89d");
  }
}

TEST(Digest, HexGoesBothWays) {
  const Digest digest = sha256(as_bytes("abc"));
  EXPECT_EQ(digest_from_hex(to_hex(digest)), digest);
  EXPECT_EQ(digest_from_hex("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"),
            digest);
  EXPECT_EQ(digest_from_hex("ba78"), std::nullopt);
  std::string wrong = to_hex(digest);
  wrong[5] = 'g';
  EXPECT_EQ(digest_from_hex(wrong), std::nullopt);
  EXPECT_EQ(DigestHash()(digest), load_le<uint64_t>(digest.bytes.data()));
}

TEST(Xxh3, MatchesTheReference) {
  // XXH3_64bits of nothing, from the specification's test vectors (seed 0).
  EXPECT_EQ(xxh3_64({}), 0x2d06800538d394c2ULL);
  EXPECT_NE(xxh3_64(as_bytes("a")), xxh3_64(as_bytes("b")));
}

TEST(Hash, ConstantTimeComparisonComparesAll) {
  EXPECT_TRUE(equal_constant_time("secret", "secret"));
  EXPECT_FALSE(equal_constant_time("secret", "secreT"));
  EXPECT_FALSE(equal_constant_time("secret", "secre"));
  EXPECT_TRUE(equal_constant_time("", ""));
}

TEST(Random, DoesNotRepeat) {
  std::set<std::string> texts;
  std::set<uint64_t> numbers;
  for (int i = 0; i < 100; ++i) {
    texts.insert(random_hex_128());
    numbers.insert(random_u64());
  }
  EXPECT_EQ(texts.size(), 100U);
  EXPECT_EQ(numbers.size(), 100U);
  EXPECT_EQ(texts.begin()->size(), 32U);
  EXPECT_EQ(texts.begin()->find_first_not_of("0123456789abcdef"), std::string::npos);
}

}  // namespace
}  // namespace cairn
