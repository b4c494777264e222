#include "api/reply.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "api/miss_json.h"
#include "api/reply_json.h"
#include "base/json.h"
#include "text/utf8.h"

namespace cairn {
namespace {

// What has been collected of one choice.
struct Choice {
  explicit Choice(const PreparedRequest& request)
      : text(request.model->tokenizer, request.stop),
        offsets(request.model->tokenizer, /*skip_special_tokens=*/true) {}

  TextStream text;
  Detokenizer offsets;  // the same text without what stop strings hold back, to count in
  std::string collected;
  std::vector<LoggedToken> logged;  // with logprobs only
  std::vector<TokenId> ids;         // without a stop id
  size_t text_offset = 0;           // legacy logprobs: code points before the next token
  std::string finish_reason;        // empty while running
  RequestUsage usage;
  uint64_t n_tokens = 0;  // up to the one that completed a stop string
  bool is_stopped = false;
  bool is_cancel_due = false;
};

}  // namespace

struct Reply::Impl {
  explicit Impl(const PreparedRequest& prepared) : request(prepared) {
    for (size_t i = 0; i < request.choices.size(); ++i) {
      choices.emplace_back(request);
    }
    want_logprobs = request.choices.front().want_logprobs;
  }

  std::string event(Json object) const {
    return request.stream ? "data: " + dump_json(object) + "\n\n" : "";
  }

  // One stream chunk of one choice. Chat: `delta`; completions: text.
  Json chunk(size_t index,
             const std::string& text,
             bool is_first,
             Json logprobs,
             const std::string& finish) const {
    Json choice;
    choice["index"] = index;
    if (request.dialect == Dialect::kChat) {
      Json delta = Json::object();
      if (is_first) delta["role"] = "assistant";
      if (is_first || !text.empty()) delta["content"] = text;
      choice["delta"] = std::move(delta);
    } else {
      choice["text"] = text;
    }
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = finish.empty() ? Json(nullptr) : Json(finish);
    Json object = envelope(true);
    object["choices"] = Json::array({std::move(choice)});
    if (request.include_usage) object["usage"] = nullptr;
    return object;
  }

  Json envelope(bool is_stream) const {
    Json object;
    object["id"] = request.id;
    object["object"] = request.dialect == Dialect::kCompletions ? "text_completion"
                       : is_stream                              ? "chat.completion.chunk"
                                                                : "chat.completion";
    object["created"] = request.created_unix;
    object["model"] = request.model->name;
    return object;
  }

  Json logprobs_json(std::span<const LoggedToken> tokens) const {
    if (!want_logprobs) return nullptr;
    if (request.dialect == Dialect::kChat) return chat_logprobs(*request.model->tokenizer, tokens);
    return legacy_logprobs(*request.model->tokenizer, tokens);
  }

  // Takes a token's text; returns the certain part of it.
  std::string take(Choice& choice, const GeneratedToken& token) {
    std::string text;
    if (!token.is_stop) {
      text = choice.text.append(token.id);
      choice.ids.push_back(token.id);
    }
    if (want_logprobs && !token.is_stop) log(choice, token, /*has_logprob=*/true);
    ++choice.n_tokens;
    if (choice.text.is_stopped()) {
      choice.is_stopped = true;
      choice.is_cancel_due = true;
    }
    return text;
  }

  static void log(Choice& choice, const GeneratedToken& token, bool has_logprob) {
    choice.logged.push_back({token, choice.text_offset, has_logprob});
    choice.text_offset += utf8::length(choice.offsets.append(token.id));
  }

  UsageTotals totals() const {
    UsageTotals totals;
    for (size_t i = 0; i < choices.size(); ++i) {
      const bool is_first_of_prompt = i % request.choices_per_prompt == 0;
      if (is_first_of_prompt) totals.prompt_tokens += choices[i].usage.prompt_tokens;
      totals.completion_tokens += choices[i].n_tokens;
      totals.per_choice.push_back(choices[i].usage);
    }
    totals.prepare_ms = request.prepare_ms;
    totals.prompt_ids_hash = request.prompt_ids_hash;
    totals.n_anchored = request.n_anchored;
    totals.choices_per_prompt = request.choices_per_prompt;
    return totals;
  }

  Json usage() const {
    const Json miss = miss_json(*request.model->tokenizer,
                                request.outline,
                                request.choices.front().prompt,
                                choices.front().usage.reuse);
    return usage_json(totals(), miss);
  }

  PreparedRequest request;
  std::vector<Choice> choices;
  bool want_logprobs = false;
};

Reply::Reply(const PreparedRequest& request) : impl_(std::make_unique<Impl>(request)) {}

Reply::Reply(Reply&&) noexcept = default;
Reply& Reply::operator=(Reply&&) noexcept = default;
Reply::~Reply() = default;

std::string Reply::on_started(size_t index, const RequestUsage& usage) {
  Choice& choice = impl_->choices[index];
  choice.usage = usage;
  const PreparedRequest& request = impl_->request;
  if (request.echo) {
    choice.collected = request.echo_texts[index / request.choices_per_prompt];
    if (!request.choices[index].prompt_logprobs)
      choice.text_offset = utf8::length(choice.collected);
  }
  if (request.dialect == Dialect::kChat)
    return impl_->event(impl_->chunk(index, "", true, nullptr, ""));
  if (!request.echo || request.choices[index].prompt_logprobs) return "";
  return impl_->event(impl_->chunk(index, choice.collected, false, nullptr, ""));
}

std::string Reply::on_prompt_logprobs(size_t index, std::vector<GeneratedToken> tokens) {
  Choice& choice = impl_->choices[index];
  for (size_t i = 0; i < tokens.size(); ++i) Impl::log(choice, tokens[i], /*has_logprob=*/i > 0);
  choice.text_offset += utf8::length(choice.offsets.finish());
  return impl_->event(
      impl_->chunk(index, choice.collected, false, impl_->logprobs_json(choice.logged), ""));
}

std::string Reply::on_token(size_t index, const GeneratedToken& token) {
  Choice& choice = impl_->choices[index];
  if (choice.is_stopped || !choice.finish_reason.empty()) return "";
  const size_t n_logged = choice.logged.size();
  const std::string text = impl_->take(choice, token);
  choice.collected += text;
  const bool has_logprob = choice.logged.size() > n_logged;
  if (!impl_->request.stream || (text.empty() && !has_logprob)) return "";
  return impl_->event(impl_->chunk(
      index, text, false, impl_->logprobs_json(std::span(choice.logged).subspan(n_logged)), ""));
}

std::string Reply::on_finished(size_t index, FinishReason reason, const RequestUsage& usage) {
  Choice& choice = impl_->choices[index];
  choice.usage = usage;
  choice.is_cancel_due = false;
  std::string rest;
  if (!choice.is_stopped) {
    rest = choice.text.finish();
    choice.is_stopped = choice.text.is_stopped();
    choice.collected += rest;
  }
  choice.finish_reason = choice.is_stopped || reason == FinishReason::kStop ? "stop"
                         : reason == FinishReason::kLength                  ? "length"
                                                                            : "cancelled";
  return impl_->event(impl_->chunk(index, rest, false, nullptr, choice.finish_reason));
}

bool Reply::wants_cancel(size_t index) const {
  return impl_->choices[index].is_cancel_due;
}

std::optional<Anchor> Reply::anchor(size_t index) const {
  const PreparedRequest& request = impl_->request;
  const Choice& choice = impl_->choices[index];
  if (request.anchor_basis == nullptr) return std::nullopt;
  return anchor_of_reply(*request.anchor_basis, *request.model, choice.ids, choice.collected);
}

bool Reply::is_complete() const {
  return std::all_of(impl_->choices.begin(), impl_->choices.end(), [](const Choice& choice) {
    return !choice.finish_reason.empty();
  });
}

std::string Reply::stream_end() {
  std::string end;
  if (impl_->request.include_usage) {
    Json object = impl_->envelope(true);
    object["choices"] = Json::array();
    object["usage"] = impl_->usage();
    end = impl_->event(std::move(object));
  }
  return end + "data: [DONE]\n\n";
}

std::string Reply::body() {
  Json object = impl_->envelope(false);
  object["choices"] = Json::array();
  for (size_t i = 0; i < impl_->choices.size(); ++i) {
    const Choice& choice = impl_->choices[i];
    Json entry;
    entry["index"] = i;
    if (impl_->request.dialect == Dialect::kChat) {
      entry["message"] = {
          {"role", "assistant"}, {"content", choice.collected}, {"refusal", nullptr}};
    } else {
      entry["text"] = choice.collected;
    }
    entry["logprobs"] = impl_->logprobs_json(choice.logged);
    entry["finish_reason"] = choice.finish_reason;
    object["choices"].push_back(std::move(entry));
  }
  object["usage"] = impl_->usage();
  return dump_json(object);
}

}  // namespace cairn
