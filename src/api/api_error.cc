#include "api/api_error.h"

#include "base/json.h"

namespace cairn {

std::string ApiError::to_json() const {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  Json error;
  error["message"] = message;
  error["type"] = type;
  error["param"] = or_null(param);
  error["code"] = or_null(code);
  return dump_json(Json{{"error", std::move(error)}});
}

ApiError api_error(const Status& status, std::string param) {
  ApiError error;
  error.param = std::move(param);
  error.message = status.message();
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      break;
    case StatusCode::kNotFound:
      error.http_status = 404;
      error.type = "not_found_error";
      break;
    case StatusCode::kOverloaded:
      error.http_status = 429;
      error.type = "rate_limit_error";
      error.code = "overloaded";
      break;
    case StatusCode::kCancelled:
      error.http_status = 499;
      error.type = "cancelled";
      break;
    case StatusCode::kNoSpace:
      error.http_status = 503;
      error.type = "server_error";
      error.code = "no_space";
      break;
    default:
      error.http_status = 500;
      error.type = "server_error";
      break;
  }
  return error;
}

}  // namespace cairn
