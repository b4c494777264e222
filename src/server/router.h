// From a request to an answer: routes, prep jobs, engine events. Knows no sockets.
//
// Thread: net. Bodies are parsed and tokenised on prep threads; the engine's observers hand events
// to a Generation; both come back through `post`.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "api/prepared_request.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "engine/engine.h"
#include "server/exchange.h"
#include "server/metrics.h"
#include "server/server.h"

namespace cairn {

class Router {
 public:
  // Runs something on the net thread, from any thread; drops it once the server is gone. The engine
  // may hold copies longer than the router lives.
  using Post = std::function<void(std::function<void()>)>;

  // All references outlive the router.
  Router(Engine& engine,
         const Clock& clock,
         ModelList models,
         const ServerOptions& options,
         Post post);
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;
  Router(Router&&) = delete;
  Router& operator=(Router&&) = delete;
  ~Router();  // joins the prep threads

  // Answers into `exchange`, now or later.
  void handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange);

  Metrics& metrics() { return metrics_; }

  void set_connection_count(size_t n) { n_connections_ = n; }

 private:
  using Job = std::function<void()>;

  using Prepare = PrepareResult (*)(std::string_view body,
                                    const ModelList& models,
                                    int64_t now_unix,
                                    std::string_view key_domain);

  PrepareResult prepare(const HttpRequest& request, Prepare how, int64_t now_unix) const;
  void handle_generation(HttpRequest request,
                         Dialect dialect,
                         const std::shared_ptr<Exchange>& exchange);
  void handle_explain(HttpRequest request, const std::shared_ptr<Exchange>& exchange);
  void handle_stats(const std::shared_ptr<Exchange>& exchange, bool as_metrics);
  void handle_flush(const std::shared_ptr<Exchange>& exchange);
  void handle_forget(HttpRequest request, const std::shared_ptr<Exchange>& exchange);
  // Runs `work` on a prep thread and its result's continuation on net; 503 when the queue is full.
  void run_on_prep(const std::shared_ptr<Exchange>& exchange, Job work);

  Engine& engine_;
  const Clock& clock_;
  const ModelList models_;
  const std::vector<std::string> api_keys_;
  const Post post_;
  Metrics metrics_;
  size_t n_connections_ = 0;
  std::atomic<bool> is_closing_ = false;  // jobs still queued are for nobody
  Mailbox<Job> prep_queue_;
  std::vector<std::jthread> prep_threads_;
};

// An OpenAI-shaped error as a response.
HttpResponse error_response(const ApiError& error);

}  // namespace cairn
