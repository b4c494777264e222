#include "formats/weight_rows.h"

#include <fmt/format.h>

#include "tensor/quant.h"

namespace cairn {
namespace {

constexpr std::string_view kWeight = ".weight";

bool is_float_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
}

}  // namespace

Status WeightRows::find_groups(const Checkpoint& checkpoint,
                               const std::string& module,
                               const AffineFormat& format) {
  Groups groups;
  groups.format = format;
  CAIRN_ASSIGN_OR_RETURN(groups.scales, checkpoint.find(module + ".scales"));
  CAIRN_ASSIGN_OR_RETURN(groups.biases, checkpoint.find(module + ".biases"));
  const size_t n_words = n_in_;
  n_in_ = n_words * 32 / format.bits;
  shape_.back() = static_cast<int64_t>(n_in_);
  const std::vector<int64_t> wanted = {static_cast<int64_t>(n_rows_),
                                       static_cast<int64_t>(n_in_ / format.group_size)};
  const bool fits = values_.dtype == DType::kU32 && n_in_ * format.bits == n_words * 32 &&
                    n_in_ % format.group_size == 0 && groups.scales.shape == wanted &&
                    groups.biases.shape == wanted && is_float_type(groups.scales.dtype) &&
                    groups.biases.dtype == groups.scales.dtype;
  if (!fits) {
    return Status::invalid_argument(
        fmt::format("{:?}: words {} with scales {} do not fit {} bits in groups of {}",
                    module,
                    values_.shape_text(),
                    groups.scales.shape_text(),
                    format.bits,
                    format.group_size));
  }
  groups_ = std::move(groups);
  return Status::ok();
}

Result<WeightRows> WeightRows::open(const Checkpoint& checkpoint,
                                    const std::string& name,
                                    const AffineQuantization* affine) {
  WeightRows rows;
  CAIRN_ASSIGN_OR_RETURN(rows.values_, checkpoint.find(name));
  rows.shape_ = rows.values_.shape;
  if (rows.shape_.empty()) rows.shape_ = {1};
  rows.n_in_ = static_cast<size_t>(rows.shape_.back());
  if (rows.values_.n_elements() == 0) {
    return Status::invalid_argument(fmt::format("tensor {:?} is empty", name));
  }
  rows.n_rows_ = static_cast<size_t>(rows.values_.n_elements()) / rows.n_in_;
  if (affine != nullptr && name.ends_with(kWeight)) {
    const std::string module = name.substr(0, name.size() - kWeight.size());
    const std::optional<AffineFormat> format = affine->of(module);
    if (format && checkpoint.has(module + ".scales")) {
      CAIRN_RETURN_IF_ERROR(rows.find_groups(checkpoint, module, *format));
      return rows;
    }
  }
  if (is_float_type(rows.values_.dtype) || is_block_type(rows.values_.dtype)) return rows;
  return Status::unsupported(fmt::format(
      "tensor {:?} holds {}, which are no weights", name, to_string(rows.values_.dtype)));
}

void WeightRows::read(size_t row, std::span<float> out) const {
  const std::span<const std::byte> bytes = raw(row);
  if (!groups_) {
    dequantize_row(values_.dtype, bytes.data(), n_in_, out.data());
    return;
  }
  const size_t scale_bytes = groups_->scales.bytes.size() / n_rows_;
  const AffineRow affine = {bytes,
                            groups_->scales.bytes.subspan(row * scale_bytes, scale_bytes),
                            groups_->biases.bytes.subspan(row * scale_bytes, scale_bytes),
                            groups_->scales.dtype,
                            groups_->format.bits,
                            groups_->format.group_size};
  dequantize_affine_row(affine, n_in_, out.data());
}

}  // namespace cairn
