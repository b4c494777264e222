#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfenv>
#include <optional>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mutex.h"
#include "engine/engine_loop.h"
#include "engine/engine_messages.h"
#include "engine/sampler.h"

namespace cairn {
namespace {

constexpr uint32_t kDefaultMaxTokens = 4096;
constexpr uint32_t kDefaultContext = 32'768;
constexpr uint32_t kMaxTopLogprobs = 20;
constexpr size_t kMaxNamespaceBytes = 256;
// Flush and stats messages that may wait beside the queued requests.
constexpr size_t kSideMessages = 256;
// A deadline may be "never"; condition variables do not like times near the end of the calendar.
constexpr std::chrono::seconds kLongestSleep{30};

Status check_request(const GenerationRequest& request, uint32_t n_ids, uint32_t context) {
  if (request.prompt.empty()) {
    return Status::invalid_argument("the prompt has no tokens; at least one is needed");
  }
  const auto outside = std::find_if(
      request.prompt.begin(), request.prompt.end(), [&](TokenId id) { return id >= n_ids; });
  if (outside != request.prompt.end()) {
    return Status::invalid_argument(
        fmt::format("prompt token {} is id {}; this model has ids 0 to {}",
                    outside - request.prompt.begin(),
                    *outside,
                    n_ids - 1));
  }
  // A reply of zero tokens (scoring, warming) needs no room behind the prompt.
  const bool wants_reply = request.max_tokens.value_or(1) > 0;
  if (request.prompt.size() + (wants_reply ? 1 : 0) > context) {
    return Status::invalid_argument(fmt::format(
        "the prompt has {} tokens and the context holds {}, reply included; shorten the "
        "prompt or serve with a larger --ctx",
        request.prompt.size(),
        context));
  }
  if (request.key_namespace.size() > kMaxNamespaceBytes) {
    return Status::invalid_argument(fmt::format("a namespace of {} bytes; at most {} are possible",
                                                request.key_namespace.size(),
                                                kMaxNamespaceBytes));
  }
  if (request.top_logprobs > kMaxTopLogprobs) {
    return Status::invalid_argument(fmt::format(
        "top_logprobs is {}; it must be in [0, {}]", request.top_logprobs, kMaxTopLogprobs));
  }
  return validate_sampling(request.sampling, n_ids);
}

FlushReport failed_flush(Status status) {
  FlushReport report;
  report.status = std::move(status);
  return report;
}

Status stopped() {
  return Status::cancelled("the engine has stopped");
}

}  // namespace

struct Engine::Impl {
  Impl(Backend& backend, const Clock& clock_in, const EngineOptions& options)
      : clock(clock_in),
        inbox(options.max_waiting + kSideMessages),
        ledger(options.max_waiting),
        loop(backend, clock_in, options, ledger) {}

  void run();
  void handle(EngineMessage& message);
  bool advance_drain();
  void wait_for_message();
  void leave();
  void join();

  const Clock& clock;
  // Before the loop: the cache's I/O threads push into the inbox until the cache is gone.
  EngineInbox inbox;
  RequestLedger ledger;
  EngineLoop loop;

  // Engine thread only.
  bool must_stop = false;
  std::optional<TimePoint> drain_deadline;
  std::optional<TimePoint> flush_deadline;  // set once the last flush has begun
  std::chrono::milliseconds flush_limit{0};
  bool is_flushed = false;
  bool gave_up_flush = false;

  Mutex result_mutex;
  FlushReport last_flush CAIRN_GUARDED_BY(result_mutex);  // of drain_and_stop()
  EngineStats last_stats CAIRN_GUARDED_BY(result_mutex);  // for whoever asks after the end

  // Held while joining, so that stop() and drain_and_stop() may meet.
  Mutex thread_mutex;
  std::jthread thread CAIRN_GUARDED_BY(thread_mutex);
  bool has_left CAIRN_GUARDED_BY(thread_mutex) = false;
};

Engine::Engine(Backend& backend, const Clock& clock, const EngineOptions& options)
    : impl_(std::make_unique<Impl>(backend, clock, options)) {}

Engine::~Engine() {
  stop();
}

uint32_t Engine::add_model(std::unique_ptr<Model> model, const EngineModelOptions& options) {
  CAIRN_CHECK(model != nullptr);
  EngineModelOptions chosen = options;
  if (chosen.context_tokens == 0) {
    chosen.context_tokens = std::min(model->spec().max_positions, kDefaultContext);
  }
  const uint32_t n_rows = model->spec().vocab_size;
  chosen.n_ids = chosen.n_ids == 0 ? n_rows : std::min(chosen.n_ids, n_rows);
  return impl_->loop.add_model(std::move(model), chosen);
}

RootKey Engine::cache_root(uint32_t index) const {
  return impl_->loop.cache().root_key_of(impl_->loop.runner(index).root_index);
}

const Model& Engine::model(uint32_t index) const {
  return *impl_->loop.runner(index).model;
}

uint32_t Engine::context_tokens(uint32_t index) const {
  return impl_->loop.runner(index).options.context_tokens;
}

Status Engine::attach_disk(FileSystem& fs, const StoreOptions& options) {
  OpenReport report;
  auto files = StoreFiles::open(fs, impl_->clock, options, &report);
  if (!files.is_ok()) {
    impl_->loop.cache().set_disk_disabled(files.status().message());
    return files.status();
  }
  impl_->loop.cache().attach_disk(
      std::move(*files), std::move(report), [inbox = &impl_->inbox](StoreReply reply) {
        inbox->push_reply(StoreMessage{std::move(reply)});
      });
  return Status::ok();
}

void Engine::start() {
  MutexLock lock(impl_->thread_mutex);
  CAIRN_CHECK(!impl_->thread.joinable() && !impl_->has_left, "an engine starts once");
  impl_->thread = std::jthread([impl = impl_.get()] { impl->run(); });
}

Result<uint64_t> Engine::submit(GenerationRequest request,
                                std::shared_ptr<RequestObserver> observer) {
  if (request.model >= impl_->loop.n_models()) {
    return Status::invalid_argument(
        fmt::format("no model has index {}; {} are loaded", request.model, impl_->loop.n_models()));
  }
  const uint32_t context = context_tokens(request.model);
  CAIRN_RETURN_IF_ERROR(
      check_request(request, impl_->loop.runner(request.model).options.n_ids, context));
  auto active = std::make_unique<ActiveRequest>();
  const auto context_left = static_cast<uint32_t>(context - request.prompt.size());
  active->max_new_tokens = std::min(request.max_tokens.value_or(kDefaultMaxTokens), context_left);
  // 53 bits, so that a client whose JSON numbers are doubles can send a reported seed back.
  if (!request.sampling.seed) request.sampling.seed = random_u64() >> 11;
  active->request = std::move(request);
  active->observer = std::move(observer);
  active->submitted_at = impl_->clock.now();
  CAIRN_ASSIGN_OR_RETURN(const uint64_t id, impl_->ledger.open_request());
  active->id = id;
  if (!impl_->inbox.push(SubmitMessage{std::move(active)})) {
    impl_->ledger.close_request(id);
    return Status::overloaded("the engine takes no more messages; try again later");
  }
  return id;
}

void Engine::cancel(uint64_t request_id) {
  // One message for each live request: their number is bounded, so they need not be refused.
  if (impl_->ledger.claim_cancel(request_id)) impl_->inbox.push_reply(CancelMessage{request_id});
}

void Engine::flush(std::function<void(FlushReport)> done) {
  // The message is lost when it is refused, so `done` stays here too.
  if (impl_->inbox.push(FlushMessage{done})) return;
  done(failed_flush(Status::overloaded("the engine has stopped or takes no more messages")));
}

const std::shared_ptr<AnchorTable>& Engine::anchors() const {
  return impl_->loop.cache().anchors();
}

void Engine::keep_anchor(uint32_t model, std::string key_namespace, Anchor anchor) {
  anchors()->add(anchor);
  // When the inbox is full it is not written, which costs one look-up after a restart.
  static_cast<void>(
      impl_->inbox.push(AnchorMessage{model, std::move(key_namespace), std::move(anchor)}));
}

void Engine::forget(ForgetRequest request, std::function<void(ForgetReport)> done) {
  ForgetReport report;
  if (request.model >= impl_->loop.n_models()) {
    report.status = Status::invalid_argument(
        fmt::format("no model has index {}; {} are loaded", request.model, impl_->loop.n_models()));
  } else if (request.scope.what == ForgetScope::What::kPrompt && request.scope.prompt.empty()) {
    report.status = Status::invalid_argument("the prompt to forget has no tokens");
  } else {
    if (impl_->inbox.push(ForgetMessage{std::move(request), done})) return;
    report.status = Status::overloaded("the engine has stopped or takes no more messages");
  }
  done(std::move(report));
}

void Engine::explain(uint32_t model,
                     std::string key_namespace,
                     std::vector<TokenId> prompt,
                     size_t n_known_max,
                     std::function<void(Result<ReuseReport>)> done) {
  // The message is lost when it is refused, so `done` stays here too.
  if (impl_->inbox.push(
          ExplainMessage{model, std::move(key_namespace), std::move(prompt), n_known_max, done}))
    return;
  done(Status::overloaded("the engine has stopped or takes no more messages; try again later"));
}

void Engine::stats(std::function<void(EngineStats)> done) {
  if (impl_->inbox.push(StatsMessage{done})) return;
  EngineStats stats;
  {
    MutexLock lock(impl_->result_mutex);
    stats = impl_->last_stats;
  }
  done(stats);
}

FlushReport Engine::drain_and_stop(std::chrono::milliseconds drain_limit,
                                   std::chrono::milliseconds flush_limit) {
  impl_->ledger.refuse("the server is shutting down; try again later");
  impl_->inbox.push_reply(DrainMessage{drain_limit, flush_limit});
  impl_->join();
  MutexLock lock(impl_->result_mutex);
  return impl_->last_flush;
}

void Engine::stop() {
  impl_->ledger.refuse("the server has stopped");
  impl_->inbox.push_reply(StopMessage{});
  impl_->join();
}

void Engine::Impl::join() {
  MutexLock lock(thread_mutex);
  if (thread.joinable()) thread.join();
  // Never started: the messages that wait are answered here.
  if (!has_left) leave();
  has_left = true;
}

// --- engine thread

void Engine::Impl::run() {
  // Kernels run on this thread too (worker 0): rounding and denormals as on the other workers.
  std::fesetenv(FE_DFL_ENV);
  while (true) {
    // What is there now, not what comes meanwhile: a flood of questions must not stop the streams.
    for (size_t n_left = inbox.size(); n_left > 0 && !must_stop; --n_left) {
      if (auto message = inbox.try_pop()) handle(*message);
    }
    if (must_stop) break;
    const bool has_stepped = loop.turn();
    if (advance_drain()) break;
    if (has_stepped) continue;
    CAIRN_DCHECK(loop.cache().check_invariants().is_ok(), "the cache's invariants do not hold");
    wait_for_message();
  }
  leave();
}

void Engine::Impl::wait_for_message() {
  const TimePoint now = clock.now();
  TimePoint deadline = std::min(loop.next_deadline(), now + kLongestSleep);
  if (flush_deadline) {
    deadline = std::min(deadline, *flush_deadline);
  } else if (drain_deadline) {
    deadline = loop.is_idle() ? now : std::min(deadline, *drain_deadline);
  }
  // Deadlines are times of `clock`; the wait is on the machine's.
  auto message = inbox.pop_until(std::chrono::steady_clock::now() + (deadline - now));
  if (message) handle(*message);
}

void Engine::Impl::handle(EngineMessage& message) {
  struct Handler {
    Impl& impl;

    void operator()(SubmitMessage& m) { impl.loop.enqueue(std::move(m.request)); }

    void operator()(CancelMessage& m) { impl.loop.cancel(m.request_id); }

    void operator()(FlushMessage& m) { impl.loop.flush(std::move(m.done)); }

    void operator()(ForgetMessage& m) { impl.loop.forget(std::move(m.request), std::move(m.done)); }

    void operator()(StatsMessage& m) { m.done(impl.loop.stats()); }

    void operator()(AnchorMessage& m) {
      TieredCache& cache = impl.loop.cache();
      const uint32_t base_root = impl.loop.runner(m.model).root_index;
      cache.keep_anchor(cache.namespace_root(base_root, m.key_namespace), m.anchor);
    }

    void operator()(ExplainMessage& m) {
      TieredCache& cache = impl.loop.cache();
      const uint32_t base_root = impl.loop.runner(m.model).root_index;
      const uint32_t root_index = cache.namespace_root(base_root, m.key_namespace);
      m.done(cache.explain(root_index, m.prompt, m.n_known_max));
    }

    void operator()(StoreMessage& m) { impl.loop.on_reply(std::move(m.reply)); }

    void operator()(DrainMessage& m) {
      if (impl.drain_deadline) return;
      impl.drain_deadline = impl.clock.now() + m.drain_limit;
      impl.flush_limit = m.flush_limit;
    }

    void operator()(StopMessage& /*m*/) { impl.must_stop = true; }
  };

  std::visit(Handler{*this}, message);
}

// True when a drain has come to its end.
bool Engine::Impl::advance_drain() {
  if (!drain_deadline) return false;
  const TimePoint now = clock.now();
  if (!flush_deadline) {
    if (!loop.is_idle() && now < *drain_deadline) return false;
    loop.cancel_all();
    if (!loop.cache().stats().disk_enabled) return true;  // nothing to flush to
    flush_deadline = now + flush_limit;
    {
      MutexLock lock(result_mutex);
      last_flush = failed_flush(Status::cancelled(
          fmt::format("the last flush did not end within {} ms; what was not written is lost",
                      flush_limit.count())));
    }
    loop.flush([this](FlushReport report) {
      if (gave_up_flush) return;
      is_flushed = true;
      MutexLock lock(result_mutex);
      last_flush = std::move(report);
    });
    loop.cache().poll();
  }
  return is_flushed || now >= *flush_deadline;
}

// The last thing that happens on the engine thread: everybody who waits gets an answer.
void Engine::Impl::leave() {
  gave_up_flush = !is_flushed;
  inbox.close();
  while (auto message = inbox.try_pop()) {
    if (auto* submit = std::get_if<SubmitMessage>(&*message)) {
      loop.enqueue(std::move(submit->request));
    } else if (auto* flush = std::get_if<FlushMessage>(&*message)) {
      flush->done(failed_flush(stopped()));
    } else if (auto* explain = std::get_if<ExplainMessage>(&*message)) {
      explain->done(stopped());
    } else if (auto* forget = std::get_if<ForgetMessage>(&*message)) {
      loop.forget(std::move(forget->request), std::move(forget->done));
    } else if (auto* stats = std::get_if<StatsMessage>(&*message)) {
      stats->done(loop.stats());
    }
  }
  loop.fail_all(stopped());
  MutexLock lock(result_mutex);
  last_stats = loop.stats();
}

}  // namespace cairn
