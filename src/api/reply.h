// From generated tokens to what a client reads: text deltas with stop strings held back, JSON
// bodies and stream events. One per request; knows no sockets. Thread: net.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/prepared_request.h"
#include "text/detokenizer.h"

namespace cairn {

// Text of one choice: detokenises, finds stop strings, holds back what may be the front of one.
class TextStream {
 public:
  TextStream(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stop);

  // Text that is now certain not to belong to a stop string. `is_stopped()` may become true: what
  // comes after is to be ignored and the request cancelled.
  std::string append(TokenId id);
  std::string finish();

  bool is_stopped() const { return is_stopped_; }

 private:
  std::string release(std::string text, bool at_end);

  Detokenizer detokenizer_;
  std::vector<std::string> stop_;
  std::string held_;
  bool is_stopped_ = false;
};

// Collects one request's choices and renders them in its dialect.
class Reply {
 public:
  explicit Reply(const PreparedRequest& request);

  // Each returns the stream events to send now (complete "data: ...\n\n" blocks, possibly none);
  // without `stream` they only collect. After on_token, `wants_cancel(choice)` says that a stop
  // string ended it.
  std::string on_started(size_t choice, const RequestUsage& usage);
  std::string on_prompt_logprobs(size_t choice, std::vector<GeneratedToken> tokens);
  std::string on_token(size_t choice, const GeneratedToken& token);
  std::string on_finished(size_t choice, FinishReason reason, const RequestUsage& usage);
  bool wants_cancel(size_t choice) const;
  // Of a choice that has finished: what its text is to be known by when a client sends it back.
  std::optional<Anchor> anchor(size_t choice) const;

  bool is_complete() const;  // every choice has finished
  // After the last choice: usage chunk (when asked for) and "data: [DONE]\n\n".
  std::string stream_end();
  // The whole body, when not streaming.
  std::string body();

 private:
  struct Impl;

 public:
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  Reply(Reply&&) noexcept;
  Reply& operator=(Reply&&) noexcept;
  ~Reply();

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
