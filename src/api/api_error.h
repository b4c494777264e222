// Errors as clients see them. HTTP codes are chosen here alone.
#pragma once

#include <string>

#include "base/status.h"

namespace cairn {

// OpenAI's shape: {"error": {"message", "type", "param", "code"}}.
struct ApiError {
  int http_status = 400;
  std::string type = "invalid_request_error";
  std::string code;   // "" prints null
  std::string param;  // "" prints null
  std::string message;

  std::string to_json() const;
};

// 400 invalid argument / unsupported, 404 not found, 429 overloaded (with Retry-After), 499
// cancelled, 503 no space, 500 the rest.
ApiError api_error(const Status& status, std::string param = "");

}  // namespace cairn
