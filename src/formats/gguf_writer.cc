// Writing GGUF files front to back.
#include <fmt/format.h>

#include <unordered_set>
#include <utility>

#include "base/coding.h"
#include "formats/gguf.h"
#include "formats/gguf_types.h"
#include "formats/output_file.h"

namespace cairn {
namespace {

constexpr uint32_t kGgufVersion = 3;
constexpr uint64_t kGgufAlignment = 32;

uint64_t padding(uint64_t n_bytes) {
  return (kGgufAlignment - n_bytes % kGgufAlignment) % kGgufAlignment;
}

void put_string(std::string_view text, ByteWriter* out) {
  out->u64(text.size());
  out->bytes(as_bytes(text));
}

// Fills in offsets (from the start of the data) and sizes.
Status lay_out(std::vector<TensorInfo>* tensors) {
  std::unordered_set<std::string_view> names;
  uint64_t end = 0;
  for (TensorInfo& tensor : *tensors) {
    if (!names.insert(tensor.name).second) {
      return Status::invalid_argument(
          fmt::format("tensor {} is given twice", in_quotes(tensor.name)));
    }
    if (tensor.shape.empty() || tensor.shape.size() > kGgufMaxRank) {
      return Status::invalid_argument(fmt::format("tensor {}: {} dimensions; GGUF has 1 to 4",
                                                  in_quotes(tensor.name),
                                                  tensor.shape.size()));
    }
    Result<uint64_t> n_bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!n_bytes.is_ok() || *n_bytes == 0) {
      return Status::invalid_argument(
          fmt::format("tensor {}: {}",
                      in_quotes(tensor.name),
                      n_bytes.is_ok() ? "no elements" : n_bytes.status().message()));
    }
    tensor.n_bytes = *n_bytes;
    tensor.offset = end;
    if (!checked_add(end, tensor.n_bytes, &end) || !checked_add(end, padding(end), &end)) {
      return Status::invalid_argument("the tensors have more bytes than fit in 64 bits");
    }
  }
  return Status::ok();
}

Result<std::vector<std::byte>> header(const std::vector<TensorInfo>& tensors,
                                      const GgufMetadataBuilder& metadata) {
  ByteWriter out;
  out.u32(kGgufMagic);
  out.u32(kGgufVersion);
  out.u64(tensors.size());
  out.u64(metadata.n_entries());
  out.bytes(metadata.bytes());
  for (const TensorInfo& tensor : tensors) {
    put_string(tensor.name, &out);
    out.u32(static_cast<uint32_t>(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim) {
      out.u64(static_cast<uint64_t>(*dim));
    }
    Result<uint32_t> type = dtype_to_ggml(tensor.dtype);
    if (!type.is_ok()) return type.status().with_prefix("tensor " + in_quotes(tensor.name));
    out.u32(*type);
    out.u64(tensor.offset);
  }
  out.zeros(padding(out.size()));
  return out.take();
}

}  // namespace

void GgufMetadataBuilder::put(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void GgufMetadataBuilder::put_string(std::string_view text) {
  std::byte length[8];
  store_le<uint64_t>(length, text.size());
  put(length);
  put(as_bytes(text));
}

void GgufMetadataBuilder::begin(std::string_view key, GgufType type) {
  ++n_entries_;
  put_string(key);
  std::byte number[4];
  store_le(number, static_cast<uint32_t>(type));
  put(number);
}

void GgufMetadataBuilder::begin_array(std::string_view key, GgufType type, uint64_t count) {
  begin(key, GgufType::kArray);
  std::byte prefix[12];
  store_le(prefix, static_cast<uint32_t>(type));
  store_le(prefix + 4, count);
  put(prefix);
}

void GgufMetadataBuilder::add_u32(std::string_view key, uint32_t value) {
  begin(key, GgufType::kU32);
  put(std::as_bytes(std::span(&value, 1)));
}

void GgufMetadataBuilder::add_i32(std::string_view key, int32_t value) {
  begin(key, GgufType::kI32);
  put(std::as_bytes(std::span(&value, 1)));
}

void GgufMetadataBuilder::add_f32(std::string_view key, float value) {
  begin(key, GgufType::kF32);
  put(std::as_bytes(std::span(&value, 1)));
}

void GgufMetadataBuilder::add_bool(std::string_view key, bool value) {
  begin(key, GgufType::kBool);
  bytes_.push_back(value ? std::byte{1} : std::byte{0});
}

void GgufMetadataBuilder::add_string(std::string_view key, std::string_view value) {
  begin(key, GgufType::kString);
  put_string(value);
}

void GgufMetadataBuilder::add_strings(std::string_view key, std::span<const std::string> values) {
  begin_array(key, GgufType::kString, values.size());
  for (const std::string& value : values) put_string(value);
}

void GgufMetadataBuilder::add_f32s(std::string_view key, std::span<const float> values) {
  begin_array(key, GgufType::kF32, values.size());
  put(std::as_bytes(values));
}

void GgufMetadataBuilder::add_i32s(std::string_view key, std::span<const int32_t> values) {
  begin_array(key, GgufType::kI32, values.size());
  put(std::as_bytes(values));
}

void GgufMetadataBuilder::add_bools(std::string_view key, const std::vector<bool>& values) {
  begin_array(key, GgufType::kBool, values.size());
  for (const bool value : values) bytes_.push_back(value ? std::byte{1} : std::byte{0});
}

void GgufMetadataBuilder::add(const GgufEntry& entry) {
  if (entry.value.is_array) {
    begin_array(entry.key, entry.value.type, entry.value.count);
  } else {
    begin(entry.key, entry.value.type);
  }
  put(entry.value.bytes);
}

void GgufMetadataBuilder::append(const GgufMetadataBuilder& other) {
  n_entries_ += other.n_entries_;
  put(other.bytes_);
}

struct GgufWriter::State {
  OutputFile file;
  std::vector<TensorInfo> tensors;
  size_t tensor_idx = 0;   // being written
  uint64_t n_written = 0;  // of it

  Status end_tensor() {
    const std::byte zeros[kGgufAlignment] = {};
    const uint64_t n = padding(tensors[tensor_idx].n_bytes);
    ++tensor_idx;
    n_written = 0;
    return file.write(std::span(zeros, n));
  }
};

GgufWriter::GgufWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

GgufWriter::GgufWriter(GgufWriter&&) noexcept = default;
GgufWriter& GgufWriter::operator=(GgufWriter&&) noexcept = default;
GgufWriter::~GgufWriter() = default;

Result<GgufWriter> GgufWriter::create(const std::string& path,
                                      std::vector<TensorInfo> tensors,
                                      const GgufMetadataBuilder& metadata) {
  CAIRN_RETURN_IF_ERROR(lay_out(&tensors).with_prefix(path));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::byte> head, header(tensors, metadata));
  CAIRN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  CAIRN_RETURN_IF_ERROR(file.write(head));
  return GgufWriter(std::make_unique<State>(State{std::move(file), std::move(tensors)}));
}

Status GgufWriter::write(std::span<const std::byte> bytes) {
  State& state = *state_;
  const bool done = state.tensor_idx == state.tensors.size();
  const uint64_t n_left = done ? 0 : state.tensors[state.tensor_idx].n_bytes - state.n_written;
  if (bytes.size() > n_left) {
    return Status::invalid_argument(fmt::format(
        "{}: {} bytes given, {} are left of the tensor", state.file.path(), bytes.size(), n_left));
  }
  CAIRN_RETURN_IF_ERROR(state.file.write(bytes));
  state.n_written += bytes.size();
  return bytes.size() == n_left && !done ? state.end_tensor() : Status::ok();
}

Status GgufWriter::finish() {
  if (state_->tensor_idx != state_->tensors.size()) {
    return Status::invalid_argument(
        fmt::format("{}: tensor {} is incomplete",
                    state_->file.path(),
                    in_quotes(state_->tensors[state_->tensor_idx].name)));
  }
  return state_->file.finish();
}

}  // namespace cairn
