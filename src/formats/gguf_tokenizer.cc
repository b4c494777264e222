// The tokenizer part of a GGUF file, and what it says about sampling and stopping.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "formats/config_fields.h"
#include "formats/gguf_config.h"
#include "formats/gguf_vocabulary.h"
#include "formats/tensor_info.h"

namespace cairn {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr uint64_t kMaxTokens = 1 << 19;  // twice the largest published vocabulary
constexpr uint64_t kMaxMerges = 1 << 20;

// Control tokens with one of these texts end a turn, whatever else the file says. Source:
// llama.cpp, llama-vocab.cpp, the list behind llama_vocab_is_eog().
constexpr std::array<std::string_view, 13> kEndTexts = {"<|eot_id|>",
                                                        "<|im_end|>",
                                                        "<|end|>",
                                                        "<end_of_turn>",
                                                        "<|endoftext|>",
                                                        "<|eom_id|>",
                                                        "<EOT>",
                                                        "_<EOT>",
                                                        "[EOT]",
                                                        "[EOS]",
                                                        "<|return|>",
                                                        "<|end_of_text|>",
                                                        "<end_of_utterance>"};

std::string key(std::string_view setting) {
  return std::string(kPrefix) + std::string(setting);
}

Status read_id(const GgufMetadata& metadata,
               std::string_view setting,
               int64_t vocab_size,
               std::optional<uint32_t>* out) {
  // Some converters write -1, as u32, for a token that does not exist.
  CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> id,
                         metadata.find_int(key(setting), -1, UINT32_MAX));
  if (!id || *id < 0 || *id == UINT32_MAX) return Status::ok();
  if (vocab_size > 0 && *id >= vocab_size) {
    return Status::invalid_argument(fmt::format(
        "metadata {} is {}; the vocabulary has {} tokens", key(setting), *id, vocab_size));
  }
  *out = static_cast<uint32_t>(*id);
  return Status::ok();
}

Status check_length(std::string_view setting, size_t found, size_t n_tokens) {
  if (found == 0 || found == n_tokens) return Status::ok();
  return Status::invalid_argument(
      fmt::format("metadata {} has {} entries for {} tokens", key(setting), found, n_tokens));
}

Status read_types(const GgufMetadata& metadata, GgufVocabulary* vocabulary) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<double> types,
                         metadata.find_numbers(key("token_type"), kMaxTokens));
  CAIRN_RETURN_IF_ERROR(check_length("token_type", types.size(), vocabulary->tokens.size()));
  for (const double type : types) {
    if (!(type >= 1.0 && type <= 6.0)) {
      return Status::invalid_argument(
          fmt::format("metadata {} holds {}; wanted 1 to 6", key("token_type"), type));
    }
    vocabulary->token_types.push_back(static_cast<int32_t>(type));
  }
  return Status::ok();
}

Status read_arrays(const GgufMetadata& metadata, GgufVocabulary* vocabulary) {
  CAIRN_ASSIGN_OR_RETURN(vocabulary->tokens, metadata.find_strings(key("tokens"), kMaxTokens));
  if (vocabulary->tokens.empty()) {
    return Status::not_found("the file has no tokenizer.ggml.tokens: it holds no tokenizer");
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<double> scores,
                         metadata.find_numbers(key("scores"), kMaxTokens));
  CAIRN_RETURN_IF_ERROR(check_length("scores", scores.size(), vocabulary->tokens.size()));
  for (const double score : scores) vocabulary->scores.push_back(static_cast<float>(score));
  CAIRN_RETURN_IF_ERROR(read_types(metadata, vocabulary));
  CAIRN_ASSIGN_OR_RETURN(vocabulary->merges, metadata.find_strings(key("merges"), kMaxMerges));
  return Status::ok();
}

Status read_switches(const GgufMetadata& metadata, GgufVocabulary* vocabulary) {
  CAIRN_ASSIGN_OR_RETURN(vocabulary->add_bos_token, metadata.find_bool(key("add_bos_token")));
  CAIRN_ASSIGN_OR_RETURN(vocabulary->add_eos_token, metadata.find_bool(key("add_eos_token")));
  CAIRN_ASSIGN_OR_RETURN(vocabulary->add_space_prefix, metadata.find_bool(key("add_space_prefix")));
  return Status::ok();
}

// Adds control tokens that are known to end a turn.
Status add_end_texts(const GgufMetadata& metadata, std::vector<uint32_t>* ids) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens,
                         metadata.find_strings(key("tokens"), kMaxTokens));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<double> types,
                         metadata.find_numbers(key("token_type"), kMaxTokens));
  for (size_t i = 0; i < std::min(tokens.size(), types.size()); ++i) {
    if (types[i] != static_cast<double>(GgufVocabulary::kControl)) continue;
    if (std::find(kEndTexts.begin(), kEndTexts.end(), tokens[i]) == kEndTexts.end()) continue;
    const auto id = static_cast<uint32_t>(i);
    if (std::find(ids->begin(), ids->end(), id) == ids->end()) ids->push_back(id);
  }
  return Status::ok();
}

Status read_sampling(const GgufMetadata& metadata, GenerationConfig* config) {
  CAIRN_RETURN_IF_ERROR(
      read_float(metadata, "general.sampling.temp", 0.0, 1000.0, &config->temperature));
  CAIRN_RETURN_IF_ERROR(read_float(metadata, "general.sampling.top_p", 0.0, 1.0, &config->top_p));
  CAIRN_RETURN_IF_ERROR(read_float(metadata, "general.sampling.min_p", 0.0, 1.0, &config->min_p));
  CAIRN_RETURN_IF_ERROR(read_float(
      metadata, "general.sampling.penalty_repeat", 1e-6, 1000.0, &config->repetition_penalty));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<int64_t> top_k,
                         metadata.find_int("general.sampling.top_k", -1, INT32_MAX));
  if (top_k) config->top_k = static_cast<int>(*top_k);
  return Status::ok();
}

}  // namespace

Result<GenerationConfig> parse_gguf_generation_config(const GgufMetadata& metadata) {
  GenerationConfig config;
  for (const std::string_view setting : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    std::optional<uint32_t> id;
    CAIRN_RETURN_IF_ERROR(read_id(metadata, setting, 0, &id));
    const std::vector<uint32_t>& known = config.eos_token_ids;
    if (id && std::find(known.begin(), known.end(), *id) == known.end()) {
      config.eos_token_ids.push_back(*id);
    }
  }
  CAIRN_RETURN_IF_ERROR(add_end_texts(metadata, &config.eos_token_ids));
  CAIRN_RETURN_IF_ERROR(read_id(metadata, "bos_token_id", 0, &config.bos_token_id));
  CAIRN_RETURN_IF_ERROR(read_id(metadata, "padding_token_id", 0, &config.pad_token_id));
  CAIRN_RETURN_IF_ERROR(read_sampling(metadata, &config));
  return config;
}

Result<GgufVocabulary> parse_gguf_vocabulary(const GgufMetadata& metadata) {
  GgufVocabulary vocabulary;
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> model,
                         metadata.find_string(key("model")));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> pre, metadata.find_string(key("pre")));
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::string> chat_template,
                         metadata.find_string("tokenizer.chat_template"));
  vocabulary.model = model.value_or("");
  vocabulary.pre = pre.value_or("");
  vocabulary.chat_template = chat_template.value_or("");
  CAIRN_RETURN_IF_ERROR(read_arrays(metadata, &vocabulary));
  CAIRN_RETURN_IF_ERROR(read_switches(metadata, &vocabulary));
  const auto n_tokens = static_cast<int64_t>(vocabulary.tokens.size());
  CAIRN_RETURN_IF_ERROR(read_id(metadata, "bos_token_id", n_tokens, &vocabulary.bos_token_id));
  CAIRN_RETURN_IF_ERROR(read_id(metadata, "eos_token_id", n_tokens, &vocabulary.eos_token_id));
  CAIRN_RETURN_IF_ERROR(
      read_id(metadata, "unknown_token_id", n_tokens, &vocabulary.unknown_token_id));
  CAIRN_RETURN_IF_ERROR(
      read_id(metadata, "padding_token_id", n_tokens, &vocabulary.padding_token_id));
  return vocabulary;
}

std::vector<std::pair<std::string, std::string>> gguf_special_tokens(
    const GgufVocabulary& vocabulary) {
  std::vector<std::pair<std::string, std::string>> tokens;
  const auto add = [&](const char* name, const std::optional<uint32_t>& id) {
    if (id && *id < vocabulary.tokens.size()) tokens.emplace_back(name, vocabulary.tokens[*id]);
  };
  add("bos_token", vocabulary.bos_token_id);
  add("eos_token", vocabulary.eos_token_id);
  add("unk_token", vocabulary.unknown_token_id);
  add("pad_token", vocabulary.padding_token_id);
  return tokens;
}

}  // namespace cairn
