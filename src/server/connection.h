// One client connection: reads requests one after another, writes answers. The only file beside
// server.cc that knows Boost.Beast.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <set>

#include "server/router.h"
#include "server/server.h"

namespace cairn {

// What all connections share. Thread: net.
struct ConnectionContext {
  boost::asio::io_context& io;
  Router& router;
  const ServerOptions& options;
  bool is_draining = false;  // answer what has begun, then close
  size_t n_open = 0;
  size_t n_busy = 0;                                // connections with an answer under way
  std::set<std::shared_ptr<Exchange>> under_way{};  // to give up when a drain has taken too long
  size_t n_refusing = 0;  // connections over the limit that are being told so
};

using ClientSocket = boost::asio::generic::stream_protocol::socket;

// Runs until the connection is closed. `context` outlives it. Parameters by value: they live in the
// coroutine's frame.
boost::asio::awaitable<void> serve_connection(ClientSocket socket,
                                              std::shared_ptr<ConnectionContext> context);

// Answers 503 and closes; for connections over the limit. Many of them at once are closed unheard.
boost::asio::awaitable<void> refuse_connection(ClientSocket socket,
                                               std::shared_ptr<ConnectionContext> context);

}  // namespace cairn
