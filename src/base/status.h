// Errors as values: what went wrong, as a code for programs and a sentence for people.
//
// Three kinds of error (STYLE section 5): our bugs abort through CAIRN_CHECK; faults of the world
// are a Status or Result; damage in the cache is a miss and never reaches a caller as an error.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace cairn {

enum class StatusCode {
  kOk,
  kInvalidArgument,  // the caller or the client asked for something that makes no sense
  kNotFound,
  kCorruption,   // bytes that are not what they claim to be
  kIo,           // the operating system refused
  kNoSpace,      // disk or budget is full for good
  kUnsupported,  // well-formed, but Cairn cannot do it
  kOverloaded,   // try again later
  kCancelled,
  kInternal,
};

// "INVALID_ARGUMENT" and so on.
std::string_view to_string(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;

  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok() { return Status(); }

  static Status invalid_argument(std::string m) {
    return {StatusCode::kInvalidArgument, std::move(m)};
  }

  static Status not_found(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }

  static Status corruption(std::string m) { return {StatusCode::kCorruption, std::move(m)}; }

  static Status io(std::string m) { return {StatusCode::kIo, std::move(m)}; }

  static Status no_space(std::string m) { return {StatusCode::kNoSpace, std::move(m)}; }

  static Status unsupported(std::string m) { return {StatusCode::kUnsupported, std::move(m)}; }

  static Status overloaded(std::string m) { return {StatusCode::kOverloaded, std::move(m)}; }

  static Status cancelled(std::string m) { return {StatusCode::kCancelled, std::move(m)}; }

  static Status internal(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

  // From an errno value: kNoSpace for ENOSPC/EDQUOT, kNotFound for ENOENT, else kIo.
  // `what` names the operation and the object ("open /x/y").
  static Status from_errno(int error_number, std::string_view what);

  bool is_ok() const { return code_ == StatusCode::kOk; }

  StatusCode code() const { return code_; }

  // Names the object, the value found, the value wanted and the way out. Empty when ok.
  const std::string& message() const { return message_; }

  // "CORRUPTION: ..." for logs.
  std::string to_string() const;

  // The same error with `prefix: ` before its message; ok stays ok.
  Status with_prefix(std::string_view prefix) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace cairn
