#include "text/chat_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/file_system.h"
#include "base/json.h"

namespace cairn {

namespace {

constexpr uint64_t kConfigBytesMax = uint64_t{64} << 20U;

// The variables that templates know (Hugging Face's special_tokens_map).
constexpr const char* kTokenNames[] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

struct Sources {
  std::string default_template;
  std::optional<std::string> tool_template;
};

// A file that may be missing.
Result<std::optional<std::string>> read_optional(const std::string& path) {
  auto text = read_text_file(posix_file_system(), path, kConfigBytesMax);
  if (text.is_ok()) return std::optional<std::string>(std::move(text).value());
  if (text.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  return text.status();
}

// The mapping in a JSON file, empty when there is no such file.
Result<Json> read_optional_json(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> text, read_optional(path));
  if (!text) return Json::object();
  CAIRN_ASSIGN_OR_RETURN(Json json, parse_json(*text, path, true));
  if (!json.is_object()) return Status::invalid_argument(path + ": not a mapping");
  return json;
}

// A token is spelt "<s>" or {"content": "<s>", ...}.
void add_tokens(const Json& config, SpecialTokens& out) {
  for (const char* name : kTokenNames) {
    const bool is_known = std::any_of(
        out.begin(), out.end(), [name](const auto& known) { return known.first == name; });
    const auto token = config.find(name);
    if (is_known || token == config.end()) continue;
    const Json* text = &*token;
    if (token->is_object() && token->contains("content")) text = &(*token)["content"];
    if (text->is_string()) out.emplace_back(name, text->get<std::string>());
  }
}

Result<Sources> read_named_templates(const Json& list, const std::string& path) {
  Sources sources;
  bool has_default = false;
  for (const Json& entry : list) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
        !entry.contains("template") || !entry["template"].is_string()) {
      return Status::invalid_argument(path +
                                      ": an entry of \"chat_template\" is no {name, template}");
    }
    const auto name = entry["name"].get<std::string>();
    if (name == "default") {
      sources.default_template = entry["template"].get<std::string>();
      has_default = true;
    } else if (name == "tool_use") {
      sources.tool_template = entry["template"].get<std::string>();
    }
  }
  if (!has_default) {
    return Status::invalid_argument(path + ": \"chat_template\" has no entry named \"default\"");
  }
  return sources;
}

Result<Sources> read_model_templates(const std::string& model_dir,
                                     const Json& config,
                                     const std::string& config_path) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> file,
                         read_optional(model_dir + "/chat_template.jinja"));
  if (file) return Sources{*file, std::nullopt};
  const auto entry = config.find("chat_template");
  if (entry == config.end() || entry->is_null()) {
    return Status::not_found(
        fmt::format("{}: no chat_template.jinja and no \"chat_template\" in tokenizer_config.json; "
                    "give one with --template",
                    model_dir));
  }
  if (entry->is_string()) return Sources{entry->get<std::string>(), std::nullopt};
  if (entry->is_array()) return read_named_templates(*entry, config_path);
  return Status::invalid_argument(config_path + ": \"chat_template\" is neither text nor a list");
}

}  // namespace

ChatFormat::ChatFormat(ChatTemplate default_template, std::optional<ChatTemplate> tool_template)
    : default_template_(std::move(default_template)), tool_template_(std::move(tool_template)) {}

Result<ChatFormat> ChatFormat::load(const std::string& model_dir,
                                    const std::optional<std::string>& template_path) {
  const std::string config_path = model_dir + "/tokenizer_config.json";
  CAIRN_ASSIGN_OR_RETURN(const Json config, read_optional_json(config_path));
  CAIRN_ASSIGN_OR_RETURN(const Json map,
                         read_optional_json(model_dir + "/special_tokens_map.json"));
  SpecialTokens tokens;
  add_tokens(config, tokens);
  add_tokens(map, tokens);
  if (template_path) {
    CAIRN_ASSIGN_OR_RETURN(const std::string source,
                           read_text_file(posix_file_system(), *template_path, kConfigBytesMax));
    CAIRN_ASSIGN_OR_RETURN(ChatTemplate given, ChatTemplate::parse(source, *template_path, tokens));
    return ChatFormat(std::move(given), std::nullopt);
  }
  CAIRN_ASSIGN_OR_RETURN(const Sources sources,
                         read_model_templates(model_dir, config, config_path));
  CAIRN_ASSIGN_OR_RETURN(ChatTemplate main_template,
                         ChatTemplate::parse(sources.default_template, model_dir, tokens));
  std::optional<ChatTemplate> tool_template;
  if (sources.tool_template) {
    CAIRN_ASSIGN_OR_RETURN(
        tool_template,
        ChatTemplate::parse(*sources.tool_template, model_dir + " (tool_use)", tokens));
  }
  return ChatFormat(std::move(main_template), std::move(tool_template));
}

Result<ChatFormat> ChatFormat::from_source(std::string_view source,
                                           std::string_view name,
                                           SpecialTokens special_tokens) {
  CAIRN_ASSIGN_OR_RETURN(ChatTemplate given,
                         ChatTemplate::parse(source, name, std::move(special_tokens)));
  return ChatFormat(std::move(given), std::nullopt);
}

Result<std::string> ChatFormat::render(const TemplateInputs& inputs, RenderError* error) const {
  const bool has_tools = inputs.tools.is_array() && !inputs.tools.empty();
  if (has_tools && tool_template_) return tool_template_->render(inputs, error);
  return default_template_.render(inputs, error);
}

}  // namespace cairn
