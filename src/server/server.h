// HTTP/1.1 and SSE over Boost.Beast: sockets, auth, limits, metrics. docs/threads.md says which
// thread does what: net (this io context), prep (parsing, templates, tokenising), engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/prepared_request.h"
#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"

namespace cairn {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;               // 0 = any free one
  std::string unix_path;              // also listens here when not empty
  std::vector<std::string> api_keys;  // empty = no key wanted
  uint32_t max_connections = 1024;    // more are answered 503 and closed
  uint64_t max_body_bytes = uint64_t{64} << 20;
  uint32_t n_prep_threads = 2;
  uint32_t max_prep_queue = 256;                      // more are answered 503
  size_t max_stream_backlog_bytes = size_t{4} << 20;  // a reader slower than this loses its request
  std::chrono::seconds idle_timeout{60};
  std::chrono::milliseconds heartbeat{10000};  // SSE comment while nothing else is sent
};

class Server {
 public:
  // `engine` must be started and outlive the server. Binds at once. Errors: kIo naming the address
  // ("port 8080 is in use: choose another with --port").
  static Result<std::unique_ptr<Server>> open(Engine& engine,
                                              const Clock& clock,
                                              ModelList models,
                                              const ServerOptions& options);

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  Server(Server&&) = delete;
  Server& operator=(Server&&) = delete;
  ~Server();

  uint16_t port() const;  // the one bound
  // Serves until request_stop(); run it on the net thread (main).
  void run();
  // From any thread: stops accepting, lets replies in flight end for `drain`, then
  // returns from run().
  void request_stop(std::chrono::milliseconds drain);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Lines of a key file: one key a line, blank lines and # comments skipped. Errors: kNotFound,
// kInvalidArgument for an empty file or a file that others can read.
Result<std::vector<std::string>> read_api_keys(const std::string& path);

}  // namespace cairn
