#include "engine/engine_loop.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace cairn {
namespace {

// The head of the queue did not fit and nothing runs: room comes from the writer, whose replies
// wake the engine; this is only the net below.
constexpr std::chrono::milliseconds kRetryAdmission{20};

// Puts `done` where there is room and returns its place.
template <typename Report>
size_t keep_call(std::vector<std::function<void(Report)>>& calls,
                 std::function<void(Report)> done) {
  auto slot = std::find(calls.begin(), calls.end(), nullptr);
  if (slot == calls.end()) slot = calls.insert(calls.end(), nullptr);
  *slot = std::move(done);
  return static_cast<size_t>(slot - calls.begin());
}

template <typename Report>
void answer_all(std::vector<std::function<void(Report)>>& calls, const Status& status) {
  for (auto& call : calls) {
    const auto answer = std::exchange(call, nullptr);
    if (!answer) continue;
    Report report;
    report.status = status;
    answer(std::move(report));
  }
}

// Whether what the request computes is, or may become, part of what should be forgotten.
bool is_in_scope(const GenerationRequest& request, const ForgetRequest& forget) {
  if (request.model != forget.model || request.key_namespace != forget.key_namespace) return false;
  switch (forget.scope.what) {
    case ForgetScope::What::kNamespace:
      return true;
    case ForgetScope::What::kConversation:
      return request.conversation == forget.scope.conversation;
    case ForgetScope::What::kPrompt: {
      const std::vector<TokenId>& prompt = forget.scope.prompt;
      const size_t n = std::min(prompt.size(), request.prompt.size());
      return std::equal(
          prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(n), request.prompt.begin());
    }
  }
  check_failed("what", __FILE__, __LINE__, "unknown scope of a forget");
}

}  // namespace

EngineLoop::EngineLoop(Backend& backend,
                       const Clock& clock,
                       const EngineOptions& options,
                       RequestLedger& ledger)
    : backend_(backend),
      clock_(clock),
      options_(options),
      ledger_(ledger),
      cache_(backend, clock, options.cache) {
  CAIRN_CHECK(options.max_batch >= 1 && options.max_chunk_tokens >= 1);
}

EngineLoop::~EngineLoop() {
  clear_requests();
}

uint32_t EngineLoop::add_model(std::unique_ptr<Model> model, const EngineModelOptions& options) {
  RootSpec root;
  root.model_identity = model->identity();
  root.geometry = model->spec().cache_geometry(options.kv);
  root.numerics_version = backend_.numerics_version();
  root.key_namespace = options.key_namespace;
  root.model_label = options.label;
  ChunkPolicyOptions chunks;
  chunks.chunk_time = options_.chunk_time;
  chunks.max_tokens = options_.max_chunk_tokens;
  chunks.fixed_tokens = options_.fixed_chunk_tokens;
  chunks.page_tokens = root.geometry.page_tokens;
  runners_.push_back(std::unique_ptr<ModelRunner>(new ModelRunner{std::move(model),
                                                                  options,
                                                                  root.geometry,
                                                                  cache_.add_root(root),
                                                                  ChunkPolicy(chunks),
                                                                  nullptr,
                                                                  {}}));
  return static_cast<uint32_t>(runners_.size() - 1);
}

void EngineLoop::enqueue(std::unique_ptr<ActiveRequest> request) {
  ++counters_.requests_submitted;
  queue_.push_back(std::move(request));
}

size_t EngineLoop::n_in_batch() const {
  size_t n = 0;
  for (const auto& runner : runners_) n += runner->decoding.size() + (runner->prefilling ? 1 : 0);
  return n;
}

bool EngineLoop::any_stream_decodes() const {
  return std::any_of(runners_.begin(), runners_.end(), [](const auto& runner) {
    return !runner->decoding.empty();
  });
}

bool EngineLoop::is_idle() const {
  return queue_.empty() && begun_.empty() && n_in_batch() == 0;
}

// Looks up the request's prefix and reserves room for all its rows. False with an error in
// `status`.
bool EngineLoop::begin(ActiveRequest& request, Status& status) {
  BeginOptions begin;
  begin.max_rows = request.request.prompt.size() + request.max_new_tokens;
  begin.max_reuse = request.request.prompt_logprobs ? 0 : request.request.max_reuse;
  begin.restore = request.request.restore == RestoreMode::kAuto ? options_.cache.restore
                                                                : request.request.restore;
  begin.persist = !request.request.memory_only;
  begin.keep = !request.request.no_store;
  begin.conversation = request.request.conversation;
  request.root_index = cache_.namespace_root(runners_[request.request.model]->root_index,
                                             request.request.key_namespace);
  auto sequence = cache_.begin(request.root_index, request.prompt(), begin);
  if (!sequence.is_ok()) {
    status = sequence.status();
    return false;
  }
  request.sequence = std::move(*sequence);
  return true;
}

// First in, first out: when the head of the queue has no room, nobody overtakes it. As many
// requests as a batch are begun ahead of their turn, so that their restores run beside the current
// steps.
void EngineLoop::admit() {
  // One that lost its place while it looked its prefix up again goes first.
  const auto has_no_place = [](const auto& request) { return request->sequence == nullptr; };
  if (std::any_of(begun_.begin(), begun_.end(), has_no_place)) return;
  // A look-up for nothing in every step would cost the streams; room comes when something ends.
  if (is_full_ && clock_.now() < next_admission_) return;
  is_full_ = false;
  while (!queue_.empty() && begun_.size() < options_.max_batch) {
    std::unique_ptr<ActiveRequest>& head = queue_.front();
    Status status;
    if (!begin(*head, status)) {
      if (status.code() == StatusCode::kOverloaded) {
        is_full_ = true;
        next_admission_ = clock_.now() + kRetryAdmission;
        return;
      }
      fail(*head, status);
      queue_.pop_front();
      continue;
    }
    ledger_.leave_queue(head->id);
    if (!head->is_announced) {
      head->is_announced = true;
      head->observer->on_started(head->usage(clock_.now()));
    }
    begun_.push_back(std::move(head));
    queue_.pop_front();
  }
}

// Other requests may have computed more of this prompt since its prefix was looked up.
// False when the request has to wait again (a restore, or room).
bool EngineLoop::begin_again_if_more_is_known(ActiveRequest& request) {
  if (request.began_again || !request.may_share_later()) return true;
  if (cache_.probe(request.root_index, request.prompt()) <= request.sequence->n_rows()) return true;
  request.began_again = true;
  request.sequence.reset();
  Status status;
  if (!begin(request, status)) {
    // It fitted a moment ago and its own reservation was given back, so room must come again.
    log_debug("request {} lost its place in the cache: {}", request.id, status.to_string());
    return false;
  }
  return request.sequence->is_ready();
}

bool EngineLoop::start(ActiveRequest& request) {
  if (request.sequence == nullptr) {
    Status status;
    if (!begin(request, status)) {
      if (status.code() != StatusCode::kOverloaded) request.failure = status;
      return false;
    }
  }
  if (!request.sequence->is_ready() || !begin_again_if_more_is_known(request)) return false;
  request.has_started = true;
  request.started_at = clock_.now();
  request.n_reused = request.sequence->n_rows();
  request.sampler.emplace(request.request.sampling,
                          runners_[request.request.model]->options.n_ids,
                          request.request.choice);
  request.sampler->add_prompt(request.prompt());
  request.check_rows();
  counters_.prompt_tokens += request.request.prompt.size();
  return true;
}

// The oldest begun request of each model whose restore is done takes the free prefill place.
void EngineLoop::start_prefills() {
  for (size_t i = 0; i < begun_.size();) {
    ModelRunner& runner = *runners_[begun_[i]->request.model];
    if (runner.prefilling != nullptr || n_in_batch() >= options_.max_batch || !start(*begun_[i])) {
      if (begun_[i]->failure.is_ok()) {
        ++i;
        continue;
      }
      fail(*begun_[i], begun_[i]->failure);
    } else {
      runner.prefilling = std::move(begun_[i]);
    }
    begun_.erase(begun_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool EngineLoop::turn() {
  admit();
  start_prefills();
  bool has_stepped = false;
  for (const auto& runner : runners_) has_stepped |= step(*runner);
  cache_.poll();
  return has_stepped;
}

TimePoint EngineLoop::next_deadline() const {
  const TimePoint deadline = cache_.next_deadline();
  if (queue_.empty() && begun_.empty()) return deadline;
  return std::min(deadline, clock_.now() + kRetryAdmission);
}

void EngineLoop::on_reply(StoreReply reply) {
  is_full_ = false;
  cache_.on_reply(std::move(reply));
}

void EngineLoop::flush(std::function<void(FlushReport)> done) {
  // Answered from a list of our own, because a crash-like stop() must answer too.
  const size_t idx = keep_call(flushes_, std::move(done));
  cache_.flush([this, idx](FlushReport report) {
    const auto answer = std::exchange(flushes_[idx], nullptr);
    if (answer) answer(std::move(report));
  });
}

void EngineLoop::forget(ForgetRequest request, std::function<void(ForgetReport)> done) {
  const uint32_t root_index =
      cache_.namespace_root(runners_[request.model]->root_index, request.key_namespace);
  if (!request.scope.dry_run) {
    for_each_request([&](ActiveRequest& active) {
      if (!is_in_scope(active.request, request)) return;
      active.request.no_store = true;
      if (active.sequence != nullptr) active.sequence->forget();
    });
  }
  const size_t idx = keep_call(forgets_, std::move(done));
  cache_.forget(root_index, std::move(request.scope), [this, idx](ForgetReport report) {
    const auto answer = std::exchange(forgets_[idx], nullptr);
    if (answer) answer(std::move(report));
  });
}

// --- endings

void EngineLoop::end(ActiveRequest& request, FinishReason reason) {
  const RequestUsage usage = request.usage(clock_.now());
  // Keeps the prefix, the tail as a leaf. A cancelled waiter leaves its restore running.
  if (request.sequence != nullptr && request.sequence->is_ready()) request.sequence->finish();
  request.sequence.reset();
  is_full_ = false;
  ledger_.close_request(request.id);
  ++(reason == FinishReason::kCancelled ? counters_.requests_cancelled
                                        : counters_.requests_finished);
  request.observer->on_finished(reason, usage);
}

void EngineLoop::fail(ActiveRequest& request, const Status& status) {
  request.sequence.reset();
  is_full_ = false;
  ledger_.close_request(request.id);
  ++counters_.requests_failed;
  request.observer->on_failed(status);
}

void EngineLoop::for_each_request(const std::function<void(ActiveRequest&)>& visit) {
  for (const auto& runner : runners_) {
    for (const auto& request : runner->decoding) visit(*request);
    if (runner->prefilling) visit(*runner->prefilling);
  }
  for (const auto& request : begun_) visit(*request);
  for (const auto& request : queue_) visit(*request);
}

void EngineLoop::clear_requests() {
  for (const auto& runner : runners_) {
    runner->decoding.clear();
    runner->prefilling.reset();
  }
  begun_.clear();
  queue_.clear();
}

void EngineLoop::cancel(uint64_t request_id) {
  const auto is_it = [request_id](const std::unique_ptr<ActiveRequest>& request) {
    return request != nullptr && request->id == request_id;
  };
  const auto cancel_in = [&](auto& list) {
    const auto found = std::find_if(list.begin(), list.end(), is_it);
    if (found == list.end()) return false;
    end(**found, FinishReason::kCancelled);
    list.erase(found);
    return true;
  };
  if (cancel_in(queue_) || cancel_in(begun_)) return;
  for (const auto& runner : runners_) {
    if (cancel_in(runner->decoding)) return;
    if (is_it(runner->prefilling)) {
      end(*runner->prefilling, FinishReason::kCancelled);
      runner->prefilling.reset();
      return;
    }
  }
}

void EngineLoop::cancel_all() {
  for_each_request([this](ActiveRequest& request) { end(request, FinishReason::kCancelled); });
  clear_requests();
}

void EngineLoop::fail_all(const Status& status) {
  for_each_request([&](ActiveRequest& request) { fail(request, status); });
  clear_requests();
  answer_all(flushes_, status);
  answer_all(forgets_, status);
}

EngineStats EngineLoop::stats() const {
  EngineStats stats = counters_;
  stats.cache = cache_.stats();
  stats.running = n_in_batch();
  stats.waiting = queue_.size() + begun_.size();
  return stats;
}

}  // namespace cairn
