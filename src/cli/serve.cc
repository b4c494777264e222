// `cairn serve`: models to HTTP clients, with a cache that survives restarts.
#include <fmt/format.h>

#include <cstdio>

#include "api/anchored_prompt.h"
#include "base/log.h"
#include "base/options.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/local_session.h"
#include "cli/model_paths.h"
#include "cli/model_text.h"
#include "cli/signal_watcher.h"
#include "server/server.h"

namespace cairn::cli {
namespace {

constexpr std::chrono::seconds kDrainLimit{10};
constexpr std::chrono::seconds kFlushLimit{10};

struct ServeFlags {
  std::vector<std::string> models;  // PATH or NAME=PATH
  std::string host = "127.0.0.1", unix_path, api_key_file, template_file, log_level = "info",
              anchors = "on";
  uint64_t port = 8080, batch = 8;
  std::optional<uint64_t> ctx;
  ComputeFlags compute;
  CacheFlags cache;
};

struct NamedModel {
  std::string name;
  std::string path;
};

// NAME=PATH, where NAME has no slash; else a path that names itself.
NamedModel split_model(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos && equals > 0 && text.find('/') > equals) {
    return {text.substr(0, equals), text.substr(equals + 1)};
  }
  return {default_model_name(text), text};
}

Result<std::shared_ptr<const ServedModel>> add_model(Engine& engine,
                                                     Backend& backend,
                                                     const NamedModel& named,
                                                     const ServeFlags& flags) {
  CAIRN_ASSIGN_OR_RETURN(const std::string dir, resolve_model(named.path));
  CAIRN_ASSIGN_OR_RETURN(
      LoadedModel loaded,
      load_model_and_text(dir, flags.template_file.c_str(), backend, flags.compute));
  const ModelSpec& spec = loaded.model->spec();
  if (!loaded.text.chat)
    log_warning("model {} has no chat template: /v1/completions works, chat does not", named.name);

  EngineModelOptions options;
  options.label = named.name;
  CAIRN_ASSIGN_OR_RETURN(options.context_tokens, context_for(spec, flags.ctx));
  CAIRN_ASSIGN_OR_RETURN(options.kv, flags.compute.row_encoding());
  options.n_ids = loaded.n_ids;

  auto served = std::make_shared<ServedModel>();
  served->name = named.name;
  served->tokenizer = loaded.text.tokenizer;
  served->chat = loaded.text.chat;
  served->vocab_size = options.n_ids;
  served->context_tokens = options.context_tokens;
  served->stop_ids = loaded.stop_ids;
  served->defaults = default_sampling(loaded.generation);
  served->created_unix = SystemClock().unix_seconds();
  log_info("model {}: {} layers, {} MiB of weights, context {}, kernels {}",
           named.name,
           spec.layers.size(),
           loaded.model->weight_bytes() >> 20,
           options.context_tokens,
           backend.numerics_version());
  served->engine_index = engine.add_model(std::move(loaded.model), options);
  if (flags.anchors == "on" && served->chat) {
    served->anchors = engine.anchors();
    served->anchor_scope =
        anchor_scope(engine.cache_root(served->engine_index), *served->tokenizer);
    served->end_of_turn = end_of_turn(*served->chat, *served->tokenizer);
  }
  return std::shared_ptr<const ServedModel>(std::move(served));
}

Result<ModelList> add_models(Engine& engine, Backend& backend, const ServeFlags& flags) {
  ModelList models;
  for (const std::string& text : flags.models) {
    const NamedModel named = split_model(text);
    for (const auto& other : models) {
      if (other->name == named.name) {
        return Status::invalid_argument(
            fmt::format("two models are named \"{}\"; give one another name with --model NAME=PATH",
                        named.name));
      }
    }
    CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> served,
                           add_model(engine, backend, named, flags));
    models.push_back(std::move(served));
  }
  return models;
}

void set_level(const std::string& level) {
  set_log_level(level == "debug"     ? LogLevel::kDebug
                : level == "warning" ? LogLevel::kWarning
                : level == "error"   ? LogLevel::kError
                                     : LogLevel::kInfo);
}

Status run(const ServeFlags& flags) {
  set_level(flags.log_level);
  SignalWatcher signals;
  ServerOptions server_options;
  server_options.host = flags.host;
  server_options.port = static_cast<uint16_t>(flags.port);
  server_options.unix_path = flags.unix_path;
  if (!flags.api_key_file.empty()) {
    CAIRN_ASSIGN_OR_RETURN(server_options.api_keys, read_api_keys(flags.api_key_file));
  }

  const SystemClock clock;
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, flags.compute.make_backend());
  EngineOptions options;
  options.max_batch = static_cast<uint32_t>(flags.batch);
  options.cache = flags.cache.cache_options();
  Engine engine(*backend, clock, options);
  CAIRN_ASSIGN_OR_RETURN(ModelList models, add_models(engine, *backend, flags));
  CAIRN_RETURN_IF_ERROR(attach_store(engine, flags.cache));
  engine.start();

  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                         Server::open(engine, clock, std::move(models), server_options));
  log_info("listening on http://{}:{}{}",
           flags.host,
           server->port(),
           flags.unix_path.empty() ? "" : " and unix:" + flags.unix_path);
  signals.watch([&server] { server->request_stop(kDrainLimit); });
  server->run();

  const FlushReport report = engine.drain_and_stop(std::chrono::milliseconds(0), kFlushLimit);
  if (report.status.is_ok()) {
    log_info("stopped; {} objects, {} written before the end",
             report.n_objects,
             format_size(report.n_bytes));
  } else {
    log_warning("stopped; the cache was not wholly written: {}", report.status.message());
  }
  return Status::ok();
}

}  // namespace

int run_serve(int argc, const char* const* argv) {
  ServeFlags flags;
  Arguments arguments(
      "serve", "Serve models to OpenAI clients, with a prompt cache that survives restarts.");
  arguments.texts("--model",
                  &flags.models,
                  std::string(kModelHelp) + ", or NAME= before one of these; may be repeated");
  arguments.text("--host", &flags.host, "Address to listen on");
  arguments.integer("--port", &flags.port, 0, 65535, "Port to listen on; 0 = any free one");
  arguments.text("--unix", &flags.unix_path, "Also listen on this Unix socket");
  arguments.optional_integer(
      "--ctx", &flags.ctx, 16, UINT32_MAX, "Context in tokens; default min(the model's, 32768)");
  arguments.integer("--batch", &flags.batch, 1, 256, "Requests that generate at once; more wait");
  arguments.text("--api-key-file",
                 &flags.api_key_file,
                 "File with accepted keys, one a line; default: no key wanted");
  arguments.text(
      "--template", &flags.template_file, "Chat template file in place of the models' own");
  arguments.choice(
      "--anchors",
      &flags.anchors,
      {"on", "off"},
      "Whether a conversation that comes back as text keeps the tokens it was made of");
  arguments.choice(
      "--log-level", &flags.log_level, {"debug", "info", "warning", "error"}, "What to log");
  flags.compute.declare(arguments);
  flags.cache.declare(arguments);
  if (const auto status = arguments.parse(argc, argv)) return *status;
  if (flags.models.empty()) {
    std::fprintf(stderr, "cairn serve: --model is required: give a model folder, or \"demo\"\n");
    return kExitUsage;
  }
  const Status status = run(flags);
  return status.is_ok() ? kExitOk : report_failure(status);
}

}  // namespace cairn::cli
