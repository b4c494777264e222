// Small models with their weights kept in every way that Cairn reads.
//
// The bundled demo, cut to 2 layers, 512 of its FFN's rows and 320 of its tokens: inputs of 256 and
// 512, so that every block type fits, at a tenth of the demo's work. Block types and floats come
// from the converter, MLX's affine groups from a quantiser here that rounds to nearest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::testing {

inline constexpr uint32_t kSmallDemoVocab = 320;

// "f32", "f16", "bf16", "q8_0", ..., "q4_k_mix", and "mlx_2_g32" to "mlx_8_g128" (bits and group).
std::vector<std::string> weight_kinds();

// Makes the small demo in `folder`, which exists; returns the path to load.
//   demo  folder of the bundled model
std::string make_small_demo(const std::string& demo,
                            const std::string& kind,
                            const std::string& folder);

}  // namespace cairn::testing
