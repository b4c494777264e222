// The key that a store is sealed with, and what is derived from it.
//
// Everything comes from 32 secret bytes by HKDF, each purpose under its own label: a key for each
// object, one for the index log, one for names on disk, and an id that tells which key it was and
// nothing of the key. Immutable; may be used from any thread. Format: docs/formats/object.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/file_system.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/seal.h"

namespace cairn {

using SealSalt = std::array<std::byte, 16>;

class StoreKey {
 public:
  // `master`: 32 bytes that nobody can guess.
  explicit StoreKey(const Digest& master);

  // From a file of 32 bytes, or of 64 hex digits and a line's end, that nobody but its owner may
  // read. Errors: kNotFound, kIo; kInvalidArgument naming what is wrong and how to make one.
  static Result<StoreKey> read(const std::string& path);

  uint64_t id() const { return id_; }

  // What stands in a file's name or an object's prefix in place of a key of the cache: whoever
  // reads the folder can neither guess a prompt from it nor tell which object continues which.
  Digest disk_name(const Digest& key) const;

  // Of the one file whose salt it is.
  Aes256Gcm object_cipher(const SealSalt& salt) const;
  Aes256Gcm log_cipher() const;

 private:
  Digest master_;
  Digest name_key_;
  uint64_t id_ = 0;
};

}  // namespace cairn
