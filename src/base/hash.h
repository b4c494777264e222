// Hashes: SHA-256 for names of things (prompts are untrusted), XXH3-64 for damage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn {

struct Digest {
  std::array<std::byte, 32> bytes{};

  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

// A digest is already uniform: its first eight bytes are its hash.
struct DigestHash {
  size_t operator()(const Digest& digest) const noexcept;
};

std::string to_hex(const Digest& digest);
std::optional<Digest> digest_from_hex(std::string_view hex);

// Incremental SHA-256 (OpenSSL EVP).
class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text);
  Sha256& update_u8(uint8_t value);
  Sha256& update_u32(uint32_t value);  // little-endian
  Sha256& update_u64(uint64_t value);
  // Length (u64) and bytes, so that neighbouring fields cannot be confused.
  Sha256& update_field(std::string_view text);
  // Ends the message and makes the object ready for the next one.
  Digest finish();
  // Another message that begins like this one.
  Sha256 copy() const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Incremental SHA-1, for names that others make with it (git's object ids). Damage shows, forgery
// need not: it is broken. Never for names of our own.
class Sha1 {
 public:
  Sha1();
  Sha1(const Sha1&) = delete;
  Sha1& operator=(const Sha1&) = delete;
  Sha1(Sha1&&) noexcept;
  Sha1& operator=(Sha1&&) noexcept;
  ~Sha1();

  Sha1& update(std::span<const std::byte> bytes);
  // 40 hex digits. Ends the message and makes the object ready for the next one.
  std::string finish_hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Digest sha256(std::span<const std::byte> bytes);
uint64_t xxh3_64(std::span<const std::byte> bytes);

// Equal or not in a time that does not depend on where they differ; lengths may show.
bool equal_constant_time(std::string_view a, std::string_view b);

// 128 bits from the operating system, as 32 hex digits.
std::string random_hex_128();
uint64_t random_u64();

}  // namespace cairn
