#include "server/generation.h"

#include <utility>

namespace cairn {
namespace {

// DESIGN.md section 6: a stream's headers are not held back longer, though the request may wait.
constexpr std::chrono::milliseconds kStreamHeaderDelay{200};

// One choice's ear at the engine.
class ChoiceObserver final : public RequestObserver {
 public:
  ChoiceObserver(std::shared_ptr<Generation> generation, size_t choice)
      : generation_(std::move(generation)), choice_(choice) {}

  void on_started(const RequestUsage& usage) override {
    generation_->push({choice_, Generation::Started{usage}});
  }

  void on_prompt_logprobs(std::vector<GeneratedToken> tokens) override {
    generation_->push({choice_, Generation::PromptLogprobs{std::move(tokens)}});
  }

  void on_token(GeneratedToken token) override { generation_->push({choice_, std::move(token)}); }

  void on_finished(FinishReason reason, const RequestUsage& usage) override {
    generation_->push({choice_, Generation::Finished{reason, usage}});
  }

  void on_failed(const Status& status) override { generation_->push({choice_, status}); }

 private:
  const std::shared_ptr<Generation> generation_;
  const size_t choice_;
};

}  // namespace

Generation::Generation(Engine& engine,
                       Metrics& metrics,
                       Router::Post post,
                       std::shared_ptr<Exchange> exchange)
    : engine_(engine), metrics_(metrics), post_(std::move(post)), exchange_(std::move(exchange)) {}

void Generation::start(PrepareResult prepared) {
  if (exchange_->has_ended()) return;  // the client left while its body was read
  if (const auto* error = std::get_if<ApiError>(&prepared))
    return exchange_->respond(error_response(*error));
  auto& request = std::get<PreparedRequest>(prepared);
  reply_ = std::make_unique<Reply>(request);
  model_ = request.model->engine_index;
  key_namespace_ = request.choices.front().key_namespace;
  is_memory_only_ = request.choices.front().memory_only;
  is_streaming_ = request.stream;
  exchange_->set_on_abort([self = weak_from_this()] {
    if (const auto generation = self.lock()) {
      generation->is_aborted_ = true;
      generation->cancel_all();
    }
  });
  for (size_t i = 0; i < request.choices.size(); ++i) {
    const auto id = engine_.submit(std::move(request.choices[i]),
                                   std::make_shared<ChoiceObserver>(shared_from_this(), i));
    if (!id.is_ok()) return fail(id.status());
    request_ids_.push_back(*id);
  }
  if (is_streaming_)
    exchange_->expect_stream(std::chrono::steady_clock::now() + kStreamHeaderDelay);
}

void Generation::push(Event event) {
  bool is_first = false;
  {
    MutexLock lock(mutex_);
    is_first = events_.empty();
    events_.push_back(std::move(event));
  }
  if (is_first) post_([self = shared_from_this()] { self->drain(); });
}

void Generation::drain() {
  std::vector<Event> events;
  {
    MutexLock lock(mutex_);
    events.swap(events_);
  }
  for (Event& event : events) handle(std::move(event));
}

void Generation::handle(Event event) {
  if (is_over_ || is_aborted_) return;
  if (const auto* status = std::get_if<Status>(&event.what)) return fail(*status);
  if (is_streaming_) exchange_->begin_stream();
  std::string out;
  if (const auto* started = std::get_if<Started>(&event.what)) {
    out = reply_->on_started(event.choice, started->usage);
  } else if (auto* logprobs = std::get_if<PromptLogprobs>(&event.what)) {
    out = reply_->on_prompt_logprobs(event.choice, std::move(logprobs->tokens));
  } else if (const auto* token = std::get_if<GeneratedToken>(&event.what)) {
    if (!has_first_token_) {
      has_first_token_ = true;
      metrics_.observe_first_token(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
    }
    out = reply_->on_token(event.choice, *token);
    if (reply_->wants_cancel(event.choice)) engine_.cancel(request_ids_[event.choice]);
  } else {
    const auto& finished = std::get<Finished>(event.what);
    // Nobody here asked for it: the engine is shutting down.
    if (finished.reason == FinishReason::kCancelled && !reply_->wants_cancel(event.choice))
      return fail(Status::cancelled("the server is shutting down; the reply was cut off"));
    out = reply_->on_finished(event.choice, finished.reason, finished.usage);
    if (finished.usage.is_kept) keep_anchor(event.choice);
  }
  exchange_->append(std::move(out));
  if (!reply_->is_complete()) return;
  is_over_ = true;
  if (is_streaming_) {
    exchange_->append(reply_->stream_end());
    exchange_->end_stream();
  } else {
    HttpResponse response;
    response.body = reply_->body();
    exchange_->respond(std::move(response));
  }
}

void Generation::keep_anchor(size_t choice) {
  auto anchor = reply_->anchor(choice);
  if (!anchor) return;
  if (is_memory_only_) {
    engine_.anchors()->add(std::move(*anchor));
  } else {
    engine_.keep_anchor(model_, key_namespace_, std::move(*anchor));
  }
}

void Generation::fail(const Status& status) {
  is_over_ = true;
  cancel_all();
  ApiError error = api_error(status);
  if (status.code() == StatusCode::kCancelled) {  // not by this client, who is still listening
    error.http_status = 503;
    error.type = "server_error";
  }
  if (exchange_->is_streaming()) {
    exchange_->append("data: " + error.to_json() + "\n\n");
    exchange_->end_stream();
  } else {
    exchange_->respond(error_response(error));
  }
}

void Generation::cancel_all() {
  for (const uint64_t id : request_ids_) engine_.cancel(id);
}

}  // namespace cairn
