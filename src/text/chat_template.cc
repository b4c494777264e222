#include "text/chat_template.h"

#include <fmt/core.h>

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"
#include "text/utf8.h"

namespace cairn {

namespace {

Status to_status(const std::string& name, const jinja::TemplateError& error) {
  std::string where = fmt::format("chat template {}", name);
  if (error.line_number > 0) where += fmt::format(", line {}", error.line_number);
  return Status::invalid_argument(fmt::format("{}: {}", where, error.message));
}

}  // namespace

struct ChatTemplate::Parsed {
  std::string name;
  std::string source;
  SpecialTokens special_tokens;
  jinja::Template tree;
};

ChatTemplate::ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

ChatTemplate::ChatTemplate(const ChatTemplate&) = default;
ChatTemplate& ChatTemplate::operator=(const ChatTemplate&) = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

const std::string& ChatTemplate::source() const {
  return parsed_->source;
}

const SpecialTokens& ChatTemplate::special_tokens() const {
  return parsed_->special_tokens;
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source,
                                         std::string_view name,
                                         SpecialTokens special_tokens) {
  if (source.size() > kSourceBytesMax) {
    return Status::invalid_argument(fmt::format(
        "chat template {}: {} bytes, at most {} are read", name, source.size(), kSourceBytesMax));
  }
  if (!utf8::is_valid(source)) {
    return Status::invalid_argument(fmt::format("chat template {}: not UTF-8", name));
  }
  auto parsed = std::make_shared<Parsed>();
  parsed->name = name;
  parsed->source = source;
  parsed->special_tokens = std::move(special_tokens);
  try {
    parsed->tree = jinja::parse_template(source);
  } catch (const jinja::TemplateError& error) {
    return to_status(parsed->name, error);
  }
  return ChatTemplate(std::shared_ptr<const Parsed>(std::move(parsed)));
}

Result<std::string> ChatTemplate::render(const TemplateInputs& inputs, RenderError* error) const {
  const auto make_variables = [&](jinja::Budget& budget) {
    jinja::Variables variables;
    variables.emplace_back("messages", jinja::from_json(inputs.messages, budget));
    variables.emplace_back("tools", jinja::from_json(inputs.tools, budget));
    variables.emplace_back("documents", jinja::Value::none());
    variables.emplace_back("add_generation_prompt", jinja::Value(inputs.add_generation_prompt));
    for (const auto& [name, text] : parsed_->special_tokens) {
      variables.emplace_back(name, jinja::make_string(text, budget));
    }
    if (!inputs.kwargs.is_object() && !inputs.kwargs.is_null()) {
      jinja::fail("the extra template variables must be a mapping");
    }
    for (const auto& [name, value] : inputs.kwargs.items()) {
      variables.emplace_back(name, jinja::from_json(value, budget));
    }
    return variables;
  };
  try {
    return jinja::render(parsed_->tree, make_variables, inputs.now_unix, jinja::Limits());
  } catch (const jinja::TemplateError& failure) {
    if (error != nullptr) *error = {failure.message, failure.is_raised};
    return to_status(parsed_->name, failure);
  }
}

}  // namespace cairn
