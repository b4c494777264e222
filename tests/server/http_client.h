// A blocking HTTP client for tests, plain enough to send wrong things on purpose.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace cairn {

struct HttpAnswer {
  int status = 0;  // 0: the connection ended first
  std::string version;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
};

// One connection. Waits of more than half a minute end as if the server had closed. Thread: one.
class HttpClient {
 public:
  static HttpClient tcp(uint16_t port);
  static HttpClient unix_socket(const std::string& path);

  bool is_connected() const { return fd_.is_open(); }

  // False when the server has closed.
  bool send(std::string_view bytes);
  // Request line and headers, with Content-Length when there is a body or the method is POST.
  bool request(std::string_view method,
               std::string_view path,
               std::string_view body = {},
               std::string_view extra_headers = {});

  // A whole answer; `is_head`: without a body whatever its headers say.
  HttpAnswer read_answer(bool is_head = false);
  // Status line and headers alone; a chunked body is then read piece by piece. Nullopt: its end.
  HttpAnswer read_head();
  std::optional<std::string> read_chunk();
  // True when the server has ended the connection and nothing more comes.
  bool is_at_end();

  HttpAnswer get(std::string_view path, std::string_view extra_headers = {});
  HttpAnswer post(std::string_view path, std::string_view body, std::string_view headers = {});

 private:
  explicit HttpClient(UniqueFd fd) : fd_(std::move(fd)) {}

  bool fill();
  std::string take_line();
  std::string take(size_t n);

  UniqueFd fd_;
  std::string buffer_;
};

}  // namespace cairn
