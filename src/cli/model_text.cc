#include "cli/model_text.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "base/file_system.h"
#include "formats/checkpoint.h"
#include "formats/gguf_vocabulary.h"

namespace cairn::cli {
namespace {

constexpr uint64_t kTemplateBytesMax = 4 << 20;

// A GGUF file and what it says about text; the views need the file.
struct GgufText {
  std::shared_ptr<const Checkpoint> checkpoint;
  GgufVocabulary vocabulary;
};

// Errors: kNotFound when `model` is no GGUF file and has none.
Result<GgufText> open_gguf_text(const std::string& model) {
  GgufText text;
  CAIRN_ASSIGN_OR_RETURN(text.checkpoint, Checkpoint::open(model));
  const GgufMetadata* metadata = text.checkpoint->gguf_metadata();
  if (metadata == nullptr) return Status::not_found(model + " holds no GGUF file");
  auto vocabulary = parse_gguf_vocabulary(*metadata);
  if (!vocabulary.is_ok()) return vocabulary.status().with_prefix(model);
  text.vocabulary = std::move(*vocabulary);
  return text;
}

bool is_folder(const std::string& model) {
  std::error_code ignored;
  return std::filesystem::is_directory(model, ignored);
}

Result<ChatFormat> gguf_chat_format(const std::string& model, const std::string& template_file) {
  CAIRN_ASSIGN_OR_RETURN(const GgufText text, open_gguf_text(model));
  std::string source = text.vocabulary.chat_template;
  if (!template_file.empty()) {
    CAIRN_ASSIGN_OR_RETURN(source,
                           read_text_file(posix_file_system(), template_file, kTemplateBytesMax));
  } else if (source.empty()) {
    return Status::not_found(
        fmt::format("{}: the file has no chat template; give one with --template", model));
  }
  return ChatFormat::from_source(
      source, template_file.empty() ? model : template_file, gguf_special_tokens(text.vocabulary));
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::string& model) {
  if (is_folder(model)) {
    auto tokenizer = Tokenizer::load(model);
    if (tokenizer.status().code() != StatusCode::kNotFound) return tokenizer;
  }
  const auto text = open_gguf_text(model);
  if (text.is_ok()) return Tokenizer::from_gguf(text->vocabulary);
  if (is_folder(model) && text.status().code() == StatusCode::kNotFound) {
    return Status::not_found(
        fmt::format("model {} has no tokenizer.json and no tokenizer.model, so it cannot take "
                    "text; add the file, or use `cairn score` and `cairn generate-ids`, which "
                    "take ids",
                    model));
  }
  return text.status();
}

Result<ChatFormat> load_chat_format(const std::string& model, const std::string& template_file) {
  if (!is_folder(model)) return gguf_chat_format(model, template_file);
  std::optional<std::string> own_template;
  if (!template_file.empty()) own_template = template_file;
  auto chat = ChatFormat::load(model, own_template);
  if (chat.status().code() != StatusCode::kNotFound || !template_file.empty()) return chat;
  auto from_gguf = gguf_chat_format(model, template_file);
  return from_gguf.is_ok() ? std::move(from_gguf) : std::move(chat);
}

Result<TextParts> load_text_parts(const std::string& model, const std::string& template_file) {
  TextParts parts;
  CAIRN_ASSIGN_OR_RETURN(parts.tokenizer, load_tokenizer(model));
  auto chat = load_chat_format(model, template_file);
  if (chat.is_ok()) {
    parts.chat = std::make_shared<const ChatFormat>(std::move(*chat));
  } else if (chat.status().code() != StatusCode::kNotFound || !template_file.empty()) {
    return chat.status();
  }
  return parts;
}

}  // namespace cairn::cli
