// The files about text of a converted folder.
#include <filesystem>

#include "base/coding.h"
#include "base/file_system.h"
#include "base/json.h"
#include "formats/gguf_config.h"
#include "formats/hf_from_gguf.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

Status write_file(const fs::path& path, const std::string& text) {
  return write_file_atomically(posix_file_system(), path.string(), as_bytes(text));
}

Json generation_json(const GenerationConfig& config) {
  Json json = Json::object();
  if (config.bos_token_id) json["bos_token_id"] = *config.bos_token_id;
  if (!config.eos_token_ids.empty()) json["eos_token_id"] = config.eos_token_ids;
  if (config.pad_token_id) json["pad_token_id"] = *config.pad_token_id;
  const auto add = [&](const char* name, const std::optional<float>& value) {
    if (value) json[name] = json_float(*value);
  };
  if (config.temperature) json["do_sample"] = *config.temperature > 0.0F;
  if (config.temperature > 0.0F) add("temperature", config.temperature);
  add("top_p", config.top_p);
  add("min_p", config.min_p);
  add("repetition_penalty", config.repetition_penalty);
  if (config.top_k) json["top_k"] = *config.top_k;
  return json;
}

Json tokenizer_config_json(const GgufVocabulary& vocabulary) {
  Json json = Json::object();
  for (const auto& [name, text] : gguf_special_tokens(vocabulary)) json[name] = text;
  if (vocabulary.add_bos_token) json["add_bos_token"] = *vocabulary.add_bos_token;
  if (vocabulary.add_eos_token) json["add_eos_token"] = *vocabulary.add_eos_token;
  json["clean_up_tokenization_spaces"] = false;
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  return json;
}

Status write_tokenizer(const GgufVocabulary& vocabulary,
                       const fs::path& folder,
                       ConvertSummary* summary) {
  const Result<std::string> json = tokenizer_json_of(vocabulary);
  if (json.is_ok()) {
    CAIRN_RETURN_IF_ERROR(write_file(folder / "tokenizer.json", *json));
  } else {
    summary->notes.push_back("the tokenizer is left out: " + json.status().message());
  }
  CAIRN_RETURN_IF_ERROR(write_file(folder / "tokenizer_config.json",
                                   tokenizer_config_json(vocabulary).dump(2) + "\n"));
  if (vocabulary.chat_template.empty()) return Status::ok();
  return write_file(folder / "chat_template.jinja", vocabulary.chat_template);
}

}  // namespace

Status write_text_files(const GgufMetadata& metadata,
                        const std::string& folder,
                        ConvertSummary* summary) {
  CAIRN_ASSIGN_OR_RETURN(const GenerationConfig generation, parse_gguf_generation_config(metadata));
  CAIRN_RETURN_IF_ERROR(write_file(fs::path(folder) / "generation_config.json",
                                   dump_json(generation_json(generation)) + "\n"));
  const Result<GgufVocabulary> vocabulary = parse_gguf_vocabulary(metadata);
  if (vocabulary.is_ok()) return write_tokenizer(*vocabulary, folder, summary);
  if (vocabulary.status().code() != StatusCode::kNotFound) return vocabulary.status();
  summary->notes.push_back("the tokenizer is left out: " + vocabulary.status().message());
  return Status::ok();
}

}  // namespace cairn
