// The quantisers of the types with blocks of 256 and two levels of scales. Private to formats.
#pragma once

#include <cmath>
#include <cstddef>

namespace cairn {

// Each writes one block of 256 values.
void encode_q2_k(const float* x, std::byte* out);
void encode_q3_k(const float* x, std::byte* out);
void encode_q4_k(const float* x, std::byte* out);
void encode_q5_k(const float* x, std::byte* out);
void encode_q6_k(const float* x, std::byte* out);

// Not floor(x + 0.5): that sum rounds the largest double below 0.5 up to 1.
inline double round_half_up(double x) {
  const double below = std::floor(x);
  return x - below >= 0.5 ? below + 1 : below;
}

// 1 / x, or 0: a scale of 0 makes every code 0.
inline double inverse_of(double x) {
  return x == 0 ? 0 : 1 / x;
}

}  // namespace cairn
