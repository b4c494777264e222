#include "base/seal.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/coding.h"

namespace cairn {
namespace {

constexpr size_t kMaxSealBytes = size_t{1} << 30;  // OpenSSL counts in int

const EVP_CIPHER* aes_256_gcm() {
  static EVP_CIPHER* const kCipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  CAIRN_CHECK(kCipher != nullptr, "OpenSSL offers no AES-256-GCM");
  return kCipher;
}

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

unsigned char* raw(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}

}  // namespace

void random_bytes(std::span<std::byte> out) {
  CAIRN_CHECK(RAND_bytes(raw(out.data()), static_cast<int>(out.size())) == 1,
              "no random bytes to be had");
}

SealNonce counted_nonce(uint64_t n) {
  SealNonce nonce{};
  store_le<uint64_t>(nonce.data(), n);
  return nonce;
}

// The key schedule is kept in both contexts; a message only changes the nonce.
struct Aes256Gcm::State {
  explicit State(const Digest& key) : seal(EVP_CIPHER_CTX_new()), open(EVP_CIPHER_CTX_new()) {
    CAIRN_CHECK(seal != nullptr && open != nullptr, "no memory for a cipher");
    const unsigned char* k = raw(key.bytes.data());
    CAIRN_CHECK(EVP_EncryptInit_ex2(seal, aes_256_gcm(), k, nullptr, nullptr) == 1);
    CAIRN_CHECK(EVP_DecryptInit_ex2(open, aes_256_gcm(), k, nullptr, nullptr) == 1);
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;
  State(State&&) = delete;
  State& operator=(State&&) = delete;

  ~State() {
    EVP_CIPHER_CTX_free(seal);
    EVP_CIPHER_CTX_free(open);
  }

  EVP_CIPHER_CTX* seal;
  EVP_CIPHER_CTX* open;
};

Aes256Gcm::Aes256Gcm(const Digest& key) : state_(std::make_unique<State>(key)) {}

Aes256Gcm::Aes256Gcm(Aes256Gcm&&) noexcept = default;

Aes256Gcm& Aes256Gcm::operator=(Aes256Gcm&&) noexcept = default;

Aes256Gcm::~Aes256Gcm() = default;

SealTag Aes256Gcm::seal(const SealNonce& nonce,
                        std::span<const std::byte> clear,
                        std::span<const std::byte> plain,
                        std::byte* out) {
  CAIRN_CHECK(clear.size() <= kMaxSealBytes && plain.size() <= kMaxSealBytes);
  EVP_CIPHER_CTX* context = state_->seal;
  int n = 0;
  SealTag tag;
  bool is_ok = EVP_EncryptInit_ex2(context, nullptr, nullptr, raw(nonce.data()), nullptr) == 1;
  is_ok =
      is_ok && EVP_EncryptUpdate(
                   context, nullptr, &n, raw(clear.data()), static_cast<int>(clear.size())) == 1;
  is_ok =
      is_ok && EVP_EncryptUpdate(
                   context, raw(out), &n, raw(plain.data()), static_cast<int>(plain.size())) == 1;
  unsigned char none = 0;
  is_ok = is_ok && EVP_EncryptFinal_ex(context, &none, &n) == 1;
  is_ok =
      is_ok && EVP_CIPHER_CTX_ctrl(
                   context, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag.size()), tag.data()) == 1;
  CAIRN_CHECK(is_ok, "AES-256-GCM failed");
  return tag;
}

bool Aes256Gcm::open(const SealNonce& nonce,
                     std::span<const std::byte> clear,
                     std::span<const std::byte> sealed,
                     const SealTag& tag,
                     std::byte* out) {
  CAIRN_CHECK(clear.size() <= kMaxSealBytes && sealed.size() <= kMaxSealBytes);
  EVP_CIPHER_CTX* context = state_->open;
  int n = 0;
  SealTag wanted = tag;
  bool is_ok = EVP_DecryptInit_ex2(context, nullptr, nullptr, raw(nonce.data()), nullptr) == 1;
  is_ok =
      is_ok && EVP_DecryptUpdate(
                   context, nullptr, &n, raw(clear.data()), static_cast<int>(clear.size())) == 1;
  is_ok =
      is_ok && EVP_DecryptUpdate(
                   context, raw(out), &n, raw(sealed.data()), static_cast<int>(sealed.size())) == 1;
  is_ok = is_ok &&
          EVP_CIPHER_CTX_ctrl(
              context, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(wanted.size()), wanted.data()) == 1;
  CAIRN_CHECK(is_ok, "AES-256-GCM failed");
  unsigned char none = 0;
  return EVP_DecryptFinal_ex(context, &none, &n) == 1;
}

Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  Digest digest;
  unsigned n = 0;
  CAIRN_CHECK(HMAC(EVP_sha256(),
                   key.data(),
                   static_cast<int>(key.size()),
                   raw(message.data()),
                   message.size(),
                   raw(digest.bytes.data()),
                   &n) != nullptr &&
                  n == digest.bytes.size(),
              "HMAC failed");
  return digest;
}

Digest hkdf_sha256(std::span<const std::byte> secret,
                   std::span<const std::byte> salt,
                   std::string_view purpose) {
  const Digest extracted = hmac_sha256(salt, secret);
  std::vector<std::byte> message(purpose.size() + 1, std::byte{1});
  const std::span<const std::byte> text = as_bytes(purpose);
  std::copy(text.begin(), text.end(), message.begin());
  return hmac_sha256(extracted.bytes, message);
}

}  // namespace cairn
