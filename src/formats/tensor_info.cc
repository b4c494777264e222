#include "formats/tensor_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "base/coding.h"

namespace cairn {

Result<uint64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape) {
  const BlockShape block = block_shape(dtype);
  const int64_t inner = shape.empty() ? 1 : shape.back();
  if (inner >= 0 && static_cast<uint64_t>(inner) % block.n_elements != 0) {
    return Status::corruption(
        fmt::format("shape [{}] of {}: the last dimension is no multiple of {}",
                    fmt::join(shape, ", "),
                    to_string(dtype),
                    block.n_elements));
  }
  uint64_t n_bytes = block.n_bytes;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) return Status::invalid_argument(fmt::format("dimension {}", shape[i]));
    auto n = static_cast<uint64_t>(shape[i]);
    if (i + 1 == shape.size()) n /= block.n_elements;
    if (!checked_mul(n_bytes, n, &n_bytes)) {
      return Status::corruption(
          fmt::format("shape [{}] has more bytes than fit in 64 bits", fmt::join(shape, ", ")));
    }
  }
  return n_bytes;
}

uint64_t n_elements(const TensorInfo& tensor) {
  const BlockShape block = block_shape(tensor.dtype);
  return tensor.n_bytes / block.n_bytes * block.n_elements;
}

std::string in_quotes(std::string_view name) {
  constexpr size_t kMaxShown = 120;
  std::string text = fmt::format("{:?}", name.substr(0, kMaxShown));
  if (name.size() > kMaxShown) text += fmt::format("... ({} bytes)", name.size());
  return text;
}

Status check_unique_names(const std::vector<TensorInfo>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return Status::ok();
  return Status::corruption(fmt::format("tensor {} is given twice", in_quotes(*twice)));
}

}  // namespace cairn
