#include "server/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "server/auth.h"

namespace cairn {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::use_awaitable;
using Stream = beast::basic_stream<asio::generic::stream_protocol>;
using Response = http::response<http::string_body>;

constexpr uint32_t kMaxHeaderBytes = 64 * 1024;

// What the coroutines of one connection share: the one that answers and the one that watches for
// the client's leaving.
struct Connection {
  Connection(ClientSocket socket, std::shared_ptr<ConnectionContext> shared)
      : context(std::move(shared)), stream(std::move(socket)), wakeup(context->io) {}

  std::shared_ptr<ConnectionContext> context;
  Stream stream;
  asio::steady_timer wakeup;
  beast::flat_buffer buffer;
};

using Shared = std::shared_ptr<Connection>;

std::string field(const http::request<http::string_body>& request, std::string_view name) {
  const auto it = request.find(beast::string_view(name.data(), name.size()));
  return it == request.end() ? "" : std::string(it->value());
}

HttpRequest to_request(http::request<http::string_body> message) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  request.path = target.substr(0, target.find('?'));
  request.authorization = field(message, "authorization");
  request.api_key = field(message, "x-api-key");
  request.body = std::move(message.body());
  return request;
}

Response make_response(HttpResponse answer, unsigned version, bool keep_alive) {
  Response response(static_cast<http::status>(static_cast<unsigned>(answer.status)), version);
  response.set(http::field::server, "cairn");
  response.set(http::field::content_type, answer.content_type);
  for (const auto& [name, value] : answer.headers) response.set(name, value);
  response.keep_alive(keep_alive);
  response.body() = std::move(answer.body);
  response.prepare_payload();
  return response;
}

ApiError simple_error(int status, std::string type, std::string message) {
  ApiError error;
  error.http_status = status;
  error.type = std::move(type);
  error.message = std::move(message);
  return error;
}

// What to say when a request cannot even be read; nullopt: say nothing and close.
std::optional<HttpResponse> answer_for(beast::error_code error, const ServerOptions& options) {
  if (error == http::error::body_limit) {
    return error_response(simple_error(
        413,
        "invalid_request_error",
        "the body is larger than " + std::to_string(options.max_body_bytes) + " bytes"));
  }
  if (error == http::error::header_limit) {
    return error_response(
        simple_error(431,
                     "invalid_request_error",
                     "the headers are larger than " + std::to_string(kMaxHeaderBytes) + " bytes"));
  }
  if (error == http::error::end_of_stream || error == beast::error::timeout) return std::nullopt;
  if (error.category() == http::make_error_code(http::error::bad_method).category()) {
    return error_response(
        simple_error(400, "invalid_request_error", "not an HTTP/1.1 request: " + error.message()));
  }
  return std::nullopt;
}

asio::awaitable<bool> send(
    Shared connection, HttpResponse answer, unsigned version, bool keep_alive, bool is_head) {
  connection->context->router.metrics().count_response(answer.status);
  Response response = make_response(std::move(answer), version, keep_alive);
  beast::error_code error;
  connection->stream.expires_after(connection->context->options.idle_timeout);
  if (is_head) {
    http::response_serializer<http::string_body> serializer(response);
    co_await http::async_write_header(
        connection->stream, serializer, asio::redirect_error(use_awaitable, error));
  } else {
    co_await http::async_write(
        connection->stream, response, asio::redirect_error(use_awaitable, error));
  }
  co_return !error;
}

// Reads one request. Nullopt: the connection is to be closed (an answer was sent where one makes
// sense).
asio::awaitable<std::optional<http::request<http::string_body>>> read_request(Shared connection) {
  const ServerOptions& options = connection->context->options;
  http::request_parser<http::string_body> parser;
  parser.body_limit(options.max_body_bytes);
  parser.header_limit(kMaxHeaderBytes);
  beast::error_code error;
  connection->stream.expires_after(options.idle_timeout);
  co_await http::async_read_header(
      connection->stream, connection->buffer, parser, asio::redirect_error(use_awaitable, error));
  if (!error && beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    http::response<http::empty_body> go_on(http::status::continue_, 11);
    co_await http::async_write(
        connection->stream, go_on, asio::redirect_error(use_awaitable, error));
  }
  if (!error)
    co_await http::async_read(
        connection->stream, connection->buffer, parser, asio::redirect_error(use_awaitable, error));
  if (!error) co_return parser.release();
  if (auto answer = answer_for(error, options)) {
    co_await send(connection, std::move(*answer), 11, /*keep_alive=*/false, /*is_head=*/false);
  }
  co_return std::nullopt;
}

// Ends the exchange when the client closes its side while it is being answered. Bytes that arrive
// (the next pipelined request) stay in the socket; watching ends then.
asio::awaitable<void> watch_for_leaving(Shared connection, std::shared_ptr<Exchange> exchange) {
  beast::error_code error;
  co_await connection->stream.socket().async_wait(asio::socket_base::wait_read,
                                                  asio::redirect_error(use_awaitable, error));
  if (error || exchange->has_ended()) co_return;
  char byte = 0;
  const ssize_t n =
      ::recv(connection->stream.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) {
    exchange->abort();
    connection->wakeup.cancel();
  }
}

// Waits until the exchange has something to write, or until `deadline`.
asio::awaitable<void> wait_for_output(Shared connection,
                                      std::shared_ptr<Exchange> exchange,
                                      std::chrono::steady_clock::time_point deadline) {
  if (exchange->has_ended() || exchange->has_pending()) co_return;
  beast::error_code error;
  connection->wakeup.expires_at(deadline);
  co_await connection->wakeup.async_wait(asio::redirect_error(use_awaitable, error));
}

asio::awaitable<bool> write_stream_header(Shared connection, unsigned version, bool keep_alive) {
  http::response<http::empty_body> header(http::status::ok, version);
  header.set(http::field::server, "cairn");
  header.set(http::field::content_type, "text/event-stream; charset=utf-8");
  header.set(http::field::cache_control, "no-cache");
  header.set("X-Accel-Buffering", "no");
  header.keep_alive(keep_alive);
  header.chunked(version == 11);
  http::response_serializer<http::empty_body> serializer(header);
  beast::error_code error;
  connection->stream.expires_after(connection->context->options.idle_timeout);
  co_await http::async_write_header(
      connection->stream, serializer, asio::redirect_error(use_awaitable, error));
  co_return !error;
}

asio::awaitable<bool> write_piece(Shared connection, std::string piece, bool is_chunked) {
  beast::error_code error;
  connection->stream.expires_after(connection->context->options.idle_timeout);
  const asio::const_buffer bytes(piece.data(), piece.size());
  if (is_chunked) {
    co_await asio::async_write(
        connection->stream, http::make_chunk(bytes), asio::redirect_error(use_awaitable, error));
  } else {
    co_await asio::async_write(
        connection->stream, bytes, asio::redirect_error(use_awaitable, error));
  }
  co_return !error;
}

// Writes the events of a stream as they come. False: the connection is to be closed.
asio::awaitable<bool> send_stream(Shared connection,
                                  std::shared_ptr<Exchange> exchange,
                                  unsigned version,
                                  bool keep_alive) {
  const bool is_chunked = version == 11;
  connection->context->router.metrics().count_response(200);
  if (!co_await write_stream_header(connection, version, keep_alive)) {
    exchange->abort();
    co_return false;
  }
  for (;;) {
    co_await wait_for_output(
        connection,
        exchange,
        std::chrono::steady_clock::now() + connection->context->options.heartbeat);
    if (exchange->has_overflowed()) co_return false;
    std::string piece = exchange->take_pending();
    if (piece.empty() && exchange->has_ended()) break;
    if (piece.empty()) piece = ": still here\n\n";
    if (!co_await write_piece(connection, std::move(piece), is_chunked)) {
      exchange->abort();
      co_return false;
    }
  }
  if (!is_chunked) co_return false;
  beast::error_code error;
  co_await asio::async_write(
      connection->stream, http::make_chunk_last(), asio::redirect_error(use_awaitable, error));
  co_return !error && keep_alive;
}

// Answers one request. False: close the connection.
asio::awaitable<bool> answer(Shared connection, http::request<http::string_body> message) {
  ConnectionContext& context = *connection->context;
  const unsigned version = message.version() == 10 ? 10 : 11;
  const bool keep_alive = message.keep_alive() && !context.is_draining;
  const bool is_head = message.method() == http::verb::head;
  HttpRequest request = to_request(std::move(message));
  if (request.path != "/health" && !is_authorized(request, context.options.api_keys)) {
    ApiError error = simple_error(
        401, "authentication_error", "a valid API key is wanted: send Authorization: Bearer KEY");
    error.code = "invalid_api_key";
    co_return co_await send(connection, error_response(error), version, keep_alive, is_head) &&
        keep_alive;
  }

  auto exchange = std::make_shared<Exchange>(context.options.max_stream_backlog_bytes);
  // The wake-up does not keep the connection alive: an exchange may outlive it on a prep thread.
  exchange->set_on_output([weak = std::weak_ptr<Connection>(connection)] {
    if (const auto alive = weak.lock()) alive->wakeup.cancel();
  });
  context.router.set_connection_count(context.n_open);
  context.router.handle(std::move(request), exchange);
  connection->stream.expires_never();
  asio::co_spawn(context.io, watch_for_leaving(connection, exchange), asio::detached);
  const auto far = std::chrono::steady_clock::now() + std::chrono::hours(24 * 365);
  while (!exchange->has_ended() && !exchange->is_streaming())
    co_await wait_for_output(connection, exchange, far);

  bool stays_open = false;
  if (exchange->is_streaming()) {
    stays_open = co_await send_stream(connection, exchange, version, keep_alive);
  } else if (exchange->has_response()) {
    stays_open =
        co_await send(connection, exchange->take_response(), version, keep_alive, is_head) &&
        keep_alive;
  }
  beast::error_code ignored;
  connection->stream.socket().cancel(ignored);  // the watcher ends with this exchange
  co_return stays_open;
}

}  // namespace

asio::awaitable<void> serve_connection(ClientSocket socket,
                                       std::shared_ptr<ConnectionContext> context) {
  auto connection = std::make_shared<Connection>(std::move(socket), context);
  ++context->n_open;
  for (;;) {
    auto message = co_await read_request(connection);
    if (!message) break;
    ++context->n_busy;
    const bool stays_open = co_await answer(connection, std::move(*message));
    --context->n_busy;
    if (!stays_open || context->is_draining) break;
  }
  --context->n_open;
  beast::error_code ignored;
  connection->stream.socket().shutdown(asio::socket_base::shutdown_send, ignored);
}

asio::awaitable<void> refuse_connection(ClientSocket socket,
                                        std::shared_ptr<ConnectionContext> context) {
  auto connection = std::make_shared<Connection>(std::move(socket), context);
  ApiError error =
      simple_error(503, "server_error", "too many connections are open; try again in a second");
  error.code = "overloaded";
  co_await send(connection, error_response(error), 11, /*keep_alive=*/false, /*is_head=*/false);
}

}  // namespace cairn
