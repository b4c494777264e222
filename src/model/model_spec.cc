#include "model/model_spec.h"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "base/check.h"
#include "model/families.h"

namespace cairn {
namespace {

struct Family {
  std::string_view architecture;
  std::string_view model_type;
  Result<ModelSpec> (*adapt)(const HfConfig&);
};

constexpr std::array<Family, 4> kFamilies = {{{"LlamaForCausalLM", "llama", llama_spec},
                                              {"MistralForCausalLM", "mistral", mistral_spec},
                                              {"Qwen2ForCausalLM", "qwen2", qwen2_spec},
                                              {"Qwen3ForCausalLM", "qwen3", qwen3_spec}}};

// A config that names its architecture is taken at its word; older ones name the type alone.
bool matches(const Family& family, const HfConfig& config) {
  return config.architecture.empty() ? family.model_type == config.model_type
                                     : family.architecture == config.architecture;
}

void add_layer(const LayerSpec& layer, Sha256* hash) {
  const AttentionSpec& a = layer.attention;
  hash->update_u32(a.n_heads).update_u32(a.n_kv_heads).update_u32(a.head_dim);
  hash->update_u8(a.qkv_bias).update_u8(a.out_bias).update_u8(a.qk_norm).update_u32(a.window);
  hash->update_u64(std::bit_cast<uint64_t>(a.scale));
  hash->update_u32(layer.ffn.ffn_dim).update_u8(layer.ffn.bias);
  hash->update_u32(static_cast<uint32_t>(layer.ffn.activation));
}

}  // namespace

CacheGeometry ModelSpec::cache_geometry(RowEncoding encoding) const {
  CAIRN_CHECK(!layers.empty());
  const AttentionSpec& first = layers.front().attention;
  CacheGroup group;
  for (size_t i = 0; i < layers.size(); ++i) {
    const AttentionSpec& attention = layers[i].attention;
    CAIRN_CHECK(attention.n_kv_heads == first.n_kv_heads && attention.head_dim == first.head_dim,
                "layers of different K and V shapes need groups of their own");
    group.layers.push_back(static_cast<uint32_t>(i));
  }
  group.layout.encoding = encoding;
  group.layout.n_layers = static_cast<uint32_t>(layers.size());
  group.layout.n_kv_heads = first.n_kv_heads;
  group.layout.head_dim = first.head_dim;
  group.layout.page_tokens = kPageTokens;
  CacheGeometry geometry;
  geometry.page_tokens = kPageTokens;
  geometry.groups.push_back(std::move(group));
  return geometry;
}

Digest ModelSpec::digest() const {
  Sha256 hash;
  hash.update_field("cairn.spec.1");
  hash.update_u32(vocab_size).update_u32(hidden_dim);
  hash.update_u64(std::bit_cast<uint64_t>(norm_eps)).update_u8(tied_head);
  hash.update_u64(rope.inv_freq.size());
  for (const double f : rope.inv_freq) hash.update_u64(std::bit_cast<uint64_t>(f));
  hash.update_u64(std::bit_cast<uint64_t>(rope.attention_factor));
  hash.update_u64(layers.size());
  for (const LayerSpec& layer : layers) add_layer(layer, &hash);
  return hash.finish();
}

uint64_t ModelSpec::n_matmul_parameters() const {
  uint64_t n = 0;
  for (const LayerSpec& layer : layers) {
    const AttentionSpec& a = layer.attention;
    const uint64_t qkv_dim = (uint64_t{a.n_heads} + 2 * uint64_t{a.n_kv_heads}) * a.head_dim;
    n +=
        hidden_dim * (qkv_dim + uint64_t{a.n_heads} * a.head_dim + 3 * uint64_t{layer.ffn.ffn_dim});
  }
  return n;
}

Result<ModelSpec> make_model_spec(const HfConfig& config) {
  std::string known;
  for (const Family& family : kFamilies) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.architecture);
    if (!matches(family, config)) continue;
    if (!config.quantization.empty() && !config.affine) {
      return Status::unsupported(
          fmt::format("a quantised checkpoint ({}); this version supports MLX's affine groups, "
                      "GGUF files, and f32, bf16 and f16 weights: use the model in one of these",
                      config.quantization));
    }
    return family.adapt(config);
  }
  return Status::unsupported(
      fmt::format("architecture {:?} (model_type {:?}); this version supports {}",
                  config.architecture.substr(0, 80),
                  config.model_type.substr(0, 80),
                  known));
}

}  // namespace cairn
