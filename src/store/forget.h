// What a client wants forgotten, and what came of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/token.h"

namespace cairn {

// Within one root, so nobody can reach what another namespace computed.
struct ForgetScope {
  enum class What {
    kNamespace,     // everything of the root
    kConversation,  // what was computed under a label (BeginOptions::conversation)
    kPrompt,        // the prompt, and everything that begins with it
  };

  What what = What::kNamespace;
  std::string conversation = {};     // kConversation
  std::vector<TokenId> prompt = {};  // kPrompt; at least one id
  bool dry_run = false;              // only say what would go
};

struct ForgetReport {
  Status status;                 // ok: what was removed is gone for good, after power loss too
  uint64_t n_objects = 0;        // files removed (dry run: that would be)
  uint64_t n_bytes = 0;          // of these files
  uint64_t n_tokens = 0;         // rows that are known no more, in memory or on disk
  uint64_t n_shared_tokens = 0;  // rows in scope that stay: other conversations go through them
};

}  // namespace cairn
