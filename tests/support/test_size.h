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

// g++ says so by macros, clang by features.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAIRN_IS_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(CAIRN_IS_SANITIZED)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace cairn::testing
