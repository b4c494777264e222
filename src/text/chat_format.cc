#include "text/chat_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "base/json_view.h"
#include "base/mapping.h"

namespace cairn {

namespace {

// Configurations are read where they lie, and little of them is kept. One that describes 65,536
// added tokens has 13 MB.
constexpr uint64_t kConfigBytesMax = uint64_t{64} << 20U;
constexpr size_t kDepthMax = 64;
constexpr size_t kTokenBytesMax = 1024;

// The variables that templates know (Hugging Face's special_tokens_map).
constexpr std::string_view kTokenNames[] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
constexpr std::string_view kTemplateName = "chat_template";

struct Sources {
  std::string default_template;
  std::optional<std::string> tool_template;
};

Status too_long(const std::string& path,
                std::string_view what,
                size_t n_bytes,
                size_t n_bytes_max) {
  return Status::invalid_argument(
      fmt::format("{}: {} has {} bytes, at most {} are read", path, what, n_bytes, n_bytes_max));
}

// A template file that may be missing.
Result<std::optional<std::string>> read_optional(const std::string& path) {
  auto text = read_text_file(posix_file_system(), path, ChatTemplate::kSourceBytesMax);
  if (text.is_ok()) return std::optional<std::string>(std::move(text).value());
  if (text.status().code() == StatusCode::kNotFound) return std::optional<std::string>();
  return text.status();
}

// What is wanted of a JSON file.
class ConfigFile {
 public:
  // Without members when there is no such file.
  static Result<ConfigFile> open(const std::string& path) {
    ConfigFile config(path);
    auto file = Mapping::open(path);
    if (!file.is_ok() && file.status().code() == StatusCode::kNotFound) return config;
    if (!file.is_ok()) return file.status();
    config.file_ = std::move(file).value();
    const std::span<const std::byte> bytes = config.file_.bytes();
    if (bytes.size() > kConfigBytesMax) {
      return too_long(path, "the file", bytes.size(), kConfigBytesMax);
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    auto document = JsonDocument::parse(text, path, kDepthMax, JsonWords::kWithInfinity);
    if (!document.is_ok()) return Status::invalid_argument(document.status().message());
    config.document_ = std::move(document).value();
    if (!config.document_->root().is_object()) {
      return Status::invalid_argument(path + ": not a mapping");
    }
    std::vector<std::string_view> names(std::begin(kTokenNames), std::end(kTokenNames));
    names.push_back(kTemplateName);
    config.members_ = JsonMembers(config.document_->root(), names);
    return config;
  }

  const std::string& path() const { return path_; }

  std::optional<JsonView> find(std::string_view name) const { return members_.find(name); }

 private:
  explicit ConfigFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
  Mapping file_;
  std::optional<JsonDocument> document_;
  JsonMembers members_{JsonView(), {}};
};

// A token is spelt "<s>" or {"content": "<s>", ...}.
Status add_tokens(const ConfigFile& config, SpecialTokens& out) {
  for (const std::string_view name : kTokenNames) {
    const bool is_known = std::any_of(
        out.begin(), out.end(), [name](const auto& known) { return known.first == name; });
    auto token = config.find(name);
    if (is_known || !token) continue;
    if (const auto content = token->find("content")) token = content;
    const auto raw = token->raw_string();
    if (!raw) continue;
    if (raw->size() > kTokenBytesMax) {
      return too_long(config.path(), name, raw->size(), kTokenBytesMax);
    }
    out.emplace_back(name, *token->string());
  }
  return Status::ok();
}

Result<std::string> template_text(const JsonView& text, const std::string& path) {
  const auto raw = text.raw_string();
  // What is escaped is longer than what it stands for, six times at most.
  if (raw && raw->size() > 6 * ChatTemplate::kSourceBytesMax) {
    return too_long(path, kTemplateName, raw->size(), ChatTemplate::kSourceBytesMax);
  }
  if (raw) return *text.string();
  return Status::invalid_argument(path + ": an entry of \"chat_template\" is no {name, template}");
}

Result<Sources> read_named_templates(const JsonView& list, const std::string& path) {
  Sources sources;
  bool has_default = false;
  for (auto entries = list.items(); const auto entry = entries.next();) {
    const auto name = entry->value.find("name").value_or(JsonView()).raw_string();
    CAIRN_ASSIGN_OR_RETURN(std::string text,
                           template_text(entry->value.find("template").value_or(JsonView()), path));
    if (!name) {
      return Status::invalid_argument(path +
                                      ": an entry of \"chat_template\" is no {name, template}");
    }
    if (*name == "default") {
      sources.default_template = std::move(text);
      has_default = true;
    } else if (*name == "tool_use") {
      sources.tool_template = std::move(text);
    }
  }
  if (!has_default) {
    return Status::invalid_argument(path + ": \"chat_template\" has no entry named \"default\"");
  }
  return sources;
}

Result<Sources> read_model_templates(const std::string& model_dir, const ConfigFile& config) {
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> file,
                         read_optional(model_dir + "/chat_template.jinja"));
  if (file) return Sources{*file, std::nullopt};
  const auto entry = config.find(kTemplateName);
  if (!entry || entry->is_null()) {
    return Status::not_found(
        fmt::format("{}: no chat_template.jinja and no \"chat_template\" in tokenizer_config.json; "
                    "give one with --template",
                    model_dir));
  }
  if (entry->raw_string()) {
    CAIRN_ASSIGN_OR_RETURN(std::string text, template_text(*entry, config.path()));
    return Sources{std::move(text), std::nullopt};
  }
  if (entry->kind() == JsonView::Kind::kArray) return read_named_templates(*entry, config.path());
  return Status::invalid_argument(config.path() + ": \"chat_template\" is neither text nor a list");
}

}  // namespace

ChatFormat::ChatFormat(ChatTemplate default_template, std::optional<ChatTemplate> tool_template)
    : default_template_(std::move(default_template)), tool_template_(std::move(tool_template)) {}

Result<ChatFormat> ChatFormat::load(const std::string& model_dir,
                                    const std::optional<std::string>& template_path) {
  CAIRN_ASSIGN_OR_RETURN(const ConfigFile config,
                         ConfigFile::open(model_dir + "/tokenizer_config.json"));
  CAIRN_ASSIGN_OR_RETURN(const ConfigFile map,
                         ConfigFile::open(model_dir + "/special_tokens_map.json"));
  SpecialTokens tokens;
  CAIRN_RETURN_IF_ERROR(add_tokens(config, tokens));
  CAIRN_RETURN_IF_ERROR(add_tokens(map, tokens));
  if (template_path) {
    CAIRN_ASSIGN_OR_RETURN(
        const std::string source,
        read_text_file(posix_file_system(), *template_path, ChatTemplate::kSourceBytesMax));
    CAIRN_ASSIGN_OR_RETURN(ChatTemplate given, ChatTemplate::parse(source, *template_path, tokens));
    return ChatFormat(std::move(given), std::nullopt);
  }
  CAIRN_ASSIGN_OR_RETURN(const Sources sources, read_model_templates(model_dir, config));
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
