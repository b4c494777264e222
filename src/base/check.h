// Assertions about our own code. The world (disk, network, requests) gets a Status instead.
#pragma once

#include <string_view>

namespace cairn {

// Writes "CHECK failed: <expr> at <file>:<line>: <message>" to standard error and aborts.
[[noreturn]] void check_failed(const char* expr,
                               const char* file,
                               int line,
                               std::string_view message);

}  // namespace cairn

// Aborts in every build. An optional second argument is the message.
#define CAIRN_CHECK(cond, ...) \
  (static_cast<bool>(cond)     \
       ? static_cast<void>(0)  \
       : ::cairn::check_failed(#cond, __FILE__, __LINE__, ::std::string_view{__VA_ARGS__}))

// Aborts in debug builds; for inner loops.
#ifdef NDEBUG
#define CAIRN_DCHECK(cond, ...) static_cast<void>(sizeof(static_cast<bool>(cond)))
#else
#define CAIRN_DCHECK(cond, ...) CAIRN_CHECK(cond __VA_OPT__(, ) __VA_ARGS__)
#endif
