// Why a prompt left what is cached, recognised from the texts on both sides of the difference.
//
// Clients that rebuild their prompts make the same few mistakes, and each has a way out. What is
// not recognised is shown and not guessed at.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/prompt_outline.h"

namespace cairn {

enum class DriftCause {
  kSameText,          // the same text, made of other tokens
  kClock,             // a date or time
  kToolsReordered,    // the same tools in another order
  kReasoningDropped,  // a reply came back without its reasoning
  kMessagesRemoved,   // what follows was further back before
  kMessagesInserted,  // something new stands before what was known
  kOtherReply,        // an assistant's message differs
  kEditedMessage,     // another message differs
};

std::string_view to_string(DriftCause cause);  // "same_text", "clock", ...

// The two timelines around the place where they part.
struct Difference {
  std::string_view shared;                   // the end of what both have
  std::string_view known;                    // how the cached one goes on; perhaps cut
  std::string_view given;                    // how the prompt goes on
  const OutlinedMessage* message = nullptr;  // that `given` begins in; null behind the last one
};

struct Drift {
  DriftCause cause = DriftCause::kEditedMessage;
  std::string advice;  // one sentence: what a client that keeps its cache does
};

std::optional<Drift> recognise_drift(const Difference& difference, const PromptOutline& outline);

}  // namespace cairn
