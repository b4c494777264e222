// A value or the Status that says why there is none.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/status.h"

namespace cairn {

template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return Status::io(...)` both read naturally.
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)

  Result(Status status)
      : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT(google-explicit-constructor)
    CAIRN_CHECK(!std::get<1>(state_).is_ok(), "a Result made from an ok Status has no value");
  }

  bool is_ok() const { return state_.index() == 0; }

  explicit operator bool() const { return is_ok(); }

  // Requires is_ok().
  T& value() & {
    check_ok();
    return std::get<0>(state_);
  }

  const T& value() const& {
    check_ok();
    return std::get<0>(state_);
  }

  T&& value() && {
    check_ok();
    return std::move(std::get<0>(state_));
  }

  T& operator*() & { return value(); }

  const T& operator*() const& { return value(); }

  T&& operator*() && { return std::move(*this).value(); }

  T* operator->() { return &value(); }

  const T* operator->() const { return &value(); }

  // The error, or ok.
  Status status() const { return is_ok() ? Status::ok() : std::get<1>(state_); }

 private:
  void check_ok() const {
    if (!is_ok())
      check_failed("Result::is_ok()", __FILE__, __LINE__, std::get<1>(state_).message());
  }

  std::variant<T, Status> state_;
};

}  // namespace cairn

#define CAIRN_CONCAT_INNER(a, b) a##b
#define CAIRN_CONCAT(a, b) CAIRN_CONCAT_INNER(a, b)

#define CAIRN_RETURN_IF_ERROR(expr)                   \
  do {                                                \
    ::cairn::Status cairn_status_ = (expr);           \
    if (!cairn_status_.is_ok()) return cairn_status_; \
  } while (false)

#define CAIRN_ASSIGN_OR_RETURN(decl, expr) \
  CAIRN_ASSIGN_OR_RETURN_IMPL(CAIRN_CONCAT(cairn_result_, __LINE__), decl, expr)
#define CAIRN_ASSIGN_OR_RETURN_IMPL(tmp, decl, expr) \
  auto tmp = (expr);                                 \
  if (!tmp.is_ok()) return tmp.status();             \
  decl = std::move(tmp).value()
