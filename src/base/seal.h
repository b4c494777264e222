// Authenticated encryption and key derivation (OpenSSL), for what is kept on disk under a key.
//
// AES-256-GCM (NIST SP 800-38D): never use one nonce twice under one key. HKDF and HMAC with
// SHA-256 (RFC 5869, RFC 2104).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/hash.h"

namespace cairn {

using SealNonce = std::array<std::byte, 12>;
using SealTag = std::array<std::byte, 16>;

// From the operating system, by way of OpenSSL's generator.
void random_bytes(std::span<std::byte> out);

// `n` little-endian in the first 8 bytes, then zeros: for keys that seal a counted few messages.
SealNonce counted_nonce(uint64_t n);

// One key's cipher. Thread: one at a time.
class Aes256Gcm {
 public:
  explicit Aes256Gcm(const Digest& key);
  Aes256Gcm(const Aes256Gcm&) = delete;
  Aes256Gcm& operator=(const Aes256Gcm&) = delete;
  Aes256Gcm(Aes256Gcm&&) noexcept;
  Aes256Gcm& operator=(Aes256Gcm&&) noexcept;
  ~Aes256Gcm();

  // Writes as many bytes as `plain` has to `out`, which is the same memory or does not overlap.
  // `clear` is authenticated and not encrypted. At most 1 GiB each.
  SealTag seal(const SealNonce& nonce,
               std::span<const std::byte> clear,
               std::span<const std::byte> plain,
               std::byte* out);

  // The inverse. False: the tag is not that of these bytes; then `out` holds rubbish.
  [[nodiscard]] bool open(const SealNonce& nonce,
                          std::span<const std::byte> clear,
                          std::span<const std::byte> sealed,
                          const SealTag& tag,
                          std::byte* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

// 32 bytes of key material: HKDF-Extract, then the first block of HKDF-Expand.
Digest hkdf_sha256(std::span<const std::byte> secret,
                   std::span<const std::byte> salt,
                   std::string_view purpose);

}  // namespace cairn
