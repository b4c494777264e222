#include "store/store_key.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/coding.h"
#include "base/secret_file.h"

namespace cairn {
namespace {

constexpr size_t kMasterBytes = 32;
constexpr uint64_t kKeyFileBytesMax = 4096;
constexpr std::string_view kObjectPurpose = "cairn.store.object.1";
constexpr std::string_view kLogPurpose = "cairn.store.index.1";
constexpr std::string_view kNamePurpose = "cairn.store.name.1";
constexpr std::string_view kIdPurpose = "cairn.store.id.1";

std::optional<Digest> parse_master(std::string_view text) {
  if (text.size() == kMasterBytes) {
    Digest master;
    const auto bytes = as_bytes(text);
    std::copy(bytes.begin(), bytes.end(), master.bytes.begin());
    return master;
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return digest_from_hex(text);
}

}  // namespace

StoreKey::StoreKey(const Digest& master)
    : master_(master),
      name_key_(hkdf_sha256(master.bytes, {}, kNamePurpose)),
      id_(load_le<uint64_t>(hkdf_sha256(master.bytes, {}, kIdPurpose).bytes.data())) {}

Result<StoreKey> StoreKey::read(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text,
                         read_secret_file(path, "store key", kKeyFileBytesMax));
  const std::optional<Digest> master = parse_master(text);
  if (!master) {
    return Status::invalid_argument(fmt::format(
        "{}: a store key is 32 bytes or 64 hex digits, this file has {} bytes; make one "
        "with: head -c 32 /dev/urandom > FILE; chmod 600 FILE",
        path,
        text.size()));
  }
  return StoreKey(*master);
}

Digest StoreKey::disk_name(const Digest& key) const {
  return hmac_sha256(name_key_.bytes, key.bytes);
}

Aes256Gcm StoreKey::object_cipher(const SealSalt& salt) const {
  return Aes256Gcm(hkdf_sha256(master_.bytes, salt, kObjectPurpose));
}

Aes256Gcm StoreKey::log_cipher() const {
  return Aes256Gcm(hkdf_sha256(master_.bytes, {}, kLogPurpose));
}

}  // namespace cairn
