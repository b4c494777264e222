#include "text/detokenizer.h"

#include <utility>

#include "text/utf8.h"

namespace cairn {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string Detokenizer::append(TokenId id) {
  std::string out;
  if (skip_special_tokens_ && tokenizer_->is_special(id)) return out;
  tokenizer_->append_bytes(id, is_at_front_, pending_);
  pending_.erase(0, utf8::append_lossy(out, pending_));
  return out;
}

std::string Detokenizer::finish() {
  std::string out = utf8::lossy(pending_);
  pending_.clear();
  is_at_front_ = true;
  return out;
}

}  // namespace cairn
