#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace cairn {

void check_failed(const char* expr, const char* file, int line, std::string_view message) {
  // stdio rather than the logger: the logger may be what is broken.
  std::fprintf(stderr,
               "CHECK failed: %s at %s:%d: %.*s\n",
               expr,
               file,
               line,
               static_cast<int>(message.size()),
               message.data());
  std::abort();
}

}  // namespace cairn
