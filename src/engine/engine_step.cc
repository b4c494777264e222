// One step of one model: build rows, run them, sample, advance.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "engine/engine_loop.h"

namespace cairn {
namespace {

// Logits of every prompt row are only read for prompt_logprobs; this bounds their scratch memory.
constexpr size_t kPromptLogitBytes = size_t{64} << 20;

}  // namespace

bool EngineLoop::step(ModelRunner& runner) {
  entries_.clear();
  add_decode_rows(runner);
  add_prefill_rows(runner);
  if (entries_.empty()) {
    settle(runner);  // a request whose rows could not be prepared
    return false;
  }
  const TimePoint begun_at = clock_.now();
  Model::StepLogits logits;
  const Status status = forward(runner, logits);
  record_step(runner, clock_.now() - begun_at);
  if (status.is_ok()) {
    take_logits(runner, logits);
    advance_sequences(runner);
  } else {
    for (const StepEntry& entry : entries_) entry.request->failure = status;
  }
  settle(runner);
  return true;
}

void EngineLoop::add_decode_rows(ModelRunner& runner) {
  for (const auto& request : runner.decoding) {
    const Status status = request->sequence->prepare(1);
    if (!status.is_ok()) {
      request->failure = status;
      continue;
    }
    request->fed_token = request->last_token;
    entries_.push_back({request.get(), {&request->fed_token, 1}, LogitRows::kLast, false});
  }
}

void EngineLoop::add_prefill_rows(ModelRunner& runner) {
  if (runner.prefilling == nullptr) return;
  ActiveRequest& request = *runner.prefilling;
  const std::span<const TokenId> prompt = request.prompt();
  size_t pos = request.sequence->n_rows();
  if (pos % runner.geometry.page_tokens == 0 && request.may_share_later()) {
    // All but the last token: its logits are needed.
    request.n_reused += request.sequence->adopt(prompt.subspan(pos, prompt.size() - 1 - pos));
    pos = request.sequence->n_rows();
    request.check_rows();
  }
  size_t row_limit = SIZE_MAX;
  if (request.request.prompt_logprobs) {
    const size_t row_bytes = size_t{runner.model->spec().vocab_size} * sizeof(float);
    row_limit = std::max<size_t>(kPromptLogitBytes / row_bytes, 1);
  }
  const size_t n = runner.chunks.next_chunk(pos, prompt.size(), any_stream_decodes(), row_limit);
  const Status status = request.sequence->prepare(n);
  if (!status.is_ok()) {
    request.failure = status;
    return;
  }
  LogitRows logits = LogitRows::kNone;
  if (pos + n == prompt.size() && request.max_new_tokens > 0) logits = LogitRows::kLast;
  if (request.request.prompt_logprobs) logits = LogitRows::kAll;
  entries_.push_back({&request, prompt.subspan(pos, n), logits, true});
}

Status EngineLoop::forward(ModelRunner& runner, Model::StepLogits& logits) {
  rows_.clear();
  for (const StepEntry& entry : entries_) {
    StepRows rows;
    rows.tokens = entry.tokens;
    rows.pos_begin = entry.request->sequence->n_rows();
    rows.logits = entry.logits;
    for (size_t group = 0; group < runner.geometry.groups.size(); ++group) {
      rows.pages.push_back(entry.request->sequence->pages(group));
    }
    rows_.push_back(std::move(rows));
  }
  auto result = runner.model->forward(rows_, runner.geometry);
  if (!result.is_ok()) return result.status();
  logits = *result;
  summaries_.assign(logits.n_rows, {});
  if (logits.n_rows > 0) {
    SampleReduceArgs args;
    args.logits = logits.logits;
    args.n_rows = logits.n_rows;
    args.row_stride = logits.row_stride;
    args.n_ids = runner.options.n_ids;
    args.out = summaries_.data();
    backend_.sample_reduce(args);
  }
  backend_.synchronize();
  return Status::ok();
}

void EngineLoop::read_row(const Model::StepLogits& logits, size_t row) {
  backend_.read_back(std::as_writable_bytes(std::span<float>(row_)),
                     reinterpret_cast<const std::byte*>(logits.logits + row * logits.row_stride));
}

// The chosen id and its alternatives. Without the row (has_row false) the id is the summary's best.
GeneratedToken EngineLoop::score_row(const ActiveRequest& request,
                                     TokenId id,
                                     size_t row,
                                     bool has_row) const {
  const LogitSummary& summary = summaries_[row];
  GeneratedToken token;
  token.id = id;
  token.is_stop = !request.request.ignore_stop_ids && request.is_stop_id(id);
  token.logprob =
      has_row ? logprob_of(row_, summary, id) : static_cast<float>(-std::log(summary.sum_exp));
  if (has_row) token.top = top_logprobs(row_, summary, request.request.top_logprobs);
  return token;
}

void EngineLoop::choose_token(ActiveRequest& request, size_t row, const Model::StepLogits& logits) {
  const bool needs_row = request.sampler->needs_logits() || request.request.top_logprobs > 0;
  if (needs_row) read_row(logits, row);
  const std::span<const float> values =
      needs_row ? std::span<const float>(row_) : std::span<const float>();
  const TokenId id = request.sampler->sample(values, summaries_[row]);
  request.sampler->add_output(id);
  request.last_token = id;
  ++request.n_generated;
  ++counters_.generated_tokens;
  GeneratedToken token = score_row(request, id, row, needs_row);
  if (token.is_stop) {
    request.ending = FinishReason::kStop;
  } else if (request.n_generated >= request.max_new_tokens) {
    request.ending = FinishReason::kLength;
  }
  request.observer->on_token(std::move(token));
}

// Row i of the logits belongs to the prompt position first_row + i and says how likely the next
// was.
void EngineLoop::take_prompt_rows(ActiveRequest& request,
                                  size_t first_logit_row,
                                  size_t n_rows,
                                  const Model::StepLogits& logits) {
  const std::span<const TokenId> prompt = request.prompt();
  if (request.prompt_logprobs.empty()) {
    request.prompt_logprobs.push_back({prompt[0], false, 0.0F, {}});
  }
  for (size_t i = 0; i < n_rows && request.prompt_logprobs.size() < prompt.size(); ++i) {
    read_row(logits, first_logit_row + i);
    const TokenId next = prompt[request.prompt_logprobs.size()];
    GeneratedToken token = score_row(request, next, first_logit_row + i, true);
    token.is_stop = false;
    request.prompt_logprobs.push_back(std::move(token));
  }
}

// Samples and delivers before anything else is done with the step: the client has the token first.
void EngineLoop::take_logits(ModelRunner& runner, const Model::StepLogits& logits) {
  row_.resize(runner.options.n_ids);
  size_t row = 0;
  for (const StepEntry& entry : entries_) {
    ActiveRequest& request = *entry.request;
    const size_t n_logit_rows = entry.logits == LogitRows::kAll    ? entry.tokens.size()
                                : entry.logits == LogitRows::kLast ? 1
                                                                   : 0;
    if (entry.logits == LogitRows::kAll) {
      take_prompt_rows(request, row, n_logit_rows, logits);
    }
    row += n_logit_rows;
    if (entry.is_prefill) {
      request.n_computed += entry.tokens.size();
      if (request.sequence->n_rows() + entry.tokens.size() < request.prompt().size()) continue;
      request.has_prefilled = true;
      request.first_token_at = clock_.now();
      if (request.request.prompt_logprobs) {
        request.observer->on_prompt_logprobs(std::move(request.prompt_logprobs));
      }
      if (request.max_new_tokens == 0) {
        request.ending = FinishReason::kLength;
        continue;
      }
    }
    choose_token(request, row - 1, logits);
  }
  CAIRN_CHECK(row == logits.n_rows, "the model gave another number of logit rows than was asked");
}

void EngineLoop::advance_sequences(ModelRunner& runner) {
  for (const StepEntry& entry : entries_) {
    ActiveRequest& request = *entry.request;
    request.sequence->advance(entry.tokens);
    request.n_forwarded += entry.tokens.size();
    request.check_rows();
  }
  if (runner.prefilling != nullptr && runner.prefilling->has_prefilled) {
    runner.decoding.push_back(std::move(runner.prefilling));
  }
}

void EngineLoop::record_step(ModelRunner& runner, std::chrono::duration<double> took) {
  size_t n_rows = 0;
  size_t n_prefill_rows = 0;
  for (const StepEntry& entry : entries_) {
    n_rows += entry.tokens.size();
    if (entry.is_prefill) n_prefill_rows += entry.tokens.size();
  }
  ++counters_.steps;
  counters_.prefilled_tokens += n_prefill_rows;
  const double prefill_share = static_cast<double>(n_prefill_rows) / static_cast<double>(n_rows);
  counters_.prefill_seconds += took.count() * prefill_share;
  counters_.decode_seconds += took.count() * (1 - prefill_share);
  if (n_prefill_rows == 0) return;
  runner.chunks.record(n_rows, took);
  cache_.set_prefill_rate(runner.chunks.tokens_per_second());
}

// Ends and fails what the step marked.
void EngineLoop::settle(ModelRunner& runner) {
  const auto settled = [this](const std::unique_ptr<ActiveRequest>& request) {
    if (!request->failure.is_ok()) {
      log_error("request {} failed: {}", request->id, request->failure.to_string());
      fail(*request, request->failure);
      return true;
    }
    if (!request->ending) return false;
    end(*request, *request->ending);
    return true;
  };
  std::erase_if(runner.decoding, settled);
  if (runner.prefilling != nullptr && settled(runner.prefilling)) runner.prefilling.reset();
}

}  // namespace cairn
