#include "server/server.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "server/connection.h"

namespace cairn {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using unix_stream = asio::local::stream_protocol;

// Out of descriptors: connections end meanwhile.
constexpr std::chrono::milliseconds kAcceptRetry{100};

// The door to the net thread for all others. Requests may still run in the engine when the server
// goes, and their observers keep their copy of this.
class PostGate {
 public:
  explicit PostGate(asio::io_context& io) : io_(&io) {}

  void post(std::function<void()> work) {
    MutexLock lock(mutex_);
    if (io_ != nullptr) asio::post(*io_, std::move(work));
  }

  void close() {
    MutexLock lock(mutex_);
    io_ = nullptr;
  }

 private:
  Mutex mutex_;
  asio::io_context* io_ CAIRN_GUARDED_BY(mutex_);
};

template <typename Acceptor>
asio::awaitable<void> accept_loop(std::shared_ptr<Acceptor> acceptor,
                                  std::shared_ptr<ConnectionContext> context) {
  while (acceptor->is_open()) {
    boost::system::error_code error;
    auto socket = co_await acceptor->async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted || !acceptor->is_open()) co_return;
    if (error) {
      asio::steady_timer pause(context->io, kAcceptRetry);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    if constexpr (std::is_same_v<Acceptor, tcp::acceptor>) {
      socket.set_option(tcp::no_delay(true), error);  // a token is a packet
    }
    const bool is_full = context->n_open >= context->options.max_connections;
    asio::co_spawn(context->io,
                   is_full ? refuse_connection(ClientSocket(std::move(socket)), context)
                           : serve_connection(ClientSocket(std::move(socket)), context),
                   asio::detached);
  }
}

}  // namespace

struct Server::Impl {
  Impl(Engine& engine, const Clock& clock, ModelList models, const ServerOptions& server_options)
      : options(server_options),
        io(1),
        gate(std::make_shared<PostGate>(io)),
        router(engine,
               clock,
               std::move(models),
               options,
               [door = gate](std::function<void()> work) { door->post(std::move(work)); }),
        context(std::make_shared<ConnectionContext>(ConnectionContext{io, router, options})) {}

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  Impl(Impl&&) = delete;
  Impl& operator=(Impl&&) = delete;

  ~Impl() { gate->close(); }

  Status bind_tcp() {
    boost::system::error_code error;
    const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
    const asio::ip::address address = asio::ip::make_address(host, error);
    if (error) {
      return Status::invalid_argument(fmt::format(
          "--host \"{}\" is not an IP address; use 127.0.0.1, ::1 or 0.0.0.0", options.host));
    }
    const tcp::endpoint endpoint(address, options.port);
    tcp_acceptor = std::make_shared<tcp::acceptor>(io);
    tcp_acceptor->open(endpoint.protocol(), error);
    if (!error) tcp_acceptor->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) tcp_acceptor->bind(endpoint, error);
    if (!error) tcp_acceptor->listen(asio::socket_base::max_listen_connections, error);
    if (error == asio::error::address_in_use) {
      return Status::io(fmt::format(
          "port {} of {} is in use; choose another with --port", options.port, options.host));
    }
    if (error)
      return Status::io(
          fmt::format("cannot listen on {}:{}: {}", options.host, options.port, error.message()));
    port = tcp_acceptor->local_endpoint(error).port();
    return Status::ok();
  }

  // A socket file left by a server that is gone is replaced; a live one, or another kind of file,
  // is not.
  Status bind_unix() {
    if (options.unix_path.empty()) return Status::ok();
    constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;
    if (options.unix_path.size() > kMaxPathBytes) {
      return Status::invalid_argument(fmt::format("--unix {} has {} bytes, at most {} are possible",
                                                  options.unix_path,
                                                  options.unix_path.size(),
                                                  kMaxPathBytes));
    }

    struct stat info {};

    if (lstat(options.unix_path.c_str(), &info) == 0) {
      if (!S_ISSOCK(info.st_mode)) {
        return Status::invalid_argument(
            fmt::format("--unix {} exists and is not a socket", options.unix_path));
      }
      boost::system::error_code probe_error;
      unix_stream::socket probe(io);
      probe.connect(unix_stream::endpoint(options.unix_path), probe_error);
      if (!probe_error)
        return Status::io(fmt::format("--unix {} is in use by another server", options.unix_path));
      unlink(options.unix_path.c_str());
    }
    boost::system::error_code error;
    unix_acceptor = std::make_shared<unix_stream::acceptor>(io);
    unix_acceptor->open(unix_stream(), error);
    if (!error) unix_acceptor->bind(unix_stream::endpoint(options.unix_path), error);
    // Private before anybody can connect.
    if (!error && chmod(options.unix_path.c_str(), S_IRUSR | S_IWUSR) != 0)
      error.assign(errno, boost::system::system_category());
    if (!error) unix_acceptor->listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      unix_acceptor.reset();  // not ours to unlink
      return Status::io(
          fmt::format("cannot listen on --unix {}: {}", options.unix_path, error.message()));
    }
    return Status::ok();
  }

  // Replies in flight may end until `drain` has passed; then they are given up, which cancels their
  // requests, and the context is stopped under them.
  void begin_drain(std::chrono::milliseconds drain) {
    if (context->is_draining) return;
    context->is_draining = true;
    boost::system::error_code ignored;
    tcp_acceptor->close(ignored);
    if (unix_acceptor) unix_acceptor->close(ignored);
    const auto deadline = std::chrono::steady_clock::now() + drain;
    asio::co_spawn(io, wait_until_idle(deadline), asio::detached);
  }

  asio::awaitable<void> wait_until_idle(std::chrono::steady_clock::time_point deadline) {
    asio::steady_timer timer(io);
    while (context->n_busy > 0 && std::chrono::steady_clock::now() < deadline) {
      timer.expires_after(std::chrono::milliseconds(20));
      boost::system::error_code ignored;
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    if (context->n_busy > 0)
      log_warning("{} replies had not ended in time and were cut off", context->n_busy);
    for (const auto& exchange : context->under_way) exchange->abort();
    io.stop();
  }

  const ServerOptions options;
  asio::io_context io;
  std::shared_ptr<PostGate> gate;
  Router router;
  std::shared_ptr<ConnectionContext> context;
  std::shared_ptr<tcp::acceptor> tcp_acceptor;
  std::shared_ptr<unix_stream::acceptor> unix_acceptor;
  uint16_t port = 0;  // the one bound
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  if (!impl_->options.unix_path.empty() && impl_->unix_acceptor)
    unlink(impl_->options.unix_path.c_str());
}

Result<std::unique_ptr<Server>> Server::open(Engine& engine,
                                             const Clock& clock,
                                             ModelList models,
                                             const ServerOptions& options) {
  auto impl = std::make_unique<Impl>(engine, clock, std::move(models), options);
  CAIRN_RETURN_IF_ERROR(impl->bind_tcp());
  CAIRN_RETURN_IF_ERROR(impl->bind_unix());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

uint16_t Server::port() const {
  return impl_->port;
}

void Server::run() {
  asio::co_spawn(impl_->io, accept_loop(impl_->tcp_acceptor, impl_->context), asio::detached);
  if (impl_->unix_acceptor)
    asio::co_spawn(impl_->io, accept_loop(impl_->unix_acceptor, impl_->context), asio::detached);
  impl_->io.run();
}

void Server::request_stop(std::chrono::milliseconds drain) {
  asio::post(impl_->io, [impl = impl_.get(), drain] { impl->begin_drain(drain); });
}

}  // namespace cairn
