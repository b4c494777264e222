// Text anchors: the ids that a conversation really has, in place of what its text would tokenise
// to.
//
// A prompt's text that begins with an anchored text takes the anchored ids and only the rest is
// tokenised; when a reply ends, its text and ids become an anchor in turn. Exact by construction:
// an anchor ends behind an added token, where a text may be cut without changing the ids of its
// parts, and its ids are used only if they decode to the very text. Design: DESIGN.md 3.4.
// Thread: any.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "api/served_model.h"
#include "base/hash.h"
#include "cache/anchor_table.h"

namespace cairn {

// Where the anchor of a reply goes on: the prompt it answers.
struct AnchorBasis {
  Sha256 text;                      // everything up to the end of the prompt's text
  std::optional<AnchorKey> parent;  // the anchored front, if there was one
  std::vector<TokenId> ids;         // of the prompt behind that front
};

struct AnchoredPrompt {
  std::vector<TokenId> ids;
  size_t n_anchored = 0;                     // ids of the front that came from an anchor
  std::shared_ptr<const AnchorBasis> basis;  // null when the model keeps no anchors
};

// What one model's anchors depend on besides the text.
Digest anchor_scope(const Digest& cache_root, const Tokenizer& tokenizer);

// `key_namespace`: only anchors of the same namespace are found.
AnchoredPrompt encode_anchored(const ServedModel& model,
                               std::string_view key_namespace,
                               std::string_view text);

// The added token that a template puts behind a reply's text; nullopt where it puts something else.
std::optional<TokenId> end_of_turn(const ChatFormat& chat, const Tokenizer& tokenizer);

// The anchor of a reply.
//   ids   as generated, without a stop id
//   text  what the client was given of them; less than all of it after a stop string
// Nullopt when the text does not end where an id does, or the model has no end of turn.
std::optional<Anchor> anchor_of_reply(const AnchorBasis& basis,
                                      const ServedModel& model,
                                      std::span<const TokenId> ids,
                                      std::string_view text);

}  // namespace cairn
