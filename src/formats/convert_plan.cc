// Which tensors a converted model has, under which names, types and row orders.
#include <fmt/format.h>

#include <array>

#include "formats/convert_parts.h"
#include "formats/gguf_from_hf.h"
#include "formats/quantize.h"
#include "formats/rotary_rows.h"
#include "formats/weight_rows.h"

namespace cairn {
namespace {

constexpr std::string_view kRopeFreqs = "rope_freqs.weight";

bool is_head_rows(std::string_view published) {
  return published.find(".self_attn.q_proj.") != std::string_view::npos ||
         published.find(".self_attn.k_proj.") != std::string_view::npos;
}

size_t rope_dim(const HfConfig& config) {
  return static_cast<size_t>(static_cast<double>(config.head_dim) *
                             config.rope.partial_rotary_factor);
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  for (const std::string_view end : ends) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// "blk.12.ffn_down.weight" -> 12; nullopt outside layers.
std::optional<int64_t> layer_of(std::string_view gguf) {
  if (!gguf.starts_with("blk.")) return std::nullopt;
  int64_t layer = 0;
  for (const char c : gguf.substr(4, gguf.find('.', 4) - 4)) {
    if (c < '0' || c > '9' || layer > 1 << 20) return std::nullopt;
    layer = layer * 10 + (c - '0');
  }
  return layer;
}

bool below_six_bits(DType dtype) {
  return is_block_type(dtype) && dtype != DType::kQ8_0 && dtype != DType::kQ6K;
}

// Whether q4_k and q5_k keep more bits of v and down in this layer.
bool is_mixed_layer(int64_t layer, int64_t n_layers) {
  const int64_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

// The type of one matrix, after llama.cpp's mixes (llama-quant.cpp: Q4_K_M, Q5_K_M, Q3_K_M, Q2_K):
// more bits where errors cost most, which are the output matrix; v and down, of the 4- and 5-bit
// types in the first and last eighth of the layers and in every third one between; and of the
// lower types everywhere v, down and the attention's output.
DType matrix_dtype(std::string_view gguf, const HfConfig& config, const ConvertOptions& options) {
  if (options.pure || !below_six_bits(options.dtype)) return options.dtype;
  const bool is_output =
      gguf == "output.weight" || (gguf == "token_embd.weight" && config.tie_word_embeddings);
  if (is_output) return DType::kQ6K;
  const std::optional<int64_t> layer = layer_of(gguf);
  if (!layer) return options.dtype;
  const bool is_v_or_down = ends_with_any(gguf, {"attn_v.weight", "ffn_down.weight"});
  switch (options.dtype) {
    case DType::kQ4K:
    case DType::kQ5K:
      return is_v_or_down && is_mixed_layer(*layer, config.num_hidden_layers) ? DType::kQ6K
                                                                              : options.dtype;
    case DType::kQ3K:
      return is_v_or_down || gguf.ends_with("attn_output.weight") ? DType::kQ4K : DType::kQ3K;
    case DType::kQ2K:
      return is_v_or_down || gguf.ends_with("attn_output.weight") ? DType::kQ3K : DType::kQ2K;
    default:
      return options.dtype;
  }
}

class Planner {
 public:
  Planner(const Checkpoint& from,
          const HfConfig& config,
          const ConvertOptions& options,
          ConvertSummary* summary)
      : from_(from),
        config_(config),
        options_(options),
        summary_(summary),
        prefix_(!from.has("model.embed_tokens.weight") && from.has("embed_tokens.weight") ? "model."
                                                                                          : "") {}

  // `to_pairs`: the result keeps q and k rows pair beside pair.
  Result<std::vector<PlannedTensor>> run(WeightFormat format, bool to_pairs) {
    for (const std::string& source : from_.names()) {
      if (!is_weight(source)) continue;
      const std::string published = prefix_ + source;
      CAIRN_ASSIGN_OR_RETURN(
          const WeightRows rows,
          WeightRows::open(from_, source, config_.affine ? &*config_.affine : nullptr));
      PlannedTensor tensor;
      tensor.source = source;
      tensor.info.shape = rows.shape();
      if (is_head_rows(published)) {
        tensor.row_order = head_order(tensor.info.shape.front(), to_pairs);
      }
      if (format == WeightFormat::kGguf) {
        CAIRN_RETURN_IF_ERROR(name_for_gguf(published, rows, &tensor.info));
      } else {
        tensor.info.name = published;
        tensor.info.dtype = options_.dtype;
      }
      plan_.push_back(std::move(tensor));
    }
    return std::move(plan_);
  }

 private:
  // Leaves out what is no part of the numbers, with a note where that is not plain.
  bool is_weight(const std::string& name) {
    if (ends_with_any(name, {".scales", ".biases"}) && config_.affine) return false;
    if (name.ends_with("rotary_emb.inv_freq") || name == kRopeFreqs) return false;
    if (name == "lm_head.weight" && config_.tie_word_embeddings) return false;
    const std::string published = prefix_ + name;
    const bool known = gguf_name(published) != published;
    const auto layer = layer_of(gguf_name(published));
    if (known && (!layer || *layer < config_.num_hidden_layers)) return true;
    summary_->notes.push_back(
        fmt::format("tensor {} is left out: it is no part of the language model", in_quotes(name)));
    return false;
  }

  std::vector<uint32_t> head_order(int64_t n_rows, bool to_pairs) const {
    const auto n = static_cast<size_t>(n_rows);
    const auto head_dim = static_cast<size_t>(config_.head_dim);
    const bool from_pairs = from_.has_interleaved_heads();
    if (from_pairs == to_pairs || n % head_dim != 0) return {};
    return to_pairs ? rows_in_halves(n, head_dim, rope_dim(config_))
                    : rows_in_pairs(n, head_dim, rope_dim(config_));
  }

  Status name_for_gguf(const std::string& published, const WeightRows& rows, TensorInfo* info) {
    info->name = gguf_name(published);
    if (info->name.find("self_attn") != std::string::npos ||
        info->name.find("mlp.") != std::string::npos) {
      return Status::unsupported(
          fmt::format("tensor {} has no name in GGUF files", in_quotes(published)));
    }
    const bool is_matrix = info->shape.size() == 2;
    info->dtype = is_matrix
                      ? fitting_dtype(matrix_dtype(info->name, config_, options_), rows.n_in())
                      : DType::kF32;
    return Status::ok();
  }

  const Checkpoint& from_;
  const HfConfig& config_;
  const ConvertOptions& options_;
  ConvertSummary* summary_;
  const std::string prefix_;
  std::vector<PlannedTensor> plan_;
};

}  // namespace

Result<std::vector<PlannedTensor>> plan_gguf(const Checkpoint& from,
                                             const HfConfig& config,
                                             const ConvertOptions& options,
                                             ConvertSummary* summary) {
  CAIRN_ASSIGN_OR_RETURN(const std::string architecture, gguf_architecture(config));
  CAIRN_ASSIGN_OR_RETURN(
      std::vector<PlannedTensor> plan,
      Planner(from, config, options, summary).run(WeightFormat::kGguf, architecture == "llama"));
  PlannedTensor freqs;
  freqs.info.name = kRopeFreqs;
  freqs.values = gguf_rope_divisors(config);
  for (const double divisor : config.rope.frequency_divisors) {
    freqs.values.push_back(static_cast<float>(divisor));
  }
  if (freqs.values.empty()) return plan;
  freqs.info.shape = {static_cast<int64_t>(freqs.values.size())};
  plan.push_back(std::move(freqs));
  return plan;
}

Result<std::vector<PlannedTensor>> plan_safetensors(const Checkpoint& from,
                                                    const HfConfig& config,
                                                    const ConvertOptions& options,
                                                    ConvertSummary* summary) {
  return Planner(from, config, options, summary).run(WeightFormat::kSafetensors, false);
}

}  // namespace cairn
