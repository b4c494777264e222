// What a dialect needs to know of a model that is being served.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "cache/anchor_table.h"
#include "cache/token.h"
#include "engine/request.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace cairn {

// Immutable once serving has begun; read from the prep and net threads.
struct ServedModel {
  std::string name;           // what clients write in "model"
  uint32_t engine_index = 0;  // Engine::add_model
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatFormat>
      chat;                 // null when the model has no template: chat is then a 400
  uint32_t vocab_size = 0;  // ids a prompt may hold and a reply may draw are below it
  uint32_t context_tokens = 0;
  std::vector<TokenId> stop_ids;  // end tokens of config and generation_config
  SamplingParams defaults;        // from generation_config; what a request leaves out
  int64_t created_unix = 0;

  // Text anchors (api/anchored_prompt.h); null: texts are always tokenised.
  std::shared_ptr<AnchorTable> anchors;
  Digest anchor_scope;
  std::optional<TokenId> end_of_turn;
};

}  // namespace cairn
