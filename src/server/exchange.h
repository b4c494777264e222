// One HTTP request being answered: where the other threads' results meet the connection.
//
// A connection makes an Exchange, hands it to the router and waits until it has output: a whole
// response, or the pieces of an event stream. Thread: net, all of it; other threads post to the io
// context.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

struct HttpRequest {
  std::string method;
  std::string path;           // without the query, percent escapes resolved
  std::string authorization;  // header values, empty when absent
  std::string api_key;        // x-api-key
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

class Exchange {
 public:
  // `max_backlog_bytes`: what a slow reader may leave unread before its stream is given up.
  explicit Exchange(size_t max_backlog_bytes) : max_backlog_bytes_(max_backlog_bytes) {}

  // --- the router's side
  // A whole response; ignored after the first or once a stream has begun.
  void respond(HttpResponse response);
  // The answer will be a stream: its headers go out at `deadline` though nothing is there to say
  // yet. Until then an error is still a plain response.
  void expect_stream(std::chrono::steady_clock::time_point deadline);
  void begin_stream();
  // One piece may be of any size; what a slow reader is given up for is what waits before it.
  void append(std::string bytes);
  void end_stream();

  // What to do when the client goes away or reads too slowly before the end.
  void set_on_abort(std::function<void()> on_abort) { on_abort_ = std::move(on_abort); }

  // --- the connection's side
  void set_on_output(std::function<void()> on_output) { on_output_ = std::move(on_output); }

  bool has_response() const { return response_.has_value(); }

  HttpResponse take_response() { return std::move(*response_); }

  std::optional<std::chrono::steady_clock::time_point> stream_deadline() const {
    return stream_deadline_;
  }

  bool is_streaming() const { return is_streaming_; }

  std::string take_pending() { return std::exchange(pending_, {}); }

  bool has_pending() const { return !pending_.empty(); }

  bool has_ended() const { return has_ended_; }

  bool has_overflowed() const { return has_overflowed_; }

  // The client is gone: nothing more will be read. Calls on_abort once, if the answer was not
  // complete.
  void abort();

 private:
  void wake();

  const size_t max_backlog_bytes_;
  std::optional<HttpResponse> response_;
  std::string pending_;
  std::optional<std::chrono::steady_clock::time_point> stream_deadline_;
  bool is_streaming_ = false;
  bool has_ended_ = false;
  bool has_overflowed_ = false;
  std::function<void()> on_output_;
  std::function<void()> on_abort_;
};

}  // namespace cairn
