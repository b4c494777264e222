// The element type names of safetensors headers. Private to formats.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace cairn {

// Nullopt for a name that Cairn does not read.
std::optional<DType> dtype_from_safetensors(std::string_view name);
std::string_view dtype_to_safetensors(DType dtype);
// "F32, F16, ..." for messages.
std::string safetensors_dtype_names();

}  // namespace cairn
