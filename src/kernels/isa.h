// Instruction-set classes. A class is part of the numerics version: two classes may differ in bits.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn {

enum class Isa {
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F/BW/DQ/VL
  kAvx512Bf16,  // kAvx512 and VNNI and BF16
};

std::string_view to_string(Isa isa);  // "avx2", "avx512", "avx512bf16"
// "auto" gives the best class of this processor. Errors: kInvalidArgument for an unknown name,
// kUnsupported for a class this processor lacks (the message lists those it has).
Result<Isa> parse_isa(std::string_view name);
// The classes of this processor, weakest first. Empty when it lacks AVX2.
std::vector<Isa> supported_isas();

enum class Precision {
  kFast,  // activations are rounded to bf16 before products with bf16 weights
  kF32,   // f32 activations throughout: the reference against oracles
};

std::string_view to_string(Precision precision);  // "fast", "f32"

}  // namespace cairn
