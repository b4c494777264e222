#include "formats/model_config.h"

#include <fmt/format.h>

#include "tensor/quant.h"

namespace cairn {
namespace {

// One divisor a rotary pair is all that a rope_freqs tensor can hold.
constexpr int64_t kMaxDivisors = 1 << 14;

Result<std::vector<double>> read_divisors(const Checkpoint& checkpoint) {
  std::vector<double> divisors;
  if (!checkpoint.has("rope_freqs.weight")) return divisors;
  CAIRN_ASSIGN_OR_RETURN(const TensorView view, checkpoint.find("rope_freqs.weight"));
  if (view.shape.size() != 1 || view.shape[0] > kMaxDivisors || view.dtype != DType::kF32) {
    return Status::unsupported(
        fmt::format("rope_freqs.weight is {} {}; wanted one dimension of f32",
                    to_string(view.dtype),
                    view.shape_text()));
  }
  for (size_t i = 0; i < static_cast<size_t>(view.shape[0]); ++i) {
    divisors.push_back(static_cast<double>(float_element(view.dtype, view.bytes.data(), i)));
  }
  return divisors;
}

Result<GgufTensorFacts> tensor_facts(const Checkpoint& checkpoint) {
  GgufTensorFacts facts;
  const auto embedding = checkpoint.find(published_name("token_embd.weight"));
  if (embedding.is_ok() && embedding->shape.size() == 2) facts.n_vocab_rows = embedding->shape[0];
  facts.has_output = checkpoint.has(published_name("output.weight"));
  facts.has_attention_bias = checkpoint.has(published_name("blk.0.attn_q.bias"));
  facts.has_ffn_bias = checkpoint.has(published_name("blk.0.ffn_gate.bias"));
  CAIRN_ASSIGN_OR_RETURN(facts.rope_divisors, read_divisors(checkpoint));
  return facts;
}

}  // namespace

Result<HfConfig> load_model_config(const Checkpoint& checkpoint) {
  if (checkpoint.format() == WeightFormat::kSafetensors) {
    return load_hf_config(checkpoint.folder());
  }
  const std::string path = checkpoint.files().front();
  Result<GgufTensorFacts> facts = tensor_facts(checkpoint);
  if (!facts.is_ok()) return facts.status().with_prefix(path);
  Result<HfConfig> config = parse_gguf_config(*checkpoint.gguf_metadata(), *facts);
  if (!config.is_ok()) return config.status().with_prefix(path);
  return config;
}

Result<GenerationConfig> load_model_generation_config(const Checkpoint& checkpoint) {
  if (checkpoint.format() == WeightFormat::kSafetensors) {
    return load_generation_config(checkpoint.folder());
  }
  Result<GenerationConfig> config = parse_gguf_generation_config(*checkpoint.gguf_metadata());
  if (!config.is_ok()) return config.status().with_prefix(checkpoint.files().front());
  return config;
}

}  // namespace cairn
