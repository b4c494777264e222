// A checkpoint's matrix as rows of exact f32 values, whatever it is stored as. Private to formats.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/checkpoint.h"
#include "formats/hf_config.h"
#include "tensor/buffer.h"

namespace cairn {

class WeightRows {
 public:
  // `name`: a tensor of the checkpoint, which must outlive the object; with `affine`, its groups
  // are decoded. Errors: kNotFound; kUnsupported for element types that are no weights;
  // kInvalidArgument for groups that do not fit the words.
  static Result<WeightRows> open(const Checkpoint& checkpoint,
                                 const std::string& name,
                                 const AffineQuantization* affine);

  const std::vector<int64_t>& shape() const { return shape_; }  // [outer, ..., inner], as decoded

  size_t n_rows() const { return n_rows_; }

  size_t n_in() const { return n_in_; }

  // Whether the stored bytes of a row are already values of this type.
  bool has_raw(DType dtype) const { return !groups_ && values_.dtype == dtype; }

  std::span<const std::byte> raw(size_t row) const {
    const size_t row_bytes = values_.bytes.size() / n_rows_;
    return values_.bytes.subspan(row * row_bytes, row_bytes);
  }

  // Row `row` into `out`, [n_in].
  void read(size_t row, std::span<float> out) const;

 private:
  struct Groups {
    TensorView scales;
    TensorView biases;
    AffineFormat format;
  };

  WeightRows() = default;
  Status find_groups(const Checkpoint& checkpoint,
                     const std::string& module,
                     const AffineFormat& format);

  TensorView values_;
  std::optional<Groups> groups_;
  std::vector<int64_t> shape_;
  size_t n_rows_ = 0;
  size_t n_in_ = 0;
};

}  // namespace cairn
