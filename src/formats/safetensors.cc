#include "formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "formats/safetensors_dtype.h"

namespace cairn {
namespace {

struct DTypeName {
  DType dtype;
  std::string_view name;
};

constexpr std::array<DTypeName, 13> kDTypeNames = {{{DType::kF32, "F32"},
                                                    {DType::kF16, "F16"},
                                                    {DType::kBf16, "BF16"},
                                                    {DType::kF64, "F64"},
                                                    {DType::kI8, "I8"},
                                                    {DType::kU8, "U8"},
                                                    {DType::kI16, "I16"},
                                                    {DType::kU16, "U16"},
                                                    {DType::kI32, "I32"},
                                                    {DType::kU32, "U32"},
                                                    {DType::kI64, "I64"},
                                                    {DType::kU64, "U64"},
                                                    {DType::kBool, "BOOL"}}};

}  // namespace

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const DTypeName& entry : kDTypeNames) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

std::string_view dtype_to_safetensors(DType dtype) {
  for (const DTypeName& entry : kDTypeNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  check_failed("a known dtype", __FILE__, __LINE__, "dtype_to_safetensors");
}

std::string safetensors_dtype_names() {
  std::string text;
  for (const DTypeName& entry : kDTypeNames) {
    if (!text.empty()) text += ", ";
    text += entry.name;
  }
  return text;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  CAIRN_ASSIGN_OR_RETURN(file.mapping_, Mapping::open(path));
  Result<SafetensorsLayout> layout = parse_safetensors(file.mapping_.bytes());
  if (!layout.is_ok()) return layout.status().with_prefix(path);
  file.layout_ = std::move(layout).value();
  const std::vector<TensorInfo>& tensors = file.layout_.tensors;
  file.by_name_.resize(tensors.size());
  std::iota(file.by_name_.begin(), file.by_name_.end(), 0U);
  std::sort(file.by_name_.begin(), file.by_name_.end(), [&](uint32_t a, uint32_t b) {
    return tensors[a].name < tensors[b].name;
  });
  return file;
}

Result<TensorView> SafetensorsFile::tensor(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name, [this](uint32_t idx, std::string_view wanted) {
        return layout_.tensors[idx].name < wanted;
      });
  if (at == by_name_.end() || layout_.tensors[*at].name != name) {
    return Status::not_found(fmt::format("{} has no tensor \"{}\"", path_, name));
  }
  return tensor_at(*at);
}

TensorView SafetensorsFile::tensor_at(size_t idx) const {
  CAIRN_CHECK(idx < layout_.tensors.size(), "tensor index");
  const TensorInfo& info = layout_.tensors[idx];
  // In range: parse_safetensors checked the layout against these very bytes.
  return {info.dtype, info.shape, mapping_.bytes().subspan(info.offset, info.n_bytes)};
}

}  // namespace cairn
