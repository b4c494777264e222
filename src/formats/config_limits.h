// The largest numbers that a configuration may hold, whatever its spelling. Far above any model,
// and low enough that products of them do not overflow. Private to formats.
#pragma once

#include <cstdint>

namespace cairn {

inline constexpr int64_t kMaxDim = 1 << 20;
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxHeads = 1 << 14;
inline constexpr int64_t kMaxVocab = 1 << 24;
inline constexpr double kMaxTheta = 1e15;  // rotary base
inline constexpr double kMaxFactor = 1e6;  // of rotary scaling

}  // namespace cairn
