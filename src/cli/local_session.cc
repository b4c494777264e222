#include "cli/local_session.h"

#include <utility>
#include <variant>

#include "base/log.h"
#include "base/mailbox.h"
#include "cli/model_paths.h"

namespace cairn::cli {
namespace {

constexpr std::chrono::seconds kFlushLimit{10};

struct Finished {
  FinishReason reason;
  RequestUsage usage;
};

using Event = std::variant<GeneratedToken, Finished, Status>;

// Hands what the engine says to the thread that waits in generate().
class MailboxObserver final : public RequestObserver {
 public:
  void on_started(const RequestUsage&) override {}

  void on_token(GeneratedToken token) override { events_.push_reply(std::move(token)); }

  void on_finished(FinishReason reason, const RequestUsage& usage) override {
    events_.push_reply(Finished{reason, usage});
  }

  void on_failed(const Status& status) override { events_.push_reply(status); }

  Event next() { return *events_.pop(); }  // never closed, so there is always one

 private:
  Mailbox<Event> events_{1};  // replies are never refused
};

}  // namespace

void LocalFlags::declare(Arguments& arguments, const std::string& default_store) {
  cache.store = default_store;
  arguments.required_text("--model", &model, kModelHelp);
  arguments.optional_integer(
      "--ctx", &ctx, 16, UINT32_MAX, "Context in tokens; default min(the model's, 32768)");
  compute.declare(arguments);
  cache.declare(arguments);
}

SamplingParams default_sampling(const GenerationConfig& config) {
  SamplingParams params;
  if (config.do_sample == false) params.temperature = 0;
  if (config.temperature && config.do_sample != false) params.temperature = *config.temperature;
  if (config.top_p && *config.top_p > 0) params.top_p = *config.top_p;
  if (config.min_p) params.min_p = *config.min_p;
  if (config.top_k && *config.top_k > 0) params.top_k = static_cast<uint32_t>(*config.top_k);
  if (config.repetition_penalty) params.repetition_penalty = *config.repetition_penalty;
  return params;
}

Status attach_store(Engine& engine, const CacheFlags& flags) {
  const auto directory = flags.store_directory();
  if (!directory) {
    log_info("cache in memory alone (--store none)");
    return Status::ok();
  }
  StoreOptions options;
  options.directory = *directory;
  CAIRN_ASSIGN_OR_RETURN(options.key, flags.store_key());
  const Status status = engine.attach_disk(posix_file_system(), options);
  if (status.is_ok()) {
    log_info("cache store: {}{}", *directory, options.key == nullptr ? "" : ", sealed");
  } else {
    log_warning("cache store {} cannot be used, going on with memory alone: {}",
                *directory,
                status.message());
  }
  return Status::ok();
}

Result<std::unique_ptr<LocalSession>> LocalSession::open(const LocalFlags& flags,
                                                         const char* template_file) {
  std::unique_ptr<LocalSession> session(new LocalSession());
  CAIRN_ASSIGN_OR_RETURN(const std::string path, resolve_model(flags.model));
  CAIRN_ASSIGN_OR_RETURN(session->backend_, flags.compute.make_backend());
  CAIRN_ASSIGN_OR_RETURN(
      LoadedModel loaded,
      load_model_and_text(path, template_file, *session->backend_, flags.compute));

  EngineModelOptions model_options;
  model_options.label = default_model_name(flags.model);
  CAIRN_ASSIGN_OR_RETURN(model_options.context_tokens,
                         context_for(loaded.model->spec(), flags.ctx));
  CAIRN_ASSIGN_OR_RETURN(model_options.kv, flags.compute.row_encoding());
  model_options.n_ids = loaded.n_ids;
  session->text_ = std::move(loaded.text);
  session->generation_config_ = std::move(loaded.generation);
  session->stop_ids_ = std::move(loaded.stop_ids);
  EngineOptions options;
  options.cache = flags.cache.cache_options();
  session->engine_ = std::make_unique<Engine>(*session->backend_, session->clock_, options);
  session->engine_->add_model(std::move(loaded.model), model_options);
  CAIRN_RETURN_IF_ERROR(attach_store(*session->engine_, flags.cache));
  session->engine_->start();
  return session;
}

LocalSession::~LocalSession() {
  if (engine_) engine_->stop();
}

void LocalSession::close() {
  const FlushReport report = engine_->drain_and_stop(std::chrono::milliseconds(0), kFlushLimit);
  if (!report.status.is_ok() && report.status.code() != StatusCode::kUnsupported) {
    log_warning("the cache was not wholly written: {}", report.status.message());
  }
}

Result<Generation> LocalSession::generate(
    GenerationRequest request, const std::function<bool(const GeneratedToken&)>& on_token) {
  auto observer = std::make_shared<MailboxObserver>();
  CAIRN_ASSIGN_OR_RETURN(const uint64_t id, engine_->submit(std::move(request), observer));
  Generation generation;
  bool wanted = true;
  for (;;) {
    Event event = observer->next();
    if (auto* token = std::get_if<GeneratedToken>(&event)) {
      if (!wanted) continue;  // tokens that were under way when the reply was ended
      wanted = on_token(*token);
      generation.tokens.push_back(std::move(*token));
      if (!wanted) engine_->cancel(id);
    } else if (auto* finished = std::get_if<Finished>(&event)) {
      generation.finish = wanted ? finished->reason : FinishReason::kStop;
      generation.usage = finished->usage;
      return generation;
    } else {
      return std::get<Status>(event);
    }
  }
}

}  // namespace cairn::cli
