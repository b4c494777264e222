#include "model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "base/mapping.h"
#include "formats/rotary_rows.h"
#include "tensor/quant.h"

namespace cairn {
namespace {

// Some old checkpoints keep it; nothing reads it.
constexpr const char* kRotaryTable = "self_attn.rotary_emb.inv_freq";

// Matrices of one packed product: names without ".weight", and rows each.
struct Part {
  std::string module;
  size_t n_out = 0;
  bool turns = false;  // q and k, whose rows a file may keep in the order of interleaved pairs
};

bool is_float_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16;
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint,
         const ModelSpec& spec,
         const AffineQuantization* affine,
         const PackedFile* packed,
         Backend& backend,
         const std::function<void(double, std::string_view)>& progress)
      : checkpoint_(checkpoint),
        spec_(spec),
        affine_(affine),
        packed_(packed),
        backend_(backend),
        progress_(progress),
        // Some published checkpoints hold the inner model alone, without the prefix.
        prefix_(!checkpoint.has("model.embed_tokens.weight") &&
                        checkpoint.has("embed_tokens.weight")
                    ? ""
                    : "model.") {}

  Result<ModelWeights> load() {
    CAIRN_RETURN_IF_ERROR(check_strays());
    ModelWeights weights;
    report("packing the embedding");
    CAIRN_ASSIGN_OR_RETURN(
        weights.embed,
        pack({{prefix_ + "embed_tokens", spec_.vocab_size}}, spec_.hidden_dim, false));
    for (size_t i = 0; i < spec_.layers.size(); ++i) {
      report(fmt::format("packing layer {} of {}", i + 1, spec_.layers.size()));
      CAIRN_ASSIGN_OR_RETURN(LayerWeights layer, load_layer(i));
      weights.layers.push_back(std::move(layer));
    }
    CAIRN_ASSIGN_OR_RETURN(weights.final_norm, norm(prefix_ + "norm.weight", spec_.hidden_dim));
    weights.head = weights.embed;
    if (!spec_.tied_head) {
      report("packing the output matrix");
      CAIRN_ASSIGN_OR_RETURN(weights.head,
                             pack({{"lm_head", spec_.vocab_size}}, spec_.hidden_dim, false));
    }
    if (packed_ != nullptr && packed_->n_blobs() != matrices_.size()) {
      return Status::corruption(
          fmt::format("the packed weights hold {} matrices; this model has {}",
                      packed_->n_blobs(),
                      matrices_.size()));
    }
    weights.n_bytes = n_packed_bytes_;
    weights.matrices = std::move(matrices_);
    report("weights are packed");
    return weights;
  }

 private:
  std::string layer_prefix(size_t layer_idx) const {
    return fmt::format("{}layers.{}.", prefix_, layer_idx);
  }

  Result<LayerWeights> load_layer(size_t layer_idx) {
    const std::string at = layer_prefix(layer_idx);
    const AttentionSpec& a = spec_.layers[layer_idx].attention;
    const FfnSpec& ffn = spec_.layers[layer_idx].ffn;
    const size_t q_dim = size_t{a.n_heads} * a.head_dim;
    const size_t kv_dim = size_t{a.n_kv_heads} * a.head_dim;
    const size_t hidden = spec_.hidden_dim;
    LayerWeights w;
    CAIRN_ASSIGN_OR_RETURN(w.attention_norm, norm(at + "input_layernorm.weight", hidden));
    CAIRN_ASSIGN_OR_RETURN(w.qkv,
                           pack({{at + "self_attn.q_proj", q_dim, true},
                                 {at + "self_attn.k_proj", kv_dim, true},
                                 {at + "self_attn.v_proj", kv_dim}},
                                hidden,
                                a.qkv_bias,
                                a.head_dim));
    if (a.qk_norm) {
      CAIRN_ASSIGN_OR_RETURN(w.q_norm, norm(at + "self_attn.q_norm.weight", a.head_dim));
      CAIRN_ASSIGN_OR_RETURN(w.k_norm, norm(at + "self_attn.k_norm.weight", a.head_dim));
    }
    CAIRN_ASSIGN_OR_RETURN(w.out, pack({{at + "self_attn.o_proj", hidden}}, q_dim, a.out_bias));
    CAIRN_ASSIGN_OR_RETURN(w.ffn_norm, norm(at + "post_attention_layernorm.weight", hidden));
    CAIRN_ASSIGN_OR_RETURN(
        w.gate_up,
        pack({{at + "mlp.gate_proj", ffn.ffn_dim}, {at + "mlp.up_proj", ffn.ffn_dim}},
             hidden,
             ffn.bias));
    CAIRN_ASSIGN_OR_RETURN(w.down, pack({{at + "mlp.down_proj", hidden}}, ffn.ffn_dim, ffn.bias));
    return w;
  }

  // A tensor of exactly this shape.
  Result<TensorView> tensor(const std::string& name, const std::vector<int64_t>& shape) {
    auto found = checkpoint_.find(name);
    if (!found.is_ok()) {
      return Status(found.status().code(),
                    fmt::format("tensor {:?} [{}] is wanted by the config and missing: {}",
                                name,
                                fmt::join(shape, ", "),
                                found.status().message()));
    }
    TensorView view = std::move(found).value();
    if (view.shape != shape) {
      return Status::invalid_argument(
          fmt::format("tensor {:?} has shape {}; the config wants [{}], so the two do not belong "
                      "together",
                      name,
                      view.shape_text(),
                      fmt::join(shape, ", ")));
    }
    n_done_bytes_ += view.bytes.size();
    return view;
  }

  Result<TensorView> float_tensor(const std::string& name, const std::vector<int64_t>& shape) {
    CAIRN_ASSIGN_OR_RETURN(TensorView view, tensor(name, shape));
    if (is_float_type(view.dtype)) return view;
    return unsupported_type(name, view.dtype, "f32, bf16 and f16");
  }

  static Status unsupported_type(std::string_view name, DType dtype, std::string_view supported) {
    return Status::unsupported(
        fmt::format("tensor {:?} holds {}; this version supports {} weights here",
                    name,
                    to_string(dtype),
                    supported));
  }

  // How the module's groups are laid out; nullopt for one that is not quantised.
  Result<std::optional<AffineFormat>> affine_format(const std::string& module) const {
    if (!checkpoint_.has(module + ".scales")) return std::optional<AffineFormat>();
    if (affine_ != nullptr) {
      const std::optional<AffineFormat> format = affine_->of(module);
      if (format) return format;
    }
    return Status::invalid_argument(
        fmt::format("tensor {:?} exists, but the config says that this module is not quantised; "
                    "the two do not belong together",
                    module + ".scales"));
  }

  Result<WeightPart> affine_matrix(const Part& part, size_t n_in, const AffineFormat& format) {
    const auto n_out = static_cast<int64_t>(part.n_out);
    if (n_in % format.group_size != 0) {
      return Status::invalid_argument(
          fmt::format("{:?} has {} inputs, which do not divide into groups of {}",
                      part.module,
                      n_in,
                      format.group_size));
    }
    const auto n_words = static_cast<int64_t>(n_in * format.bits / 32);
    const auto n_groups = static_cast<int64_t>(n_in / format.group_size);
    WeightPart result;
    CAIRN_ASSIGN_OR_RETURN(result.values, tensor(part.module + ".weight", {n_out, n_words}));
    if (result.values.dtype != DType::kU32) {
      return unsupported_type(part.module + ".weight", result.values.dtype, "u32");
    }
    AffineGroups groups;
    groups.bits = format.bits;
    groups.group_size = format.group_size;
    CAIRN_ASSIGN_OR_RETURN(groups.scales, float_tensor(part.module + ".scales", {n_out, n_groups}));
    CAIRN_ASSIGN_OR_RETURN(groups.biases, float_tensor(part.module + ".biases", {n_out, n_groups}));
    result.affine = std::move(groups);
    return result;
  }

  Result<WeightPart> matrix(const Part& part, size_t n_in) {
    CAIRN_ASSIGN_OR_RETURN(const std::optional<AffineFormat> format, affine_format(part.module));
    if (format) return affine_matrix(part, n_in, *format);
    const std::string name = part.module + ".weight";
    WeightPart result;
    CAIRN_ASSIGN_OR_RETURN(
        result.values,
        tensor(name, {static_cast<int64_t>(part.n_out), static_cast<int64_t>(n_in)}));
    if (is_float_type(result.values.dtype) || is_block_type(result.values.dtype)) return result;
    return unsupported_type(name, result.values.dtype, "f32, bf16, f16 and block-quantised");
  }

  // The module's bias with its rows in `order`; the bytes are put into `storage`.
  Result<TensorView> bias(const Part& part,
                          const std::vector<uint32_t>& order,
                          std::vector<std::byte>* storage) {
    CAIRN_ASSIGN_OR_RETURN(TensorView view,
                           float_tensor(part.module + ".bias", {static_cast<int64_t>(part.n_out)}));
    if (order.empty()) return view;
    const size_t size = dtype_bytes(view.dtype);
    storage->resize(view.bytes.size());
    for (size_t i = 0; i < order.size(); ++i) {
      std::memcpy(storage->data() + i * size, view.bytes.data() + order[i] * size, size);
    }
    view.bytes = *storage;
    return view;
  }

  // `head_dim`: of the parts that turn; 0 when none does.
  Result<std::shared_ptr<const PackedWeight>> pack(const std::vector<Part>& parts,
                                                   size_t n_in,
                                                   bool with_bias,
                                                   size_t head_dim = 0) {
    PackRequest request;
    std::vector<std::vector<std::byte>> turned_biases(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      CAIRN_ASSIGN_OR_RETURN(WeightPart part, matrix(parts[i], n_in));
      if (parts[i].turns && checkpoint_.has_interleaved_heads()) {
        part.row_order = rows_in_pairs(parts[i].n_out, head_dim, 2 * spec_.rope.inv_freq.size());
      }
      if (with_bias) {
        CAIRN_ASSIGN_OR_RETURN(TensorView view, bias(parts[i], part.row_order, &turned_biases[i]));
        request.biases.emplace_back(std::move(view));
      }
      request.parts.push_back(std::move(part));
    }
    auto weight = packed_ == nullptr ? backend_.pack(request) : adopt(request);
    if (!weight.is_ok()) return weight.status().with_prefix(parts.front().module);
    // What has been packed is not read again: without this, a load would hold both copies.
    for (const WeightPart& part : request.parts) drop_resident(part.values.bytes);
    n_packed_bytes_ += weight.value()->n_bytes();
    matrices_.push_back(weight.value());
    return weight;
  }

  Result<std::shared_ptr<const PackedWeight>> adopt(const PackRequest& request) {
    if (matrices_.size() >= packed_->n_blobs()) {
      return Status::corruption(fmt::format(
          "the packed weights hold {} matrices; this model has more", packed_->n_blobs()));
    }
    return backend_.adopt(request, packed_->blob(matrices_.size()));
  }

  Result<Buffer> norm(const std::string& name, size_t dim) {
    CAIRN_ASSIGN_OR_RETURN(const TensorView view, float_tensor(name, {static_cast<int64_t>(dim)}));
    std::vector<float> values(dim);
    for (size_t i = 0; i < dim; ++i) values[i] = float_element(view.dtype, view.bytes.data(), i);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    CAIRN_ASSIGN_OR_RETURN(Buffer buffer, backend_.allocate(bytes.size()));
    backend_.upload(buffer.data(), bytes);
    n_packed_bytes_ += bytes.size();
    return buffer;
  }

  void add_module(const std::string& module, bool with_bias, std::set<std::string>* names) const {
    names->insert(module + ".weight");
    if (affine_ != nullptr) {
      names->insert(module + ".scales");
      names->insert(module + ".biases");
    }
    if (with_bias) names->insert(module + ".bias");
  }

  std::set<std::string> places(size_t layer_idx) const {
    const AttentionSpec& a = spec_.layers[layer_idx].attention;
    std::set<std::string> names = {
        "input_layernorm.weight", "post_attention_layernorm.weight", kRotaryTable};
    for (const char* module : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
      add_module(module, a.qkv_bias, &names);
    }
    add_module("self_attn.o_proj", a.out_bias, &names);
    for (const char* module : {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
      add_module(module, spec_.layers[layer_idx].ffn.bias, &names);
    }
    if (a.qk_norm) {
      names.insert("self_attn.q_norm.weight");
      names.insert("self_attn.k_norm.weight");
    }
    return names;
  }

  // Refuses a tensor inside one of our layers that nothing will read.
  Status check_strays() const {
    const std::string at = prefix_ + "layers.";
    for (const std::string& name : checkpoint_.names()) {
      if (!name.starts_with(at)) continue;
      size_t layer_idx = 0;
      const char* const end = name.data() + name.size();
      const auto number = std::from_chars(name.data() + at.size(), end, layer_idx);
      if (number.ec != std::errc()) continue;
      const std::string rest = number.ptr == end ? std::string() : std::string(number.ptr + 1, end);
      if (layer_idx >= spec_.layers.size()) {
        CAIRN_RETURN_IF_ERROR(check_layer_beyond(layer_idx));
        continue;
      }
      if (places(layer_idx).contains(rest)) continue;
      return Status::unsupported(
          fmt::format("tensor {:?} has no place in a {} model of this config, and leaving it out "
                      "would change results; this layer reads: {}",
                      name,
                      spec_.family,
                      fmt::join(places(layer_idx), ", ")));
    }
    return Status::ok();
  }

  // A layer numbered n_layers or higher may be one of multi-token prediction, which is not read.
  // One that has every weight of an ordinary layer and no other is a layer that the config forgot.
  Status check_layer_beyond(size_t layer_idx) const {
    const std::string at = prefix_ + "layers." + std::to_string(layer_idx) + ".";
    const auto ordinary = places(0);
    for (const std::string& name : checkpoint_.names()) {
      if (name.starts_with(at) && !ordinary.contains(name.substr(at.size()))) return Status::ok();
    }
    // What else an ordinary layer may have (rotary tables, scales) comes with some checkpoints
    // only.
    for (const std::string& name : ordinary) {
      if (name.ends_with(".weight") && !checkpoint_.has(at + name)) return Status::ok();
    }
    return Status::invalid_argument(fmt::format(
        "the weights hold an ordinary layer {}, but num_hidden_layers is {}; correct the "
        "config, or results would be those of a shorter model",
        layer_idx,
        spec_.layers.size()));
  }

  void report(std::string_view what) const {
    if (!progress_) return;
    const double total = static_cast<double>(checkpoint_.total_bytes());
    const double share = total > 0 ? static_cast<double>(n_done_bytes_) / total : 1.0;
    progress_(share < 1.0 ? share : 1.0, what);
  }

  const Checkpoint& checkpoint_;
  const ModelSpec& spec_;
  const AffineQuantization* affine_;
  const PackedFile* packed_;
  Backend& backend_;
  const std::function<void(double, std::string_view)>& progress_;
  const std::string prefix_;
  uint64_t n_done_bytes_ = 0;
  std::vector<std::shared_ptr<const PackedWeight>> matrices_;
  uint64_t n_packed_bytes_ = 0;
};

}  // namespace

Result<ModelWeights> load_weights(const Checkpoint& checkpoint,
                                  const ModelSpec& spec,
                                  const AffineQuantization* affine,
                                  const PackedFile* packed,
                                  Backend& backend,
                                  const std::function<void(double, std::string_view)>& progress) {
  return Loader(checkpoint, spec, affine, packed, backend, progress).load();
}

}  // namespace cairn
