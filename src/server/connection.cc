#include "server/connection.h"

#include <poll.h>

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
// A body may take longer than a header: this much for each of its bytes on top.
constexpr uint64_t kSlowestBodyBytesPerSecond = 128 * 1024;
// While unread bytes hide the end of a connection, it is looked for so often.
constexpr std::chrono::milliseconds kLeavingPoll{250};
// A refused request's bytes are read and dropped for so long, so that closing does not reset the
// connection before the client has read why.
constexpr std::chrono::milliseconds kLingerTime{1000};
constexpr size_t kLingerBytes = size_t{16} << 20;
constexpr size_t kLingerPieceBytes = 16384;
constexpr size_t kMaxRefusing = 64;

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

// Counts while it lives, however its scope is left.
class Counted {
 public:
  explicit Counted(size_t& counter) : counter_(counter) { ++counter_; }

  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  Counted(Counted&&) = delete;
  Counted& operator=(Counted&&) = delete;

  ~Counted() { --counter_; }

 private:
  size_t& counter_;
};

// g++ 12 destroys temporaries in the arguments of some co_awaits twice (seen as crashes of refuse()
// below), so what a coroutine is given is named first.
using Shared = std::shared_ptr<Connection>;

std::string field(const http::request<http::string_body>& request, std::string_view name) {
  const auto it = request.find(beast::string_view(name.data(), name.size()));
  return it == request.end() ? "" : std::string(it->value());
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Clients escape what they put into a path (model names hold ':' and '/'). Bad escapes stay as
// they are.
std::string without_escapes(std::string_view path) {
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    const int high = path[i] == '%' && i + 2 < path.size() ? hex_digit(path[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(path[i + 2]) : -1;
    out += low >= 0 ? static_cast<char>(high * 16 + low) : path[i];
    if (low >= 0) i += 2;
  }
  return out;
}

// All but the body.
HttpRequest head_of(const http::request<http::string_body>& message) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  std::string_view target(message.target().data(), message.target().size());
  // Proxies may write the whole URL (RFC 9112 section 3.2.2).
  if (const size_t scheme = target.find("://");
      scheme != std::string_view::npos && target[0] != '/') {
    const size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  request.path = without_escapes(target.substr(0, target.find('?')));
  request.authorization = field(message, "authorization");
  request.api_key = field(message, "x-api-key");
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

bool is_allowed(const HttpRequest& head, const ServerOptions& options) {
  return head.path == "/health" || is_authorized(head, options.api_keys);
}

HttpResponse wants_key() {
  ApiError error = simple_error(
      401, "authentication_error", "a valid API key is wanted: send Authorization: Bearer KEY");
  error.code = "invalid_api_key";
  return error_response(error);
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

// Ends our side and reads what still comes, for a bounded time, so that the last answer arrives.
asio::awaitable<void> linger(Shared connection) {
  beast::error_code error;
  connection->stream.socket().shutdown(asio::socket_base::shutdown_send, error);
  connection->stream.expires_after(kLingerTime);
  std::string dropped(kLingerPieceBytes, '\0');
  for (size_t n_dropped = 0; !error && n_dropped < kLingerBytes;) {
    const asio::mutable_buffer piece(dropped.data(), dropped.size());
    const size_t n = co_await connection->stream.async_read_some(
        piece, asio::redirect_error(use_awaitable, error));
    n_dropped += n;
  }
}

// An answer to something that was not wholly read; the connection is of no use after it.
asio::awaitable<void> refuse(Shared connection, HttpResponse answer, bool is_head) {
  const bool is_sent =
      co_await send(connection, std::move(answer), 11, /*keep_alive=*/false, is_head);
  if (is_sent) co_await linger(connection);
}

std::chrono::seconds body_time(const http::request_parser<http::string_body>& parser,
                               const ServerOptions& options) {
  const uint64_t n_bytes = parser.content_length().value_or(options.max_body_bytes);
  return options.idle_timeout + std::chrono::seconds(n_bytes / kSlowestBodyBytesPerSecond);
}

// Reads one request. Nullopt: the connection is to be closed (an answer was sent where one makes
// sense). Without a key no body is read: strangers get no memory.
asio::awaitable<std::optional<http::request<http::string_body>>> read_request(Shared connection) {
  const ServerOptions& options = connection->context->options;
  http::request_parser<http::string_body> parser;
  parser.body_limit(options.max_body_bytes);
  parser.header_limit(kMaxHeaderBytes);
  beast::error_code error;
  connection->stream.expires_after(options.idle_timeout);
  co_await http::async_read_header(
      connection->stream, connection->buffer, parser, asio::redirect_error(use_awaitable, error));
  if (!error && !parser.is_done() && !is_allowed(head_of(parser.get()), options)) {
    HttpResponse refusal = wants_key();
    const bool is_head = parser.get().method() == http::verb::head;
    co_await refuse(connection, std::move(refusal), is_head);
    co_return std::nullopt;
  }
  if (!error && !parser.is_done() &&
      beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    http::response<http::empty_body> go_on(http::status::continue_, 11);
    co_await http::async_write(
        connection->stream, go_on, asio::redirect_error(use_awaitable, error));
  }
  if (!error && !parser.is_done()) {
    connection->stream.expires_after(body_time(parser, options));
    co_await http::async_read(
        connection->stream, connection->buffer, parser, asio::redirect_error(use_awaitable, error));
  }
  if (!error) co_return parser.release();
  std::optional<HttpResponse> refusal = answer_for(error, options);
  if (refusal.has_value()) co_await refuse(connection, std::move(*refusal), /*is_head=*/false);
  co_return std::nullopt;
}

// Whether the peer has closed its side, seen behind bytes that nobody has read yet.
bool has_left(Connection& connection) {
  pollfd poll_state{connection.stream.socket().native_handle(), POLLRDHUP, 0};
  return ::poll(&poll_state, 1, 0) > 0 &&
         (poll_state.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

// Ends the exchange when the client closes its side while it is being answered. Bytes that arrive
// (the next pipelined request) stay in the socket.
asio::awaitable<void> watch_for_leaving(Shared connection, std::shared_ptr<Exchange> exchange) {
  beast::error_code error;
  asio::steady_timer pause(connection->context->io);
  while (!exchange->has_ended()) {
    co_await connection->stream.socket().async_wait(asio::socket_base::wait_read,
                                                    asio::redirect_error(use_awaitable, error));
    if (error || exchange->has_ended()) co_return;
    if (has_left(*connection)) {
      exchange->abort();
      connection->wakeup.cancel();
      co_return;
    }
    pause.expires_after(kLeavingPoll);
    co_await pause.async_wait(asio::redirect_error(use_awaitable, error));
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
  if (version == 11) header.chunked(true);
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
  const bool is_chunked = version == 11;  // else the end of the connection ends the stream
  keep_alive = keep_alive && is_chunked;
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
  connection->stream.expires_after(connection->context->options.idle_timeout);
  beast::error_code error;
  co_await asio::async_write(
      connection->stream, http::make_chunk_last(), asio::redirect_error(use_awaitable, error));
  co_return !error && keep_alive;
}

// Waits until the exchange has an answer or a stream to send, or until the client has left.
asio::awaitable<void> wait_for_answer(Shared connection, std::shared_ptr<Exchange> exchange) {
  const auto never = std::chrono::steady_clock::now() + std::chrono::hours(24 * 365);
  while (!exchange->has_ended() && !exchange->is_streaming()) {
    const auto deadline = exchange->stream_deadline().value_or(never);
    if (std::chrono::steady_clock::now() >= deadline) {
      exchange->begin_stream();
    } else {
      co_await wait_for_output(connection, exchange, deadline);
    }
  }
}

// Answers one request. False: close the connection.
asio::awaitable<bool> answer(Shared connection, http::request<http::string_body> message) {
  ConnectionContext& context = *connection->context;
  const unsigned version = message.version() == 10 ? 10 : 11;
  const bool keep_alive = message.keep_alive() && !context.is_draining;
  const bool is_head = message.method() == http::verb::head;
  HttpRequest request = head_of(message);
  request.body = std::move(message.body());
  if (!is_allowed(request, context.options))
    co_return co_await send(connection, wants_key(), version, keep_alive, is_head) && keep_alive;

  auto exchange = std::make_shared<Exchange>(context.options.max_stream_backlog_bytes);
  // The wake-up does not keep the connection alive: an exchange may outlive it on a prep thread.
  // It lives in the exchange, so the pointer is good. A reader who is given up has a write pending
  // that would wait for it.
  exchange->set_on_output([weak = std::weak_ptr<Connection>(connection), waiting = exchange.get()] {
    const auto alive = weak.lock();
    if (!alive) return;
    if (waiting->has_overflowed()) alive->stream.close();
    alive->wakeup.cancel();
  });
  context.under_way.insert(exchange);
  context.router.set_connection_count(context.n_open);
  context.router.handle(std::move(request), exchange);
  connection->stream.expires_never();
  asio::co_spawn(context.io, watch_for_leaving(connection, exchange), asio::detached);
  co_await wait_for_answer(connection, exchange);

  bool stays_open = false;
  if (exchange->is_streaming()) {
    stays_open = co_await send_stream(connection, exchange, version, keep_alive);
  } else if (exchange->has_response()) {
    stays_open =
        co_await send(connection, exchange->take_response(), version, keep_alive, is_head) &&
        keep_alive;
  }
  context.under_way.erase(exchange);
  exchange->set_on_output(nullptr);
  beast::error_code ignored;
  connection->stream.socket().cancel(ignored);  // the watcher ends with this exchange
  co_return stays_open;
}

}  // namespace

asio::awaitable<void> serve_connection(ClientSocket socket,
                                       std::shared_ptr<ConnectionContext> context) {
  auto connection = std::make_shared<Connection>(std::move(socket), context);
  const Counted open(context->n_open);
  for (;;) {
    auto message = co_await read_request(connection);
    if (!message) break;
    const Counted busy(context->n_busy);
    const bool stays_open = co_await answer(connection, std::move(*message));
    if (!stays_open || context->is_draining) break;
  }
  beast::error_code ignored;
  connection->stream.socket().shutdown(asio::socket_base::shutdown_send, ignored);
  connection->stream.close();  // a watcher may hold the connection a moment longer
}

asio::awaitable<void> refuse_connection(ClientSocket socket,
                                        std::shared_ptr<ConnectionContext> context) {
  if (context->n_refusing >= kMaxRefusing) co_return;
  const Counted refusing(context->n_refusing);
  ApiError error =
      simple_error(503, "server_error", "too many connections are open; try again in a second");
  error.code = "overloaded";
  HttpResponse refusal = error_response(error);
  const Shared connection = std::make_shared<Connection>(std::move(socket), context);
  co_await refuse(connection, std::move(refusal), /*is_head=*/false);
}

}  // namespace cairn
