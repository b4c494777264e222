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

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& model_dir) {
  CAIRN_ASSIGN_OR_RETURN(const simdjson::padded_string json,
                         read_padded(model_dir + "/tokenizer.json"));
  auto tokenizer = load_padded(json);
  if (!tokenizer.is_ok()) return tokenizer.status().with_prefix(model_dir);
  return tokenizer;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_json(std::string_view tokenizer_json) {
  return load_padded(simdjson::padded_string(tokenizer_json));
}

}  // namespace cairn
