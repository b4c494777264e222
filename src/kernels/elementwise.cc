// Norms, rope and KV rows, gates, and reductions over logits: one source, compiled by Highway for
// AVX2 (class avx2) and AVX3 (both AVX-512 classes). Which copy runs is the backend's choice, not
// Highway's, because a class is part of the numerics version; hence no HWY_DYNAMIC_DISPATCH.
//
// Every sum has one order: lane partials over four vectors in turn, then a fixed tree. Nothing here
// depends on which rows come together. No libm: exp is ours, square root and division are the
// processor's correctly rounded ones.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "kernels/dispatch.h"
#include "tensor/dtype.h"

// Highway also compiles its fallback target, which Cairn does not use.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();

namespace cairn {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vf = hn::Vec<Floats>;

constexpr size_t kLanes = HWY_LANES(float);

// Lanes from n on read as zero and are not touched in memory.
Vf load_part(const float* p, size_t n) {
  const Floats d;
  return n >= kLanes ? hn::LoadU(d, p) : hn::MaskedLoad(hn::FirstN(d, n), d, p);
}

void store_part(Vf v, float* p, size_t n) {
  const Floats d;
  if (n >= kLanes) {
    hn::StoreU(v, d, p);
  } else {
    hn::BlendedStore(v, hn::FirstN(d, n), d, p);
  }
}

// exp for x in [-87, 88], clamped beyond, within 2 ulp: Cody-Waite reduction and the polynomial of
// Cephes' expf (Moshier). NaN stays.
Vf exp_clamped(Vf x) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const Vf bounded = hn::Min(hn::Set(d, 88.0F), hn::Max(hn::Set(d, -87.0F), x));
  const auto n_int = hn::NearestInt(hn::Mul(bounded, hn::Set(d, 1.44269504F)));
  const Vf n = hn::ConvertTo(d, n_int);
  Vf r = hn::MulAdd(n, hn::Set(d, -0.693359375F), bounded);
  r = hn::MulAdd(n, hn::Set(d, 2.12194440e-4F), r);
  Vf y = hn::Set(d, 1.9875691500e-4F);
  y = hn::MulAdd(y, r, hn::Set(d, 1.3981999507e-3F));
  y = hn::MulAdd(y, r, hn::Set(d, 8.3334519073e-3F));
  y = hn::MulAdd(y, r, hn::Set(d, 4.1665795894e-2F));
  y = hn::MulAdd(y, r, hn::Set(d, 1.6666665459e-1F));
  y = hn::MulAdd(y, r, hn::Set(d, 5.0000001201e-1F));
  y = hn::Add(hn::MulAdd(y, hn::Mul(r, r), r), hn::Set(d, 1.0F));
  const auto power = hn::ShiftLeft<23>(hn::Add(n_int, hn::Set(di, 127)));
  return hn::Mul(y, hn::BitCast(d, power));
}

// Lane i with lane i + half, halving: SumOfLanes leaves its order to the target, so ours is spelled
// out.
float sum_tree(Vf v) {
  const Floats d;
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, d, lanes);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
  }
  return lanes[0];
}

// Four vectors of partial sums, vector i of the row into sums[i % 4].
float sum_four(const Vf* sums) {
  return sum_tree(hn::Add(hn::Add(sums[0], sums[2]), hn::Add(sums[1], sums[3])));
}

float sum_squares(const float* x, size_t n) {
  const Floats d;
  Vf sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (size_t j = 0; j < 4; ++j) {
      const Vf v = hn::LoadU(d, x + i + j * kLanes);
      sums[j] = hn::MulAdd(v, v, sums[j]);
    }
  }
  for (size_t j = 0; i < n; i += kLanes, ++j) {
    const Vf v = load_part(x + i, n - i);
    sums[j] = hn::MulAdd(v, v, sums[j]);
  }
  return sum_four(sums);
}

void norm_row(const float* x, const float* weight, float eps, size_t n, float* out) {
  const Floats d;
  const float mean = sum_squares(x, n) / static_cast<float>(n);
  const Vf scale = hn::Div(hn::Set(d, 1.0F), hn::Sqrt(hn::Set(d, mean + eps)));
  for (size_t i = 0; i < n; i += kLanes) {
    const Vf v = hn::Mul(load_part(x + i, n - i), scale);
    store_part(hn::Mul(v, load_part(weight + i, n - i)), out + i, n - i);
  }
}

void rms_norm(const RmsNormArgs& args, size_t row_begin, size_t row_end) {
  for (size_t row = row_begin; row < row_end; ++row) {
    norm_row(args.x + row * args.dim, args.weight, args.eps, args.dim, args.out + row * args.dim);
  }
}

// Turns pairs (i, i + half) of one head; cos_sin is [half, 2].
void turn_head(float* x, const float* cos_sin, size_t half) {
  const Floats d;
  size_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    Vf c;
    Vf s;
    hn::LoadInterleaved2(d, cos_sin + 2 * i, c, s);
    const Vf a = hn::LoadU(d, x + i);
    const Vf b = hn::LoadU(d, x + half + i);
    hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, x + i);
    hn::StoreU(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), d, x + half + i);
  }
  for (; i < half; ++i) {  // the same operations, so the same bits
    const float c = cos_sin[2 * i];
    const float s = cos_sin[2 * i + 1];
    const float a = x[i];
    const float b = x[half + i];
    const float ac = a * c;
    const float bs = b * s;
    const float bc = b * c;
    const float as = a * s;
    x[i] = ac - bs;
    x[half + i] = bc + as;
  }
}

// Row `token` (0..15) of a K strip and a V strip.
void write_row_f32(const float* k,
                   const float* v,
                   size_t head_dim,
                   size_t token,
                   std::byte* k_strip,
                   std::byte* v_strip) {
  float* k_out = reinterpret_cast<float*>(k_strip) + token;
  float* v_out = reinterpret_cast<float*>(v_strip) + token * head_dim;
  for (size_t i = 0; i < head_dim; ++i) k_out[i * kStripTokens] = k[i];
  for (size_t i = 0; i < head_dim; ++i) v_out[i] = v[i];
}

void write_row_bf16(const float* k,
                    const float* v,
                    size_t head_dim,
                    size_t token,
                    std::byte* k_strip,
                    std::byte* v_strip) {
  Bf16* k_out = reinterpret_cast<Bf16*>(k_strip) + 2 * token;
  Bf16* v_out = reinterpret_cast<Bf16*>(v_strip) + (token / 2) * 2 * head_dim + token % 2;
  for (size_t i = 0; i < head_dim; i += 2) {
    k_out[i * kStripTokens] = f32_to_bf16(k[i]);
    k_out[i * kStripTokens + 1] = f32_to_bf16(k[i + 1]);
  }
  for (size_t i = 0; i < head_dim; ++i) v_out[2 * i] = f32_to_bf16(v[i]);
}

void write_rows(const RopeAppendArgs& args,
                std::byte* page,
                size_t row_in_page,
                const float* k,
                const float* v) {
  const PageLayout& layout = *args.layout;
  const size_t strip = row_in_page / kStripTokens * layout.strip_bytes();
  const size_t token = row_in_page % kStripTokens;
  const size_t hd = layout.head_dim;
  for (uint32_t head = 0; head < layout.n_kv_heads; ++head, k += hd, v += hd) {
    std::byte* k_strip = page + layout.k_offset(args.layer, head) + strip;
    std::byte* v_strip = page + layout.v_offset(args.layer, head) + strip;
    if (layout.encoding == RowEncoding::kF32) {
      write_row_f32(k, v, hd, token, k_strip, v_strip);
    } else {
      write_row_bf16(k, v, hd, token, k_strip, v_strip);
    }
  }
}

void turn_heads(
    const RopeAppendArgs& args, float* x, size_t n_heads, const float* norm, const float* cos_sin) {
  const size_t hd = args.layout->head_dim;
  for (size_t head = 0; head < n_heads; ++head, x += hd) {
    if (norm != nullptr) norm_row(x, norm, args.norm_eps, hd, x);
    turn_head(x, cos_sin, args.rope_dim / 2);
  }
}

void rope_append(const RopePart& part) {
  const RopeAppendArgs& args = *part.args;
  const size_t hd = args.layout->head_dim;
  const size_t n_kv = args.layout->n_kv_heads;
  const size_t page_tokens = args.layout->page_tokens;
  const size_t stride = (args.n_heads + 2 * n_kv) * hd;
  for (size_t row = part.row_begin; row < part.row_end; ++row) {
    float* q = args.qkv + row * stride;
    float* k = q + args.n_heads * hd;
    const float* cos_sin = args.cos_sin + row * args.rope_dim;
    turn_heads(args, q, args.n_heads, args.q_norm, cos_sin);
    turn_heads(args, k, n_kv, args.k_norm, cos_sin);
    const size_t pos = part.segment->pos_begin + row - part.segment->row_begin;
    write_rows(args, part.segment->pages[pos / page_tokens], pos % page_tokens, k, k + n_kv * hd);
  }
}

// silu(gate) * up = gate / (1 + exp(-gate)) * up
void gate(const GateArgs& args, size_t row, size_t begin, size_t end) {
  const Floats d;
  const float* g = args.gate_up + row * 2 * args.dim;
  const float* u = g + args.dim;
  float* out = args.out + row * args.dim;
  const Vf one = hn::Set(d, 1.0F);
  for (size_t i = begin; i < end; i += kLanes) {
    const Vf x = load_part(g + i, end - i);
    const Vf silu = hn::Div(x, hn::Add(one, exp_clamped(hn::Neg(x))));
    store_part(hn::Mul(silu, load_part(u + i, end - i)), out + i, end - i);
  }
}

void arg_max(const float* x, size_t n, float* max, uint32_t* idx) {
  const Floats d;
  Vf top = hn::Set(d, -HUGE_VALF);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) top = hn::Max(hn::LoadU(d, x + i), top);  // NaN gives `top`
  HWY_ALIGN float lanes[kLanes];
  hn::Store(top, d, lanes);
  float best = lanes[0];
  for (size_t j = 1; j < kLanes; ++j) best = lanes[j] > best ? lanes[j] : best;
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  size_t first = 0;
  while (first < n && x[first] != best) ++first;
  *max = best;
  *idx = first < n ? static_cast<uint32_t>(first) : 0;
}

double sum_exp(const float* x, size_t n, float max) {
  const Floats d;
  const Vf top = hn::Set(d, max);
  Vf sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (size_t i = 0, j = 0; i < n; i += kLanes, j = (j + 1) % 4) {
    const Vf e = exp_clamped(hn::Sub(load_part(x + i, n - i), top));
    sums[j] = hn::Add(sums[j], n - i >= kLanes ? e : hn::IfThenElseZero(hn::FirstN(d, n - i), e));
  }
  return static_cast<double>(sum_four(sums));
}

}  // namespace

extern const ElementwiseKernels kElementwise;
constexpr ElementwiseKernels kElementwise = {
    .rms_norm = rms_norm,
    .rope_append = rope_append,
    .gate = gate,
    .arg_max = arg_max,
    .sum_exp = sum_exp,
};

}  // namespace HWY_NAMESPACE
}  // namespace cairn

HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET

#if HWY_ONCE
namespace cairn {

const ElementwiseKernels& elementwise_kernels(Isa isa) {
  return isa == Isa::kAvx2 ? N_AVX2::kElementwise : N_AVX3::kElementwise;
}

}  // namespace cairn
#endif
