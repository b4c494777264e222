// An object without its bytes: what the index and its log hold.
#pragma once

#include <cstdint>
#include <vector>

#include "store/object_format.h"

namespace cairn {

struct ObjectEntry {
  RootKey root;
  ObjectKind kind = ObjectKind::kRun;
  PageKey parent;
  std::vector<PageRecord> pages;
  uint64_t file_bytes = 0;
  int64_t last_use_unix = 0;

  const PageKey& key() const { return pages.back().key; }
};

}  // namespace cairn
