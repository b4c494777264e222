#include "model/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace cairn {
namespace {

// Long waves are stretched by the factor, short ones are left alone, those between are blended.
void scale_llama3(const RopeConfig& config, std::vector<double>* inv_freq) {
  const double original = static_cast<double>(config.original_max_position);
  const double long_wave = original / config.low_freq_factor;
  const double short_wave = original / config.high_freq_factor;
  for (double& f : *inv_freq) {
    const double wave = 2.0 * std::numbers::pi / f;
    if (wave < short_wave) continue;
    if (wave > long_wave) {
      f /= config.factor;
      continue;
    }
    const double s = (original / wave - config.low_freq_factor) /
                     (config.high_freq_factor - config.low_freq_factor);
    f = (1.0 - s) * f / config.factor + s * f;
  }
}

// The dimension that turns `n_turns` times over the original length (arXiv 2309.00071, eq. 17-18).
double yarn_dimension(const RopeConfig& config, double rope_dim, double n_turns) {
  const double original = static_cast<double>(config.original_max_position);
  return rope_dim * std::log(original / (n_turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(config.theta));
}

void scale_yarn(const RopeConfig& config, std::vector<double>* inv_freq) {
  const double rope_dim = 2.0 * static_cast<double>(inv_freq->size());
  double low = yarn_dimension(config, rope_dim, config.beta_fast);
  double high = yarn_dimension(config, rope_dim, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rope_dim - 1.0);
  if (low == high) high += 0.001;  // as the reference does, so that the ramp has a slope
  for (size_t i = 0; i < inv_freq->size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    double& f = (*inv_freq)[i];
    f = f * (1.0 - ramp) + f / config.factor * ramp;
  }
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_attention_factor(const RopeConfig& config) {
  if (config.attention_factor) return *config.attention_factor;
  const double mscale = config.mscale.value_or(0.0);
  const double all_dim = config.mscale_all_dim.value_or(0.0);
  // A zero counts as absent, as in the reference.
  if (mscale != 0.0 && all_dim != 0.0) {
    return yarn_mscale(config.factor, mscale) / yarn_mscale(config.factor, all_dim);
  }
  return yarn_mscale(config.factor, 1.0);
}

}  // namespace

Result<RopeSpec> make_rope_spec(const RopeConfig& config, uint32_t head_dim) {
  const auto rope_dim =
      static_cast<uint32_t>(static_cast<double>(head_dim) * config.partial_rotary_factor);
  if (rope_dim == 0 || rope_dim % 2 != 0) {
    return Status::unsupported(
        fmt::format("partial_rotary_factor {} of head_dim {} turns {} dimensions; an even number "
                    "above 0 is supported",
                    config.partial_rotary_factor,
                    head_dim,
                    rope_dim));
  }
  RopeSpec spec;
  for (uint32_t i = 0; i < rope_dim / 2; ++i) {
    spec.inv_freq.push_back(std::pow(config.theta, -2.0 * i / rope_dim));
  }
  if (!config.frequency_divisors.empty()) {
    if (config.frequency_divisors.size() != spec.inv_freq.size()) {
      return Status::invalid_argument(fmt::format("{} frequency divisors for {} rotary pairs",
                                                  config.frequency_divisors.size(),
                                                  spec.inv_freq.size()));
    }
    for (size_t i = 0; i < spec.inv_freq.size(); ++i) {
      spec.inv_freq[i] /= config.frequency_divisors[i];
    }
  }
  switch (config.type) {
    case RopeConfig::Type::kDefault:
      break;
    case RopeConfig::Type::kLinear:
      for (double& f : spec.inv_freq) f /= config.factor;
      break;
    case RopeConfig::Type::kLlama3:
      scale_llama3(config, &spec.inv_freq);
      break;
    case RopeConfig::Type::kYarn:
      scale_yarn(config, &spec.inv_freq);
      spec.attention_factor = yarn_attention_factor(config);
      break;
  }
  return spec;
}

void fill_cos_sin(const RopeSpec& rope, size_t pos_begin, std::span<float> out) {
  const size_t n_pairs = rope.inv_freq.size();
  CAIRN_CHECK(n_pairs > 0 && out.size() % (2 * n_pairs) == 0);
  for (size_t row = 0; row * 2 * n_pairs < out.size(); ++row) {
    const double pos = static_cast<double>(pos_begin + row);
    float* pair = out.data() + row * 2 * n_pairs;
    for (size_t i = 0; i < n_pairs; ++i, pair += 2) {
      const double angle = pos * rope.inv_freq[i];
      pair[0] = static_cast<float>(std::cos(angle) * rope.attention_factor);
      pair[1] = static_cast<float>(std::sin(angle) * rope.attention_factor);
    }
  }
}

}  // namespace cairn
