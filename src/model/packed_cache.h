// Where packed weights are kept between starts, and when. The file: formats/packed_file.h.
//
// Thread: the loader's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "formats/packed_file.h"

namespace cairn {

struct PackedCacheOptions {
  // Folders to look in; the first that can be written gets new files. Made when missing. None: off.
  std::vector<std::string> folders;
  // Smaller models are packed at each start, which takes no time worth a file.
  uint64_t min_bytes = uint64_t{64} << 20;
};

class PackedCache {
 public:
  // `weights_path`: the model's first weight file; its name and folder become part of the file's
  // name, so that a changed model replaces its own file and no other's.
  PackedCache(PackedCacheOptions options, const std::string& weights_path, const Digest& key);

  // The file of this key, verified; nullopt when there is none. A damaged one is logged and
  // removed.
  std::optional<PackedFile> find() const;

  // Keeps `blobs`, unless the file is there, and removes what other keys left for the same weights,
  // and what a killed process was writing. A folder without room for the file and 1 GiB more is
  // left alone. Failure costs the next start its time, never this one: it is logged.
  void keep(std::span<const std::span<const std::byte>> blobs) const;

 private:
  std::string path_in(const std::string& folder) const;
  void remove_stale(const std::string& folder) const;
  Status keep_in(const std::string& folder,
                 std::span<const std::span<const std::byte>> blobs,
                 uint64_t n_bytes) const;

  PackedCacheOptions options_;
  std::string name_front_;  // "<name>-<place>."
  Digest key_;
};

}  // namespace cairn
