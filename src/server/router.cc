#include "server/router.h"

#include <fmt/format.h>

#include <utility>

#include "api/explain.h"
#include "api/plain_routes.h"
#include "api/prepare_forget.h"
#include "base/json.h"
#include "base/log.h"
#include "server/auth.h"
#include "server/generation.h"
#include "server/stats_json.h"

namespace cairn {
namespace {

HttpResponse json_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

HttpResponse response_of(BodyOrError result) {
  if (auto* error = std::get_if<ApiError>(&result)) return error_response(*error);
  return json_response(std::move(std::get<std::string>(result)));
}

HttpResponse wrong_method(const std::string& method,
                          const std::string& path,
                          const std::string& allowed) {
  ApiError error;
  error.http_status = 405;
  error.message = fmt::format("{:.20} is not for {:.200}; use {}", method, path, allowed);
  HttpResponse response = error_response(error);
  response.headers.emplace_back("Allow", allowed);
  return response;
}

HttpResponse unknown_path(const std::string& path) {
  ApiError error;
  error.http_status = 404;
  error.type = "not_found_error";
  error.message = fmt::format(
      "there is nothing at {:.200}; known: /v1/chat/completions, /v1/completions, /v1/models, "
      "/v1/cache/stats, "
      "/v1/cache/flush, /v1/cache/explain, /v1/cache/forget, /tokenize, /detokenize, /health, "
      "/metrics",
      path);
  return error_response(error);
}

enum class Route {
  kChat,
  kCompletions,
  kModels,
  kModel,
  kHealth,
  kMetrics,
  kStats,
  kFlush,
  kExplain,
  kForget,
  kTokenize,
  kDetokenize,
  kUnknown
};

constexpr std::string_view kModelPrefix = "/v1/models/";

struct RouteEntry {
  std::string_view path;
  std::string_view method;
  Route route;
};

constexpr RouteEntry kRoutes[] = {
    {"/v1/chat/completions", "POST", Route::kChat},
    {"/v1/completions", "POST", Route::kCompletions},
    {"/v1/models", "GET", Route::kModels},
    {"/health", "GET", Route::kHealth},
    {"/metrics", "GET", Route::kMetrics},
    {"/v1/cache/stats", "GET", Route::kStats},
    {"/v1/cache/flush", "POST", Route::kFlush},
    {"/v1/cache/explain", "POST", Route::kExplain},
    {"/v1/cache/forget", "POST", Route::kForget},
    {"/tokenize", "POST", Route::kTokenize},
    {"/detokenize", "POST", Route::kDetokenize},
};

RouteEntry find_route(const std::string& path) {
  for (const RouteEntry& entry : kRoutes) {
    if (entry.path == path) return entry;
  }
  if (path.starts_with(kModelPrefix)) return {path, "GET", Route::kModel};
  return {path, "", Route::kUnknown};
}

}  // namespace

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error.http_status;
  response.body = error.to_json();
  if (error.http_status == 429 || error.http_status == 503)
    response.headers.emplace_back("Retry-After", "1");
  if (error.http_status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

Router::Router(
    Engine& engine, const Clock& clock, ModelList models, const ServerOptions& options, Post post)
    : engine_(engine),
      clock_(clock),
      models_(std::move(models)),
      api_keys_(options.api_keys),
      post_(std::move(post)),
      prep_queue_(options.max_prep_queue) {
  for (uint32_t i = 0; i < options.n_prep_threads; ++i) {
    prep_threads_.emplace_back([this] {
      while (auto job = prep_queue_.pop()) {
        if (!is_closing_) (*job)();
      }
    });
  }
}

Router::~Router() {
  is_closing_ = true;
  prep_queue_.close();
  prep_threads_.clear();
}

void Router::handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
  const RouteEntry entry = find_route(request.path);
  if (entry.route == Route::kUnknown) return exchange->respond(unknown_path(request.path));
  const bool is_head = request.method == "HEAD" && entry.method == "GET";
  if (request.method != entry.method && !is_head) {
    return exchange->respond(
        wrong_method(request.method, request.path, entry.method == "GET" ? "GET, HEAD" : "POST"));
  }
  switch (entry.route) {
    case Route::kChat:
      return handle_generation(std::move(request), Dialect::kChat, exchange);
    case Route::kCompletions:
      return handle_generation(std::move(request), Dialect::kCompletions, exchange);
    case Route::kModels:
      return exchange->respond(json_response(models_body(models_)));
    case Route::kModel:
      return exchange->respond(response_of(
          model_body(std::string_view(request.path).substr(kModelPrefix.size()), models_)));
    case Route::kHealth:
      return exchange->respond(json_response(R"({"status":"ok"})"));
    case Route::kMetrics:
      return handle_stats(exchange, /*as_metrics=*/true);
    case Route::kStats:
      return handle_stats(exchange, /*as_metrics=*/false);
    case Route::kFlush:
      return handle_flush(exchange);
    case Route::kExplain:
      return handle_explain(std::move(request), exchange);
    case Route::kForget:
      return handle_forget(std::move(request), exchange);
    case Route::kTokenize:
    case Route::kDetokenize: {
      const bool encode = entry.route == Route::kTokenize;
      return run_on_prep(exchange, [this, exchange, encode, body = std::move(request.body)] {
        BodyOrError result = encode ? tokenize_body(body, models_) : detokenize_body(body, models_);
        post_([exchange, result = std::move(result)]() mutable {
          exchange->respond(response_of(std::move(result)));
        });
      });
    }
    case Route::kUnknown:
      break;
  }
}

void Router::run_on_prep(const std::shared_ptr<Exchange>& exchange, Job work) {
  // Out of memory, or an exception that a layer below forgot to catch: one request's misfortune.
  Job guarded = [work = std::move(work), post = post_, exchange] {
    try {
      work();
    } catch (const std::exception& e) {
      log_error("a request could not be read: {}", e.what());
      post([exchange] {
        exchange->respond(error_response(
            api_error(Status::internal("the request could not be read; the log says why"))));
      });
    }
  };
  if (prep_queue_.push(std::move(guarded))) return;
  ApiError error;
  error.http_status = 503;
  error.type = "server_error";
  error.code = "overloaded";
  error.message = "too many requests are being read; try again in a second";
  exchange->respond(error_response(error));
}

// What the request asks for, in the client's own part of the cache.
PrepareResult Router::prepare(const HttpRequest& request, Prepare how, int64_t now_unix) const {
  PrepareResult result =
      how(request.body, models_, now_unix, cache_namespace(request, api_keys_, ""));
  if (auto* prepared = std::get_if<PreparedRequest>(&result)) {
    const std::string key_namespace = cache_namespace(request, api_keys_, prepared->cache_salt);
    for (GenerationRequest& choice : prepared->choices) choice.key_namespace = key_namespace;
  }
  return result;
}

void Router::handle_generation(HttpRequest request,
                               Dialect dialect,
                               const std::shared_ptr<Exchange>& exchange) {
  auto generation = std::make_shared<Generation>(engine_, metrics_, post_, exchange);
  const int64_t now = clock_.unix_seconds();
  const Prepare how = dialect == Dialect::kChat ? prepare_chat : prepare_completions;
  run_on_prep(exchange, [this, generation, how, now, request = std::move(request)] {
    PrepareResult result = prepare(request, how, now);
    post_([generation, result = std::make_shared<PrepareResult>(std::move(result))] {
      generation->start(std::move(*result));
    });
  });
}

void Router::handle_explain(HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
  const int64_t now = clock_.unix_seconds();
  run_on_prep(exchange, [this, exchange, now, request = std::move(request)] {
    const auto result = std::make_shared<PrepareResult>(prepare(request, prepare_explain, now));
    if (auto* error = std::get_if<ApiError>(result.get())) {
      return post_([exchange, error = *error] { exchange->respond(error_response(error)); });
    }
    const auto& prepared = std::get<PreparedRequest>(*result);
    const auto answer = [exchange, result](const Result<ReuseReport>& reuse) {
      if (!reuse.is_ok()) return exchange->respond(error_response(api_error(reuse.status())));
      exchange->respond(json_response(explain_body(std::get<PreparedRequest>(*result), *reuse)));
    };
    const GenerationRequest& first = prepared.choices.front();
    engine_.explain(first.model,
                    first.key_namespace,
                    first.prompt,
                    kExplainedIdsMax,
                    [post = post_, answer](const Result<ReuseReport>& reuse) {
                      post([answer, reuse] { answer(reuse); });
                    });
  });
}

void Router::handle_stats(const std::shared_ptr<Exchange>& exchange, bool as_metrics) {
  // The engine may answer after the router is gone, so what it calls holds `post` itself.
  engine_.stats([this, post = post_, exchange, as_metrics](EngineStats stats) {
    post([this, exchange, as_metrics, stats = std::move(stats)] {
      if (!as_metrics) return exchange->respond(json_response(dump_json(stats_json(stats))));
      HttpResponse response;
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = metrics_.render(stats, n_connections_);
      exchange->respond(std::move(response));
    });
  });
}

void Router::handle_forget(HttpRequest request, const std::shared_ptr<Exchange>& exchange) {
  const int64_t now = clock_.unix_seconds();
  run_on_prep(exchange, [this, exchange, now, request = std::move(request)] {
    ForgetResult result =
        prepare_forget(request.body, models_, now, cache_namespace(request, api_keys_, ""));
    if (auto* error = std::get_if<ApiError>(&result)) {
      return post_(
          [exchange, error = std::move(*error)] { exchange->respond(error_response(error)); });
    }
    auto& prepared = std::get<PreparedForget>(result);
    prepared.request.key_namespace = cache_namespace(request, api_keys_, prepared.cache_salt);
    const bool is_dry_run = prepared.request.scope.dry_run;
    engine_.forget(
        std::move(prepared.request), [post = post_, exchange, is_dry_run](ForgetReport report) {
          post([exchange, is_dry_run, report = std::move(report)] {
            HttpResponse response = json_response(dump_json(forget_json(report, is_dry_run)));
            if (!report.status.is_ok()) response.status = 503;
            exchange->respond(std::move(response));
          });
        });
  });
}

void Router::handle_flush(const std::shared_ptr<Exchange>& exchange) {
  engine_.flush([post = post_, exchange](FlushReport report) {
    post([exchange, report = std::move(report)] {
      HttpResponse response = json_response(dump_json(flush_json(report)));
      if (!report.status.is_ok()) response.status = 503;
      exchange->respond(std::move(response));
    });
  });
}

}  // namespace cairn
