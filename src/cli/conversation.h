// A conversation with a model in a terminal: messages, rendering, streaming to standard output.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "cli/local_session.h"

namespace cairn::cli {

struct ReplyText {
  std::string text;
  Generation generation;
};

struct ReplyOptions {
  std::optional<uint64_t> max_tokens;
  std::optional<float> temperature;
  std::optional<uint64_t> seed;
  bool stream = false;  // print the text to standard output while it comes
};

// Renders `messages` with the model's template and generates the assistant's reply. A reply that
// ends inside a character ends with U+FFFD.
Result<ReplyText> reply_to(LocalSession& session,
                           const Json& messages,
                           const ReplyOptions& options);

}  // namespace cairn::cli
