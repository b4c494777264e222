// How big a test should be: full in release, reduced under sanitizers (CAIRN_TEST_SIZE=small).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace cairn::testing {

// n in release, about a tenth of it (at least `floor`) when CAIRN_TEST_SIZE is "small".
inline size_t scaled(size_t n, size_t floor = 1) {
  const char* size = std::getenv("CAIRN_TEST_SIZE");
  if (size != nullptr && std::string_view(size) == "small") return std::max(floor, n / 10);
  return n;
}

}  // namespace cairn::testing
