// Finds and opens tokenizer files.
#include <fmt/core.h>
#include <simdjson.h>

#include <utility>

#include "base/file_system.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace cairn {

namespace {

// The largest known file has 33 MB (Gemma 3).
constexpr uint64_t kFileBytesMax = uint64_t{64} << 20U;

// The largest known .model file has 5 MB (XLM-R).
constexpr uint64_t kModelBytesMax = uint64_t{32} << 20U;

Result<std::shared_ptr<const Tokenizer>> read_root(const simdjson::dom::element& root) {
  TokenizerBuilder builder("tokenizer.json");
  if (!tokenizer_json::member(root, "model")) return builder.damaged("\"model\" is missing");
  auto& parts = builder.parts();
  CAIRN_ASSIGN_OR_RETURN(parts.normalizer, tokenizer_json::read_normalizer(root, builder));
  CAIRN_ASSIGN_OR_RETURN(tokenizer_json::Cutting cutting,
                         tokenizer_json::read_pre_tokenizer(root, builder));
  CAIRN_ASSIGN_OR_RETURN(const tokenizer_json::Spelling spelling,
                         tokenizer_json::read_decoder(root, builder));
  if (cutting.is_byte_level != spelling.is_byte_level) {
    return builder.unsupported("only one of pre-tokenizer and decoder is ByteLevel");
  }
  parts.pre_tokenizer = PreTokenizer(std::move(cutting.splits), std::move(cutting.front));
  parts.front = spelling.front;
  CAIRN_RETURN_IF_ERROR(tokenizer_json::read_model(root, spelling, builder));
  CAIRN_RETURN_IF_ERROR(tokenizer_json::read_post_processor(root, builder));
  return builder.finish(true);
}

Result<std::shared_ptr<const Tokenizer>> load_padded(const simdjson::padded_string& json) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.parse(json).get(root); error != simdjson::SUCCESS) {
    return Status::corruption(
        fmt::format("tokenizer.json: not JSON: {}", simdjson::error_message(error)));
  }
  if (!root.is_object()) return Status::corruption("tokenizer.json: not a mapping");
  return read_root(root);
}

// Straight into the padded memory that simdjson wants: a vocabulary is 10 MB and more.
Result<simdjson::padded_string> read_padded(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const auto file, posix_file_system().open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileStat stat, file->stat());
  if (stat.size_bytes > kFileBytesMax) {
    return Status::invalid_argument(
        fmt::format("{}: {} bytes, at most {} are read", path, stat.size_bytes, kFileBytesMax));
  }
  simdjson::padded_string json(static_cast<size_t>(stat.size_bytes));
  CAIRN_RETURN_IF_ERROR(
      file->read_at(0, std::as_writable_bytes(std::span<char>(json.data(), json.size()))));
  return json;
}

// tokenizer_config.json may say which tokens a SentencePiece model adds.
Result<SentencePieceOptions> read_options(const std::string& model_dir) {
  SentencePieceOptions options;
  const auto json = read_padded(model_dir + "/tokenizer_config.json");
  if (!json.is_ok()) {
    if (json.status().code() == StatusCode::kNotFound) return options;
    return json.status();
  }
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(*json).get(root) != simdjson::SUCCESS || !root.is_object()) {
    return Status::corruption(fmt::format("{}/tokenizer_config.json: not a mapping", model_dir));
  }
  CAIRN_ASSIGN_OR_RETURN(options.adds_bos,
                         tokenizer_json::bool_member(root, "add_bos_token", options.adds_bos));
  CAIRN_ASSIGN_OR_RETURN(options.adds_eos,
                         tokenizer_json::bool_member(root, "add_eos_token", options.adds_eos));
  return options;
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& model_dir) {
  const auto json = read_padded(model_dir + "/tokenizer.json");
  if (json.is_ok()) {
    auto tokenizer = load_padded(*json);
    if (!tokenizer.is_ok()) return tokenizer.status().with_prefix(model_dir);
    return tokenizer;
  }
  if (json.status().code() != StatusCode::kNotFound) return json.status();
  const auto model =
      read_text_file(posix_file_system(), model_dir + "/tokenizer.model", kModelBytesMax);
  // Of the two missing files the first is the one to name.
  if (!model.is_ok() && model.status().code() == StatusCode::kNotFound) return json.status();
  if (!model.is_ok()) return model.status();
  CAIRN_ASSIGN_OR_RETURN(const SentencePieceOptions options, read_options(model_dir));
  auto tokenizer = from_sentencepiece(*model, options);
  if (!tokenizer.is_ok()) return tokenizer.status().with_prefix(model_dir);
  return tokenizer;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json) {
  return load_padded(simdjson::padded_string(tokenizer_json));
}

}  // namespace cairn
