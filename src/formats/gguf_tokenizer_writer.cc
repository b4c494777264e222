// From a tokenizer.json to the tokenizer keys of a GGUF file.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "base/file_system.h"
#include "base/json.h"
#include "formats/gguf_from_hf.h"
#include "formats/gguf_pre_tokenizers.h"
#include "formats/gguf_vocabulary.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxTokenizerBytes = 256 << 20;
constexpr uint64_t kMaxTemplateBytes = 4 << 20;

// Nullopt when a path of keys leads to nothing.
const Json* look(const Json& json, std::initializer_list<const char*> keys) {
  const Json* at = &json;
  for (const char* key : keys) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &(*at)[key];
  }
  return at;
}

std::string text_at(const Json& json, std::initializer_list<const char*> keys) {
  const Json* value = look(json, keys);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

bool true_at(const Json& json, std::initializer_list<const char*> keys) {
  const Json* value = look(json, keys);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

// The pre-tokenizer's steps; a step that is no sequence is one of itself.
std::vector<const Json*> steps_of(const Json& node) {
  const Json* list = look(node, {"pretokenizers"});
  if (list == nullptr || !list->is_array()) return {&node};
  std::vector<const Json*> steps;
  for (const Json& step : *list) steps.push_back(&step);
  return steps;
}

// The expressions by which text is cut, of splits that end in bytes; nullopt for anything else.
std::optional<std::vector<std::string>> split_patterns(const Json& tokenizer) {
  const Json* pre = look(tokenizer, {"pre_tokenizer"});
  if (pre == nullptr) return std::nullopt;
  std::vector<const Json*> steps = steps_of(*pre);
  if (steps.empty() || text_at(*steps.back(), {"type"}) != "ByteLevel") return std::nullopt;
  const Json& bytes = *steps.back();
  steps.pop_back();
  std::vector<std::string> patterns;
  for (const Json* step : steps) {
    // The expressions with names match all of a text, so that keeping the matches alone, as some
    // files do, is the same as isolating them.
    const bool keeps_matches =
        text_at(*step, {"behavior"}) == (true_at(*step, {"invert"}) ? "Removed" : "Isolated");
    const std::string pattern = text_at(*step, {"pattern", "Regex"});
    if (text_at(*step, {"type"}) != "Split" || !keeps_matches || pattern.empty()) {
      return std::nullopt;
    }
    patterns.push_back(pattern);
  }
  const Json* use_regex = look(bytes, {"use_regex"});
  if (use_regex == nullptr || *use_regex != false) patterns.emplace_back(gpt2_split());
  if (true_at(bytes, {"add_prefix_space"})) return std::nullopt;
  return patterns;
}

Result<std::string> pre_tokenizer_name(const Json& tokenizer) {
  const std::optional<std::vector<std::string>> patterns = split_patterns(tokenizer);
  const Json* normalizer = look(tokenizer, {"normalizer"});
  const bool composes = text_at(tokenizer, {"normalizer", "type"}) == "NFC";
  const Json* steps = look(tokenizer, {"normalizer", "normalizers"});
  const bool leaves_text_alone =
      normalizer == nullptr || normalizer->is_null() || (steps != nullptr && steps->empty());
  if (patterns && (composes || leaves_text_alone)) {
    std::optional<bool> ignore_merges;
    if (look(tokenizer, {"model", "ignore_merges"}) != nullptr) {
      ignore_merges = true_at(tokenizer, {"model", "ignore_merges"});
    }
    const auto name = find_gguf_pre_tokenizer_name(*patterns, ignore_merges, composes);
    if (name) return std::string(*name);
  }
  return Status::unsupported(
      "the tokenizer normalises or splits text in a way that has no name in GGUF files known to "
      "this version");
}

// The tokens by id, with their types.
struct Tokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types;

  explicit Tokens(size_t n) : texts(n), types(n, GgufVocabulary::kUnused) {
    for (size_t i = 0; i < n; ++i) texts[i] = fmt::format("[PAD{}]", i);
  }

  Status put(const std::string& text, const Json& id, int32_t type) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= texts.size()) {
      return Status::invalid_argument(fmt::format(
          "token {:?} has id {}; the model has {} rows", text, dump_json(id), texts.size()));
    }
    texts[id.get<uint64_t>()] = text;
    types[id.get<uint64_t>()] = type;
    return Status::ok();
  }
};

Result<Tokens> read_tokens(const Json& tokenizer, int64_t vocab_size) {
  Tokens tokens(static_cast<size_t>(vocab_size));
  const Json* vocab = look(tokenizer, {"model", "vocab"});
  if (vocab == nullptr || !vocab->is_object()) {
    return Status::invalid_argument("model.vocab is missing or no object");
  }
  for (const auto& [text, id] : vocab->items()) {
    CAIRN_RETURN_IF_ERROR(tokens.put(text, id, GgufVocabulary::kNormal));
  }
  const Json* added = look(tokenizer, {"added_tokens"});
  if (added == nullptr || !added->is_array()) return tokens;
  for (const Json& token : *added) {
    const Json* id = look(token, {"id"});
    if (id == nullptr) return Status::invalid_argument("an added token has no id");
    CAIRN_RETURN_IF_ERROR(tokens.put(
        text_at(token, {"content"}),
        *id,
        true_at(token, {"special"}) ? GgufVocabulary::kControl : GgufVocabulary::kUserDefined));
  }
  return tokens;
}

Result<std::vector<std::string>> read_merges(const Json& tokenizer) {
  std::vector<std::string> merges;
  const Json* list = look(tokenizer, {"model", "merges"});
  if (list == nullptr || !list->is_array()) {
    return Status::invalid_argument("model.merges is missing or no array");
  }
  for (const Json& merge : *list) {
    if (merge.is_string()) {
      merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    } else {
      return Status::invalid_argument(
          fmt::format("merge {} is neither a string nor a pair", merges.size()));
    }
  }
  return merges;
}

Result<Json> read_json_file(const std::string& path, uint64_t max_bytes) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text,
                         read_text_file(posix_file_system(), path, max_bytes));
  return parse_json(text, path);
}

Status add_template_and_switches(const fs::path& folder, GgufMetadataBuilder* metadata) {
  Json settings = Json::object();
  auto read = read_json_file((folder / "tokenizer_config.json").string(), kMaxTemplateBytes);
  if (read.is_ok()) settings = std::move(read).value();
  if (!read.is_ok() && read.status().code() != StatusCode::kNotFound) return read.status();
  const Json* add_bos = look(settings, {"add_bos_token"});
  if (add_bos != nullptr && add_bos->is_boolean()) {
    metadata->add_bool("tokenizer.ggml.add_bos_token", add_bos->get<bool>());
  }
  std::string chat_template = text_at(settings, {"chat_template"});
  auto file = read_text_file(
      posix_file_system(), (folder / "chat_template.jinja").string(), kMaxTemplateBytes);
  if (file.is_ok()) chat_template = std::move(file).value();
  if (!chat_template.empty()) metadata->add_string("tokenizer.chat_template", chat_template);
  return Status::ok();
}

}  // namespace

Status add_gguf_tokenizer(const std::string& folder,
                          const HfConfig& config,
                          GgufMetadataBuilder* metadata) {
  const std::string path = (fs::path(folder) / "tokenizer.json").string();
  CAIRN_ASSIGN_OR_RETURN(const Json tokenizer, read_json_file(path, kMaxTokenizerBytes));
  if (text_at(tokenizer, {"model", "type"}) != "BPE" ||
      true_at(tokenizer, {"model", "byte_fallback"})) {
    return Status::unsupported(
        path + ": no byte-level BPE; this version writes only such tokenizers into GGUF files");
  }
  Result<std::string> pre = pre_tokenizer_name(tokenizer);
  if (!pre.is_ok()) return pre.status().with_prefix(path);
  Result<Tokens> tokens = read_tokens(tokenizer, config.vocab_size);
  if (!tokens.is_ok()) return tokens.status().with_prefix(path);
  Result<std::vector<std::string>> merges = read_merges(tokenizer);
  if (!merges.is_ok()) return merges.status().with_prefix(path);
  CAIRN_ASSIGN_OR_RETURN(const GenerationConfig generation, load_generation_config(folder));
  metadata->add_string("tokenizer.ggml.model", "gpt2");
  metadata->add_string("tokenizer.ggml.pre", *pre);
  metadata->add_strings("tokenizer.ggml.tokens", tokens->texts);
  metadata->add_i32s("tokenizer.ggml.token_type", tokens->types);
  metadata->add_strings("tokenizer.ggml.merges", *merges);
  if (!generation.eos_token_ids.empty()) {
    metadata->add_u32("tokenizer.ggml.eos_token_id", generation.eos_token_ids.front());
  }
  if (generation.bos_token_id) {
    metadata->add_u32("tokenizer.ggml.bos_token_id", *generation.bos_token_id);
  }
  if (generation.pad_token_id) {
    metadata->add_u32("tokenizer.ggml.padding_token_id", *generation.pad_token_id);
  }
  return add_template_and_switches(folder, metadata);
}

Status add_gguf_sampling(const std::string& folder, GgufMetadataBuilder* metadata) {
  CAIRN_ASSIGN_OR_RETURN(const GenerationConfig generation, load_generation_config(folder));
  if (generation.do_sample == false) {
    metadata->add_f32("general.sampling.temp", 0.0F);
    return Status::ok();
  }
  const auto add = [&](std::string_view key, const std::optional<float>& value) {
    if (value) metadata->add_f32(key, *value);
  };
  add("general.sampling.temp", generation.temperature);
  add("general.sampling.top_p", generation.top_p);
  add("general.sampling.min_p", generation.min_p);
  add("general.sampling.penalty_repeat", generation.repetition_penalty);
  if (generation.top_k) metadata->add_i32("general.sampling.top_k", *generation.top_k);
  return Status::ok();
}

}  // namespace cairn
