#include "server/exchange.h"

namespace cairn {

void Exchange::wake() {
  if (on_output_) on_output_();
}

void Exchange::respond(HttpResponse response) {
  if (response_ || is_streaming_ || has_ended_) return;
  response_ = std::move(response);
  has_ended_ = true;
  on_abort_ = nullptr;
  wake();
}

void Exchange::expect_stream(std::chrono::steady_clock::time_point deadline) {
  if (is_streaming_ || has_ended_) return;
  stream_deadline_ = deadline;
  wake();
}

void Exchange::begin_stream() {
  if (is_streaming_ || has_ended_) return;
  is_streaming_ = true;
  wake();
}

void Exchange::append(std::string bytes) {
  if (!is_streaming_ || has_ended_ || bytes.empty()) return;
  if (pending_.size() > max_backlog_bytes_) {
    has_overflowed_ = true;
    pending_.clear();
    pending_.shrink_to_fit();
    abort();
  } else {
    pending_ += bytes;
  }
  wake();
}

void Exchange::end_stream() {
  if (!is_streaming_ || has_ended_) return;
  has_ended_ = true;
  on_abort_ = nullptr;
  wake();
}

void Exchange::abort() {
  has_ended_ = true;
  if (const auto on_abort = std::exchange(on_abort_, nullptr)) on_abort();
}

}  // namespace cairn
