// The text side of a model, wherever its files keep it: tokenizer.json or tokenizer.model and a
// chat template in a folder, or the metadata of a GGUF file. No weights are read.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "formats/checkpoint.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace cairn::cli {

struct TextParts {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatFormat> chat;  // null without a chat template
};

// `model`: a folder or a GGUF file. A folder's own text files go before the metadata of a GGUF file
// in it. Errors: kNotFound when the model has none, with the way out; else those of Tokenizer.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::string& model);

// `template_file`: replaces the model's own template when not empty. Errors: kNotFound when there
// is none, else those of ChatFormat.
Result<ChatFormat> load_chat_format(const std::string& model, const std::string& template_file);

// Both, from `checkpoint` where the files of the model are open already. A model without a template
// is no error.
Result<TextParts> load_text_parts(const std::string& model,
                                  const std::string& template_file,
                                  std::shared_ptr<const Checkpoint> checkpoint);

}  // namespace cairn::cli
