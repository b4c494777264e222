// The element types of GGUF tensors: ggml's numbers and names. Private to formats.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "tensor/dtype.h"

namespace cairn {

// Errors: kUnsupported with ggml's name (or the bare number of a type younger than this list), and
// the types that can be read.
Result<DType> dtype_from_ggml(uint32_t type);
// Errors: kUnsupported for element types that ggml does not have (u8, bool, ...).
Result<uint32_t> dtype_to_ggml(DType dtype);
// What general.file_type says of a file whose matrices mostly have this type; 0 (all f32) for the
// types without a number of their own.
uint32_t ggml_file_type(DType dtype);

}  // namespace cairn
