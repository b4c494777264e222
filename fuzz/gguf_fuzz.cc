// Any bytes as a GGUF file: refused, or a layout that holds what it says.
#include <cstdint>

#include "base/check.h"
#include "base/json.h"
#include "formats/gguf.h"
#include "formats/gguf_config.h"
#include "formats/gguf_vocabulary.h"
#include "formats/hf_from_gguf.h"

namespace {

void check_layout(const cairn::GgufLayout& layout, uint64_t n_file) {
  uint64_t end = 0;
  for (const cairn::TensorInfo& tensor : layout.tensors) {
    const auto n_bytes = cairn::tensor_bytes(tensor.dtype, tensor.shape);
    CAIRN_CHECK(n_bytes.is_ok() && *n_bytes == tensor.n_bytes, "shape and size agree");
    CAIRN_CHECK(tensor.offset >= end, "no overlap");
    CAIRN_CHECK(tensor.offset <= n_file && tensor.n_bytes <= n_file - tensor.offset, "inside");
    end = tensor.offset + tensor.n_bytes;
  }
}

// Every value is asked for as every type: the answers do not matter, staying inside does.
void read_metadata(const cairn::GgufMetadata& metadata) {
  constexpr uint64_t kMaxCount = 1 << 16;
  for (const cairn::GgufEntry& entry : metadata.entries()) {
    CAIRN_CHECK(metadata.find(entry.key) == &entry.value, "found under its key");
    static_cast<void>(cairn::describe(entry.value, 16));
    static_cast<void>(metadata.find_int(entry.key, INT64_MIN, INT64_MAX).is_ok());
    static_cast<void>(metadata.find_number(entry.key, -1e300, 1e300).is_ok());
    static_cast<void>(metadata.find_bool(entry.key).is_ok());
    static_cast<void>(metadata.find_string(entry.key).is_ok());
    static_cast<void>(metadata.find_strings(entry.key, kMaxCount).is_ok());
    static_cast<void>(metadata.find_numbers(entry.key, kMaxCount).is_ok());
  }
}

void read_model(const cairn::GgufMetadata& metadata) {
  cairn::GgufTensorFacts facts;
  facts.n_vocab_rows = 3;
  const auto config = cairn::parse_gguf_config(metadata, facts);
  if (config.is_ok()) {
    CAIRN_CHECK(config->num_attention_heads % config->num_key_value_heads == 0, "whole groups");
    CAIRN_CHECK(config->head_dim % 2 == 0, "rope turns pairs");
    CAIRN_CHECK(config->layer_types.size() == static_cast<size_t>(config->num_hidden_layers),
                "one kind a layer");
  }
  static_cast<void>(cairn::parse_gguf_generation_config(metadata).is_ok());
  const auto vocabulary = cairn::parse_gguf_vocabulary(metadata);
  if (!vocabulary.is_ok()) return;
  const size_t n = vocabulary->tokens.size();
  CAIRN_CHECK(vocabulary->scores.empty() || vocabulary->scores.size() == n, "scores");
  CAIRN_CHECK(vocabulary->token_types.empty() || vocabulary->token_types.size() == n, "types");
  CAIRN_CHECK(vocabulary->eos_token_id.value_or(0) < n, "an id of a token");
  const auto json = cairn::tokenizer_json_of(*vocabulary);
  CAIRN_CHECK(!json.is_ok() || cairn::parse_json(*json, "written").is_ok(), "JSON is written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto layout = cairn::parse_gguf({reinterpret_cast<const std::byte*>(data), size});
  if (!layout.is_ok()) {
    CAIRN_CHECK(!layout.status().message().empty(), "errors say something");
    return 0;
  }
  check_layout(*layout, size);
  read_metadata(layout->metadata);
  read_model(layout->metadata);
  return 0;
}
