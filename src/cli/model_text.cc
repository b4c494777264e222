#include "cli/model_text.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "base/file_system.h"
#include "formats/checkpoint.h"
#include "formats/gguf_config.h"
#include "text/gguf_vocabulary.h"

namespace cairn::cli {
namespace {

constexpr uint64_t kTemplateBytesMax = 4 << 20;

// A GGUF file and what it says about text; the views need the file.
struct GgufText {
  std::shared_ptr<const Checkpoint> checkpoint;
  GgufTokenizerFields fields;
};

// Errors: kNotFound when `model` is no GGUF file and has none.
Result<GgufText> open_gguf_text(const std::string& model) {
  GgufText text;
  CAIRN_ASSIGN_OR_RETURN(text.checkpoint, Checkpoint::open(model));
  const GgufMetadata* metadata = text.checkpoint->gguf_metadata();
  if (metadata == nullptr) return Status::not_found(model + " holds no GGUF file");
  auto fields = parse_gguf_tokenizer(*metadata);
  if (!fields.is_ok()) return fields.status().with_prefix(model);
  text.fields = std::move(*fields);
  return text;
}

bool is_folder(const std::string& model) {
  std::error_code ignored;
  return std::filesystem::is_directory(model, ignored);
}

Result<std::shared_ptr<const Tokenizer>> gguf_tokenizer(const GgufTokenizerFields& fields) {
  GgufVocabulary vocabulary;
  vocabulary.model = fields.model;
  vocabulary.pre = fields.pre;
  vocabulary.tokens = fields.tokens;
  vocabulary.scores = fields.scores;
  vocabulary.token_types = fields.token_types;
  vocabulary.merges = fields.merges;
  vocabulary.bos_token_id = fields.bos_token_id;
  vocabulary.eos_token_id = fields.eos_token_id;
  vocabulary.unknown_token_id = fields.unknown_token_id;
  vocabulary.add_bos_token = fields.add_bos_token;
  vocabulary.add_eos_token = fields.add_eos_token;
  vocabulary.add_space_prefix = fields.add_space_prefix;
  return Tokenizer::from_gguf(vocabulary);
}

// The variables that templates print.
SpecialTokens special_tokens(const GgufTokenizerFields& fields) {
  SpecialTokens tokens;
  const auto add = [&](const char* name, const std::optional<uint32_t>& id) {
    if (id && *id < fields.tokens.size()) tokens.emplace_back(name, fields.tokens[*id]);
  };
  add("bos_token", fields.bos_token_id);
  add("eos_token", fields.eos_token_id);
  add("unk_token", fields.unknown_token_id);
  add("pad_token", fields.padding_token_id);
  return tokens;
}

Result<ChatFormat> gguf_chat_format(const std::string& model, const std::string& template_file) {
  CAIRN_ASSIGN_OR_RETURN(const GgufText text, open_gguf_text(model));
  std::string source = text.fields.chat_template;
  if (!template_file.empty()) {
    CAIRN_ASSIGN_OR_RETURN(source,
                           read_text_file(posix_file_system(), template_file, kTemplateBytesMax));
  } else if (source.empty()) {
    return Status::not_found(
        fmt::format("{}: the file has no chat template; give one with --template", model));
  }
  return ChatFormat::from_source(
      source, template_file.empty() ? model : template_file, special_tokens(text.fields));
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::string& model) {
  if (is_folder(model)) {
    auto tokenizer = Tokenizer::load(model);
    if (tokenizer.status().code() != StatusCode::kNotFound) return tokenizer;
  }
  const auto text = open_gguf_text(model);
  if (text.is_ok()) return gguf_tokenizer(text->fields);
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
