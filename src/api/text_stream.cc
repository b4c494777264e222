// Stop strings over a stream: what may be the front of one is held back until it is decided.
#include <algorithm>
#include <utility>

#include "api/reply.h"

namespace cairn {
namespace {

// Length of the longest end of `text` that is a proper front of `stop`.
size_t overlap_at_end(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.ends_with(stop.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stop)
    : detokenizer_(std::move(tokenizer), /*skip_special_tokens=*/true), stop_(std::move(stop)) {}

std::string TextStream::append(TokenId id) {
  if (is_stopped_) return "";
  return release(detokenizer_.append(id), /*at_end=*/false);
}

std::string TextStream::finish() {
  if (is_stopped_) return "";
  return release(detokenizer_.finish(), /*at_end=*/true);
}

std::string TextStream::release(std::string text, bool at_end) {
  held_ += text;
  // The match that is complete first wins, and of two that end together the longer one: so the
  // answer does not depend on how the text was cut into tokens.
  size_t cut = std::string::npos;
  size_t end = std::string::npos;
  for (const std::string& stop : stop_) {
    const size_t begin = held_.find(stop);
    if (begin == std::string::npos) continue;
    if (std::pair(begin + stop.size(), begin) < std::pair(end, cut)) {
      cut = begin;
      end = begin + stop.size();
    }
  }
  if (cut != std::string::npos) {
    is_stopped_ = true;
    std::string certain = held_.substr(0, cut);
    held_.clear();
    return certain;
  }
  size_t keep = 0;
  if (!at_end) {
    for (const std::string& stop : stop_) keep = std::max(keep, overlap_at_end(held_, stop));
  }
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  return certain;
}

}  // namespace cairn
