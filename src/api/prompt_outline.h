// Where a rendered prompt's messages stand, so that a place in it can be told in the client's
// terms.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace cairn {

struct OutlinedMessage {
  size_t index = 0;  // in "messages"
  std::string role;
  size_t begin = 0;  // of its content in the rendered text; what stands before it since the last
  size_t end = 0;    // message (headers, tools) counts as this one's too
};

// Messages whose content a template printed as it is, in order; others are left out.
struct PromptOutline {
  std::vector<OutlinedMessage> messages;
  std::vector<std::string> tool_names;  // in the request's order

  // The message that text offset `at` belongs to; null behind the last one.
  const OutlinedMessage* message_at(size_t at) const;
};

// Cost: one search per message.
PromptOutline outline_prompt(const Json& messages, const Json& tools, std::string_view rendered);

}  // namespace cairn
