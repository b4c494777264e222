#include "model/decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "model/rope.h"

namespace cairn {
namespace {

size_t round_up(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Cuts one allocation into arrays that start on cache lines.
class Carver {
 public:
  // Counts when `base` is null.
  explicit Carver(std::byte* base) : base_(reinterpret_cast<float*>(base)) {}

  float* take(size_t n_floats) {
    float* const at = base_ == nullptr ? nullptr : base_ + n_floats_;
    n_floats_ += round_up(n_floats, 16);
    return at;
  }

  size_t n_bytes() const { return n_floats_ * sizeof(float); }

 private:
  float* base_;
  size_t n_floats_ = 0;
};

const float* floats(const Buffer& buffer) {
  return reinterpret_cast<const float*>(buffer.data());
}

}  // namespace

Decoder::Decoder(const ModelSpec& spec, const ModelWeights& weights, Backend& backend)
    : spec_(spec), weights_(weights), backend_(backend) {
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec& a = layer.attention;
    const size_t n_heads = a.n_heads;
    const size_t n_kv_heads = a.n_kv_heads;
    q_dim_ = std::max(q_dim_, n_heads * a.head_dim);
    qkv_dim_ = std::max(qkv_dim_, (n_heads + 2 * n_kv_heads) * a.head_dim);
    ffn_dim_ = std::max(ffn_dim_, size_t{layer.ffn.ffn_dim});
  }
  rope_dim_ = 2 * spec.rope.inv_freq.size();
}

Result<Model::StepLogits> Decoder::forward(std::span<const StepRows> rows,
                                           const CacheGeometry& geometry) {
  CAIRN_RETURN_IF_ERROR(plan_step(rows, geometry));
  const size_t n_rows = plan_.ids.size();
  const size_t n_wanted = plan_.wanted.size();
  if (n_rows == 0) return Model::StepLogits{};
  CAIRN_RETURN_IF_ERROR(reserve(n_rows, n_wanted));
  backend_.upload(reinterpret_cast<std::byte*>(cos_sin_), std::as_bytes(std::span(plan_.cos_sin)));
  backend_.embed(
      {.table = weights_.embed.get(), .ids = plan_.ids.data(), .n_rows = n_rows, .out = x_});

  Active active{.x = x_, .qkv = qkv_, .n_rows = n_rows, .segments = {}};
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    active.segments = plan_.segments[places_[i].group_idx];
    append_rows(i, geometry, active);
    // After the last layer's rows are in the pages, only rows whose logits are wanted matter; each
    // row's bits are its own (P2), so leaving the others out changes nothing.
    if (i + 1 == spec_.layers.size()) {
      if (n_wanted == 0) return Model::StepLogits{};
      if (n_wanted < n_rows) active = narrow_to_wanted(places_[i].group_idx);
    }
    attend_and_feed(i, geometry, active);
  }
  backend_.rms_norm({.x = active.x,
                     .weight = floats(weights_.final_norm),
                     .eps = static_cast<float>(spec_.norm_eps),
                     .n_rows = n_wanted,
                     .dim = spec_.hidden_dim,
                     .out = normed_});
  backend_.matmul(
      {.x = normed_, .n_rows = n_wanted, .weight = weights_.head.get(), .out = logits_});
  return Model::StepLogits{.logits = logits_, .n_rows = n_wanted, .row_stride = spec_.vocab_size};
}

void Decoder::append_rows(size_t layer_idx, const CacheGeometry& geometry, const Active& active) {
  const AttentionSpec& a = spec_.layers[layer_idx].attention;
  const LayerWeights& w = weights_.layers[layer_idx];
  const float eps = static_cast<float>(spec_.norm_eps);
  backend_.rms_norm({.x = active.x,
                     .weight = floats(w.attention_norm),
                     .eps = eps,
                     .n_rows = active.n_rows,
                     .dim = spec_.hidden_dim,
                     .out = normed_});
  backend_.matmul(
      {.x = normed_, .n_rows = active.n_rows, .weight = w.qkv.get(), .out = active.qkv});
  backend_.rope_append({.qkv = active.qkv,
                        .n_rows = active.n_rows,
                        .n_heads = a.n_heads,
                        .q_norm = floats(w.q_norm),
                        .k_norm = floats(w.k_norm),
                        .norm_eps = eps,
                        .cos_sin = cos_sin_,
                        .rope_dim = rope_dim_,
                        .segments = active.segments,
                        .layout = &geometry.groups[places_[layer_idx].group_idx].layout,
                        .layer = places_[layer_idx].layer});
}

void Decoder::attend_and_feed(size_t layer_idx,
                              const CacheGeometry& geometry,
                              const Active& active) {
  const AttentionSpec& a = spec_.layers[layer_idx].attention;
  const LayerWeights& w = weights_.layers[layer_idx];
  const size_t n_rows = active.n_rows;
  backend_.attend({.q = active.qkv,
                   .q_stride = (size_t{a.n_heads} + 2 * size_t{a.n_kv_heads}) * a.head_dim,
                   .n_heads = a.n_heads,
                   .scale = static_cast<float>(a.scale),
                   .window = a.window,
                   .segments = active.segments,
                   .layout = &geometry.groups[places_[layer_idx].group_idx].layout,
                   .layer = places_[layer_idx].layer,
                   .out = heads_});
  backend_.matmul(
      {.x = heads_, .n_rows = n_rows, .weight = w.out.get(), .out = active.x, .add_to_out = true});
  backend_.rms_norm({.x = active.x,
                     .weight = floats(w.ffn_norm),
                     .eps = static_cast<float>(spec_.norm_eps),
                     .n_rows = n_rows,
                     .dim = spec_.hidden_dim,
                     .out = normed_});
  backend_.matmul({.x = normed_, .n_rows = n_rows, .weight = w.gate_up.get(), .out = gate_up_});
  const FfnSpec& ffn = spec_.layers[layer_idx].ffn;
  backend_.gate({.gate_up = gate_up_,
                 .n_rows = n_rows,
                 .dim = ffn.ffn_dim,
                 .activation = ffn.activation,
                 .out = gated_});
  backend_.matmul(
      {.x = gated_, .n_rows = n_rows, .weight = w.down.get(), .out = active.x, .add_to_out = true});
}

Decoder::Active Decoder::narrow_to_wanted(size_t group_idx) {
  const AttentionSpec& a = spec_.layers.back().attention;
  const size_t qkv_dim = (size_t{a.n_heads} + 2 * size_t{a.n_kv_heads}) * a.head_dim;
  backend_.gather_rows({.x = x_, .rows = plan_.wanted, .dim = spec_.hidden_dim, .out = wanted_x_});
  backend_.gather_rows({.x = qkv_, .rows = plan_.wanted, .dim = qkv_dim, .out = wanted_qkv_});
  return {.x = wanted_x_,
          .qkv = wanted_qkv_,
          .n_rows = plan_.wanted.size(),
          .segments = plan_.wanted_segments[group_idx]};
}

Status Decoder::plan_step(std::span<const StepRows> rows, const CacheGeometry& geometry) {
  place_layers(geometry);
  const size_t n_groups = geometry.groups.size();
  plan_.ids.clear();
  plan_.wanted.clear();
  plan_.segments.resize(n_groups);
  plan_.wanted_segments.resize(n_groups);
  for (auto& segments : plan_.segments) segments.clear();
  for (auto& segments : plan_.wanted_segments) segments.clear();
  for (const StepRows& step : rows) {
    if (step.tokens.empty()) continue;
    CAIRN_CHECK(step.pages.size() == n_groups, "one page table a group");
    for (const TokenId id : step.tokens) {
      if (id < spec_.vocab_size) continue;
      return Status::invalid_argument(
          fmt::format("token id {}: the vocabulary has {} entries", id, spec_.vocab_size));
    }
    const size_t n = step.tokens.size();
    const size_t n_wanted =
        step.logits == LogitRows::kAll ? n : (step.logits == LogitRows::kLast ? 1 : 0);
    const size_t row_begin = plan_.ids.size();
    for (size_t g = 0; g < n_groups; ++g) {
      plan_.segments[g].push_back({row_begin, n, step.pos_begin, step.pages[g]});
      if (n_wanted == 0) continue;
      plan_.wanted_segments[g].push_back(
          {plan_.wanted.size(), n_wanted, step.pos_begin + n - n_wanted, step.pages[g]});
    }
    for (size_t i = n - n_wanted; i < n; ++i) {
      plan_.wanted.push_back(static_cast<uint32_t>(row_begin + i));
    }
    plan_.ids.insert(plan_.ids.end(), step.tokens.begin(), step.tokens.end());
  }
  plan_.cos_sin.resize(plan_.ids.size() * rope_dim_);
  // Any group tells the positions; all have the same.
  for (const RowSegment& segment : plan_.segments.front()) {
    fill_cos_sin(spec_.rope,
                 segment.pos_begin,
                 std::span(plan_.cos_sin)
                     .subspan(segment.row_begin * rope_dim_, segment.n_rows * rope_dim_));
  }
  return Status::ok();
}

void Decoder::place_layers(const CacheGeometry& geometry) {
  CAIRN_CHECK(!geometry.groups.empty());
  places_.assign(spec_.layers.size(), LayerPlace{.group_idx = UINT32_MAX, .layer = 0});
  for (uint32_t g = 0; g < geometry.groups.size(); ++g) {
    const CacheGroup& group = geometry.groups[g];
    for (uint32_t i = 0; i < group.layers.size(); ++i) {
      CAIRN_CHECK(group.layers[i] < spec_.layers.size(), "the geometry is of another model");
      const AttentionSpec& a = spec_.layers[group.layers[i]].attention;
      CAIRN_CHECK(group.layout.n_kv_heads == a.n_kv_heads && group.layout.head_dim == a.head_dim,
                  "the geometry is of another model");
      places_[group.layers[i]] = {.group_idx = g, .layer = i};
    }
  }
  for (const LayerPlace& place : places_) {
    CAIRN_CHECK(place.group_idx != UINT32_MAX, "a layer without a cache group");
  }
}

Status Decoder::reserve(size_t n_rows, size_t n_wanted) {
  if (n_rows > row_capacity_) {
    const size_t capacity = round_up(n_rows, 64);
    const auto carve = [&](std::byte* base) {
      Carver carver(base);
      x_ = carver.take(capacity * spec_.hidden_dim);
      normed_ = carver.take(capacity * spec_.hidden_dim);
      qkv_ = carver.take(capacity * qkv_dim_);
      heads_ = carver.take(capacity * q_dim_);
      gate_up_ = carver.take(capacity * 2 * ffn_dim_);
      gated_ = carver.take(capacity * ffn_dim_);
      cos_sin_ = carver.take(capacity * rope_dim_);
      return carver.n_bytes();
    };
    // The old memory goes first: two copies at once could be too many.
    backend_.synchronize();
    row_memory_ = Buffer();
    row_capacity_ = 0;
    CAIRN_ASSIGN_OR_RETURN(row_memory_, backend_.allocate(carve(nullptr)));
    carve(row_memory_.data());
    row_capacity_ = capacity;
  }
  if (n_wanted > wanted_capacity_) {
    const size_t capacity = round_up(n_wanted, 8);
    const auto carve = [&](std::byte* base) {
      Carver carver(base);
      wanted_x_ = carver.take(capacity * spec_.hidden_dim);
      wanted_qkv_ = carver.take(capacity * qkv_dim_);
      logits_ = carver.take(capacity * spec_.vocab_size);
      return carver.n_bytes();
    };
    backend_.synchronize();
    wanted_memory_ = Buffer();
    wanted_capacity_ = 0;
    CAIRN_ASSIGN_OR_RETURN(wanted_memory_, backend_.allocate(carve(nullptr)));
    carve(wanted_memory_.data());
    wanted_capacity_ = capacity;
  }
  return Status::ok();
}

}  // namespace cairn
