#include "base/status.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace cairn {

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kCorruption:
      return "CORRUPTION";
    case StatusCode::kIo:
      return "IO";
    case StatusCode::kNoSpace:
      return "NO_SPACE";
    case StatusCode::kUnsupported:
      return "UNSUPPORTED";
    case StatusCode::kOverloaded:
      return "OVERLOADED";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

Status Status::from_errno(int error_number, std::string_view what) {
  StatusCode code = StatusCode::kIo;
  if (error_number == ENOSPC || error_number == EDQUOT) code = StatusCode::kNoSpace;
  if (error_number == ENOENT) code = StatusCode::kNotFound;
  // std::error_code's message is thread-safe where strerror is not.
  const std::error_code error(error_number, std::generic_category());
  return {code, fmt::format("{}: {} (errno {})", what, error.message(), error_number)};
}

std::string Status::to_string() const {
  if (is_ok()) return std::string(cairn::to_string(code_));
  return fmt::format("{}: {}", cairn::to_string(code_), message_);
}

Status Status::with_prefix(std::string_view prefix) const {
  if (is_ok()) return *this;
  return {code_, fmt::format("{}: {}", prefix, message_)};
}

}  // namespace cairn
