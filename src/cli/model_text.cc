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

bool is_folder(const std::string& model) {
  std::error_code ignored;
  return std::filesystem::is_directory(model, ignored);
}

// The text side of one model; a GGUF file's vocabulary is read once, when it is first needed.
class ModelText {
 public:
  ModelText(const std::string& model, std::shared_ptr<const Checkpoint> checkpoint)
      : model_(model), checkpoint_(std::move(checkpoint)) {}

  Result<std::shared_ptr<const Tokenizer>> tokenizer();
  Result<ChatFormat> chat(const std::string& template_file);

 private:
  Status read_vocabulary();
  Result<ChatFormat> gguf_chat(const std::string& template_file);

  const std::string& model_;
  std::shared_ptr<const Checkpoint> checkpoint_;  // null: not opened yet
  std::optional<GgufVocabulary> vocabulary_;      // views of the checkpoint's file
};

// Errors: kNotFound when the model is no GGUF file and has none.
Status ModelText::read_vocabulary() {
  if (vocabulary_) return Status::ok();
  if (!checkpoint_) {
    CAIRN_ASSIGN_OR_RETURN(checkpoint_, Checkpoint::open(model_));
  }
  const GgufMetadata* metadata = checkpoint_->gguf_metadata();
  if (metadata == nullptr) return Status::not_found(model_ + " holds no GGUF file");
  auto vocabulary = parse_gguf_vocabulary(*metadata);
  if (!vocabulary.is_ok()) return vocabulary.status().with_prefix(model_);
  vocabulary_ = std::move(*vocabulary);
  return Status::ok();
}

Result<ChatFormat> ModelText::gguf_chat(const std::string& template_file) {
  CAIRN_RETURN_IF_ERROR(read_vocabulary());
  std::string source = vocabulary_->chat_template;
  if (!template_file.empty()) {
    CAIRN_ASSIGN_OR_RETURN(source,
                           read_text_file(posix_file_system(), template_file, kTemplateBytesMax));
  } else if (source.empty()) {
    return Status::not_found(
        fmt::format("{}: the file has no chat template; give one with --template", model_));
  }
  return ChatFormat::from_source(
      source, template_file.empty() ? model_ : template_file, gguf_special_tokens(*vocabulary_));
}

Result<std::shared_ptr<const Tokenizer>> ModelText::tokenizer() {
  if (is_folder(model_)) {
    auto tokenizer = Tokenizer::load(model_);
    if (tokenizer.status().code() != StatusCode::kNotFound) return tokenizer;
  }
  const Status status = read_vocabulary();
  if (status.is_ok()) return Tokenizer::from_gguf(*vocabulary_);
  if (is_folder(model_) && status.code() == StatusCode::kNotFound) {
    return Status::not_found(
        fmt::format("model {} has no tokenizer.json and no tokenizer.model, so it cannot take "
                    "text; add the file, or use `cairn score` and `cairn generate-ids`, which "
                    "take ids",
                    model_));
  }
  return status;
}

Result<ChatFormat> ModelText::chat(const std::string& template_file) {
  if (!is_folder(model_)) return gguf_chat(template_file);
  std::optional<std::string> own_template;
  if (!template_file.empty()) own_template = template_file;
  auto chat = ChatFormat::load(model_, own_template);
  if (chat.status().code() != StatusCode::kNotFound || !template_file.empty()) return chat;
  auto from_gguf = gguf_chat(template_file);
  return from_gguf.is_ok() ? std::move(from_gguf) : std::move(chat);
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::string& model) {
  return ModelText(model, nullptr).tokenizer();
}

Result<ChatFormat> load_chat_format(const std::string& model, const std::string& template_file) {
  return ModelText(model, nullptr).chat(template_file);
}

Result<TextParts> load_text_parts(const std::string& model,
                                  const std::string& template_file,
                                  std::shared_ptr<const Checkpoint> checkpoint) {
  ModelText text(model, std::move(checkpoint));
  TextParts parts;
  CAIRN_ASSIGN_OR_RETURN(parts.tokenizer, text.tokenizer());
  auto chat = text.chat(template_file);
  if (chat.is_ok()) {
    parts.chat = std::make_shared<const ChatFormat>(std::move(*chat));
  } else if (chat.status().code() != StatusCode::kNotFound || !template_file.empty()) {
    return chat.status();
  }
  return parts;
}

}  // namespace cairn::cli
