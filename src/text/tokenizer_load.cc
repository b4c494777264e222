// Finds and opens tokenizer files.
#include <fmt/core.h>

#include <utility>

#include "base/json_view.h"
#include "base/mapping.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace cairn {

namespace {

// The largest known file has 33 MB (Gemma 3).
constexpr uint64_t kFileBytesMax = uint64_t{64} << 20U;

// The largest known .model file has 5 MB (XLM-R).
constexpr uint64_t kModelBytesMax = uint64_t{32} << 20U;

// The largest known tokenizer_config.json has 1.2 MB (Gemma 3).
constexpr uint64_t kConfigBytesMax = uint64_t{8} << 20U;

// Real files nest about eight deep.
constexpr size_t kDepthMax = 64;

Result<std::shared_ptr<const Tokenizer>> read_root(const tokenizer_json::Members& root) {
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

std::string_view text_of(const Mapping& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

Result<std::shared_ptr<const Tokenizer>> load_text(std::string_view json) {
  CAIRN_ASSIGN_OR_RETURN(const JsonDocument document,
                         JsonDocument::parse(json, "tokenizer.json", kDepthMax));
  if (!document.root().is_object()) return Status::corruption("tokenizer.json: not a mapping");
  return read_root(tokenizer_json::Members(
      document.root(),
      {"normalizer", "pre_tokenizer", "post_processor", "decoder", "model", "added_tokens"}));
}

// Read where it lies: the largest files have tens of megabytes, and little of that is kept.
Result<Mapping> map_file(const std::string& path, uint64_t n_bytes_max) {
  CAIRN_ASSIGN_OR_RETURN(Mapping file, Mapping::open(path));
  if (file.bytes().size() <= n_bytes_max) return file;
  return Status::invalid_argument(
      fmt::format("{}: {} bytes, at most {} are read; no real file of this kind is so large",
                  path,
                  file.bytes().size(),
                  n_bytes_max));
}

// tokenizer_config.json may say which tokens a SentencePiece model adds.
Result<SentencePieceOptions> read_options(const std::string& model_dir) {
  SentencePieceOptions options;
  const std::string path = model_dir + "/tokenizer_config.json";
  const auto file = map_file(path, kConfigBytesMax);
  if (!file.is_ok()) {
    if (file.status().code() == StatusCode::kNotFound) return options;
    return file.status();
  }
  CAIRN_ASSIGN_OR_RETURN(const JsonDocument document,
                         JsonDocument::parse(text_of(*file), path, kDepthMax));
  if (!document.root().is_object()) return Status::corruption(path + ": not a mapping");
  const tokenizer_json::Members root(document.root(), {"add_bos_token", "add_eos_token"});
  CAIRN_ASSIGN_OR_RETURN(options.adds_bos,
                         tokenizer_json::bool_member(root, "add_bos_token", options.adds_bos));
  CAIRN_ASSIGN_OR_RETURN(options.adds_eos,
                         tokenizer_json::bool_member(root, "add_eos_token", options.adds_eos));
  return options;
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& model_dir) {
  const auto json = map_file(model_dir + "/tokenizer.json", kFileBytesMax);
  if (json.is_ok()) {
    auto tokenizer = load_text(text_of(*json));
    if (!tokenizer.is_ok()) return tokenizer.status().with_prefix(model_dir);
    return tokenizer;
  }
  if (json.status().code() != StatusCode::kNotFound) return json.status();
  const auto model = map_file(model_dir + "/tokenizer.model", kModelBytesMax);
  // Of the two missing files the first is the one to name.
  if (!model.is_ok() && model.status().code() == StatusCode::kNotFound) return json.status();
  if (!model.is_ok()) return model.status();
  CAIRN_ASSIGN_OR_RETURN(const SentencePieceOptions options, read_options(model_dir));
  auto tokenizer = from_sentencepiece(text_of(*model), options);
  if (!tokenizer.is_ok()) return tokenizer.status().with_prefix(model_dir);
  return tokenizer;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json) {
  return load_text(tokenizer_json);
}

}  // namespace cairn
