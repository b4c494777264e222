// Any text as config.json and generation_config.json: refused, or numbers that the model may trust.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "formats/hf_config.h"

namespace {

void check_config(const cairn::HfConfig& config) {
  CAIRN_CHECK(config.hidden_size > 0 && config.hidden_size <= 1 << 20, "hidden_size");
  CAIRN_CHECK(config.num_key_value_heads > 0, "num_key_value_heads");
  CAIRN_CHECK(config.num_attention_heads % config.num_key_value_heads == 0, "heads divide");
  CAIRN_CHECK(config.head_dim > 0 && config.head_dim % 2 == 0, "head_dim");
  CAIRN_CHECK(config.layer_types.size() == static_cast<size_t>(config.num_hidden_layers), "layers");
  CAIRN_CHECK(config.vocab_size > 0 && config.max_position_embeddings > 0, "sizes");
  CAIRN_CHECK(config.rope.theta > 1.0 && config.rope.factor > 0.0, "rope");
  CAIRN_CHECK(config.use_sliding_window == config.sliding_window.has_value(), "window");
  CAIRN_CHECK(config.same_model(config), "no NaN anywhere");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = cairn::parse_hf_config(text);
  if (config.is_ok()) check_config(*config);
  const auto generation = cairn::parse_generation_config(text);
  if (generation.is_ok() && generation->top_p) {
    CAIRN_CHECK(*generation->top_p >= 0.0F && *generation->top_p <= 1.0F, "top_p");
  }
  return 0;
}
