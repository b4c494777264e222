// The chat templates that come with a model's folder.
#pragma once

#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "base/result.h"
#include "text/chat_template.h"

namespace cairn {

// Thread: immutable; any thread.
class ChatFormat {
 public:
  // Reads <model_dir>/chat_template.jinja, else "chat_template" of tokenizer_config.json: a string,
  // or a list of {name, template} of which "default" and "tool_use" are known. The special tokens'
  // variables come from tokenizer_config.json, then special_tokens_map.json. No tokenizer.json is
  // needed.
  //   template_path  a template to take instead of the model's
  // Errors: kNotFound when the folder has no template; kInvalidArgument for a bad one; kIo.
  static Result<ChatFormat> load(const std::string& model_dir,
                                 const std::optional<std::string>& template_path = std::nullopt);

  // One template, and the special tokens that it may print. `name` is for errors.
  // Errors: kInvalidArgument.
  static Result<ChatFormat> from_source(std::string_view source,
                                        std::string_view name,
                                        SpecialTokens special_tokens);

  // With tools the template called "tool_use" is taken, where there is one.
  // Errors and `error`: see ChatTemplate::render.
  Result<std::string> render(const TemplateInputs& inputs, RenderError* error = nullptr) const;

  const ChatTemplate& default_template() const { return default_template_; }

  const SpecialTokens& special_tokens() const { return default_template_.special_tokens(); }

 private:
  ChatFormat(ChatTemplate default_template, std::optional<ChatTemplate> tool_template);

  ChatTemplate default_template_;
  std::optional<ChatTemplate> tool_template_;
};

}  // namespace cairn
