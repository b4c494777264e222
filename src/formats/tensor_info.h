// One tensor as a weight file declares it; shared by the readers of all formats.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace cairn {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // [outer, ..., inner]; empty is a scalar; a 0 makes it empty
  uint64_t offset = 0;         // of its first byte, from the start of the file
  uint64_t n_bytes = 0;

  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

// Bytes of a dense tensor. Errors: kInvalidArgument on a negative dimension, kCorruption on
// overflow and for a block type whose innermost dimension is no whole number of blocks.
Result<uint64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape);

// Element count of a tensor whose n_bytes has been checked against its shape.
uint64_t n_elements(const TensorInfo& tensor);

// A name from a file, for messages: escaped and cut, so that a message stays one line.
std::string in_quotes(std::string_view name);

// Errors: kCorruption, naming a tensor that is given twice.
Status check_unique_names(const std::vector<TensorInfo>& tensors);

}  // namespace cairn
