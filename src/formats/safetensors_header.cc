// The header's parser: JSON events into tensors, then the layout as a whole.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "base/coding.h"
#include "formats/json_stream.h"
#include "formats/safetensors.h"
#include "formats/safetensors_dtype.h"

namespace cairn {
namespace {

constexpr size_t kMaxRank = 32;
// A tensor takes about 200 bytes and its name twice. The largest known checkpoint has 210,000
// tensors, over many files.
constexpr size_t kMaxTensors = size_t{1} << 19;
constexpr size_t kMaxNameBytes = size_t{32} << 20;      // of all together
constexpr size_t kMaxMetadataBytes = size_t{16} << 20;  // of all together
constexpr std::string_view kMetadataKey = "__metadata__";

// The document has a fixed shape three levels deep, so the place is the depth and the last key.
class HeaderVisitor final : public JsonVisitor {
 public:
  Status on_begin_object() override {
    if (depth_ == 0) {
      ++depth_;
      return Status::ok();
    }
    if (depth_ != 1) return unexpected("an object");
    ++depth_;
    in_metadata_ = key_ == kMetadataKey;
    if (!in_metadata_) {
      n_name_bytes_ += key_.size();
      if (n_name_bytes_ > kMaxNameBytes) {
        return Status::unsupported(
            fmt::format("tensor names of more than {} bytes together", kMaxNameBytes));
      }
      open_ = Entry{};
      open_.info.name = key_;
      return Status::ok();
    }
    if (std::exchange(seen_metadata_, true)) {
      return Status::corruption("__metadata__ is given twice");
    }
    return Status::ok();
  }

  Status on_end_object() override {
    --depth_;
    if (depth_ != 1 || in_metadata_) return Status::ok();
    if (!open_.has_dtype || !open_.shape_closed || !open_.offsets_closed) {
      return Status::corruption(fmt::format("tensor {} lacks one of dtype, shape, data_offsets",
                                            in_quotes(open_.info.name)));
    }
    if (open_.offsets.size() != 2 || open_.offsets[0] > open_.offsets[1]) {
      return Status::corruption(fmt::format("tensor {}: data_offsets [{}], wanted [begin, end]",
                                            in_quotes(open_.info.name),
                                            fmt::join(open_.offsets, ", ")));
    }
    if (layout_.tensors.size() == kMaxTensors) {
      return Status::unsupported(
          fmt::format("more than {} tensors; split the file in shards", kMaxTensors));
    }
    open_.info.offset = open_.offsets[0];
    open_.info.n_bytes = open_.offsets[1] - open_.offsets[0];
    layout_.tensors.push_back(std::move(open_.info));
    return Status::ok();
  }

  Status on_begin_array() override {
    if (depth_ != 2 || in_metadata_) return unexpected("an array");
    if (key_ == "shape" && !open_.shape_closed) {
      array_ = Array::kShape;
    } else if (key_ == "data_offsets" && !open_.offsets_closed) {
      array_ = Array::kOffsets;
    } else {
      return unexpected("an array");
    }
    ++depth_;
    return Status::ok();
  }

  Status on_end_array() override {
    --depth_;
    (array_ == Array::kShape ? open_.shape_closed : open_.offsets_closed) = true;
    array_ = Array::kNone;
    return Status::ok();
  }

  Status on_key(std::string_view key) override {
    key_ = key;
    return Status::ok();
  }

  Status on_string(std::string_view text) override {
    if (depth_ == 2 && in_metadata_) {
      // A node of the map counts too.
      n_metadata_bytes_ += key_.size() + text.size() + 128;
      if (n_metadata_bytes_ > kMaxMetadataBytes) {
        return Status::unsupported(
            fmt::format("__metadata__ of more than {} bytes", kMaxMetadataBytes));
      }
      if (!layout_.metadata.emplace(key_, text).second) {
        return Status::corruption(fmt::format("__metadata__ gives {} twice", in_quotes(key_)));
      }
      return Status::ok();
    }
    if (depth_ != 2 || key_ != "dtype" || open_.has_dtype) return unexpected("a string");
    const std::optional<DType> dtype = dtype_from_safetensors(text);
    if (!dtype) {
      return Status::unsupported(fmt::format("tensor {} has element type {}; this version reads {}",
                                             in_quotes(open_.info.name),
                                             in_quotes(text),
                                             safetensors_dtype_names()));
    }
    open_.info.dtype = *dtype;
    open_.has_dtype = true;
    return Status::ok();
  }

  Status on_unsigned(uint64_t value) override {
    if (array_ == Array::kShape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Status::corruption(
            fmt::format("tensor {}: dimension {}", in_quotes(open_.info.name), value));
      }
      if (open_.info.shape.size() == kMaxRank) {
        return Status::unsupported(fmt::format(
            "tensor {} has more than {} dimensions", in_quotes(open_.info.name), kMaxRank));
      }
      open_.info.shape.push_back(static_cast<int64_t>(value));
      return Status::ok();
    }
    if (array_ == Array::kOffsets && open_.offsets.size() < 2) {
      open_.offsets.push_back(value);
      return Status::ok();
    }
    return unexpected("a number");
  }

  Status on_other(std::string_view what) override { return unexpected(what); }

  SafetensorsLayout take() { return std::move(layout_); }

 private:
  enum class Array { kNone, kShape, kOffsets };

  struct Entry {
    TensorInfo info;
    bool has_dtype = false;
    bool shape_closed = false;
    bool offsets_closed = false;
    std::vector<uint64_t> offsets;
  };

  Status unexpected(std::string_view what) const {
    if (depth_ == 0) return Status::corruption(fmt::format("{}, wanted an object", what));
    if (depth_ == 1) {
      return Status::corruption(fmt::format("{} is {}, wanted an object", in_quotes(key_), what));
    }
    const std::string owner =
        in_metadata_ ? "__metadata__" : "tensor " + in_quotes(open_.info.name);
    return Status::corruption(
        fmt::format("{}: {} is {} or given twice; wanted {}",
                    owner,
                    in_quotes(key_),
                    what,
                    in_metadata_ ? "strings" : "dtype, shape and data_offsets, each once"));
  }

  int depth_ = 0;
  bool in_metadata_ = false;
  bool seen_metadata_ = false;
  Array array_ = Array::kNone;
  std::string key_;
  size_t n_name_bytes_ = 0;
  size_t n_metadata_bytes_ = 0;
  Entry open_;
  SafetensorsLayout layout_;
};

Status check_size(const TensorInfo& tensor) {
  Result<uint64_t> wanted = tensor_bytes(tensor.dtype, tensor.shape);
  if (!wanted.is_ok()) return wanted.status().with_prefix("tensor " + in_quotes(tensor.name));
  if (*wanted == tensor.n_bytes) return Status::ok();
  return Status::corruption(fmt::format("tensor {}: {} [{}] takes {} bytes, data_offsets span {}",
                                        in_quotes(tensor.name),
                                        to_string(tensor.dtype),
                                        fmt::join(tensor.shape, ", "),
                                        *wanted,
                                        tensor.n_bytes));
}

// Sorts by place and checks that the tensors tile [0, n_data_bytes) exactly.
Status check_tiling(std::vector<TensorInfo>* tensors, uint64_t n_data_bytes) {
  std::sort(tensors->begin(), tensors->end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.n_bytes) < std::pair(b.offset, b.n_bytes);
  });
  uint64_t end = 0;
  for (const TensorInfo& tensor : *tensors) {
    if (tensor.offset != end) {
      return Status::corruption(
          fmt::format("tensor {} begins at {}, {} the bytes before it, which end at {}",
                      in_quotes(tensor.name),
                      tensor.offset,
                      tensor.offset < end ? "overlapping" : "leaving a gap after",
                      end));
    }
    if (!checked_add(tensor.offset, tensor.n_bytes, &end) || end > n_data_bytes) {
      return Status::corruption(
          fmt::format("tensor {} at {} with {} bytes runs past the data, which has {}; the file is "
                      "truncated: copy or download it again",
                      in_quotes(tensor.name),
                      tensor.offset,
                      tensor.n_bytes,
                      n_data_bytes));
    }
  }
  if (end == n_data_bytes) return Status::ok();
  return Status::corruption(
      fmt::format("the file has {} data bytes, its tensors use {}", n_data_bytes, end));
}

Result<std::string_view> header_text(std::span<const std::byte> file) {
  if (file.size() < kSafetensorsPrefixBytes) {
    return Status::corruption(fmt::format(
        "{} bytes, fewer than the {} of a header length", file.size(), kSafetensorsPrefixBytes));
  }
  const uint64_t n_header = load_le<uint64_t>(file.data());
  if (n_header > kSafetensorsMaxHeaderBytes) {
    return Status::corruption(
        fmt::format("header length {}, at most {} is allowed: this is no safetensors file",
                    n_header,
                    kSafetensorsMaxHeaderBytes));
  }
  if (n_header > file.size() - kSafetensorsPrefixBytes) {
    return Status::corruption(fmt::format("header length {}, but only {} bytes follow",
                                          n_header,
                                          file.size() - kSafetensorsPrefixBytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kSafetensorsPrefixBytes,
                              n_header);
  if (text.empty() || text.front() != '{') {
    return Status::corruption("the header does not begin with '{'");
  }
  return text;
}

}  // namespace

Result<SafetensorsLayout> parse_safetensors(std::span<const std::byte> file) {
  CAIRN_ASSIGN_OR_RETURN(const std::string_view text, header_text(file));
  HeaderVisitor visitor;
  CAIRN_RETURN_IF_ERROR(walk_json(text, 3, visitor).with_prefix("safetensors header"));
  SafetensorsLayout layout = visitor.take();
  CAIRN_RETURN_IF_ERROR(check_unique_names(layout.tensors));
  for (const TensorInfo& tensor : layout.tensors) CAIRN_RETURN_IF_ERROR(check_size(tensor));
  const uint64_t data_begin = kSafetensorsPrefixBytes + text.size();
  CAIRN_RETURN_IF_ERROR(check_tiling(&layout.tensors, file.size() - data_begin));
  for (TensorInfo& tensor : layout.tensors) tensor.offset += data_begin;
  return layout;
}

}  // namespace cairn
