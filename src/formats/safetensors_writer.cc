// Writing safetensors files front to back.
#include <fmt/format.h>

#include <unordered_set>
#include <utility>

#include "base/coding.h"
#include "base/json.h"
#include "formats/output_file.h"
#include "formats/safetensors.h"
#include "formats/safetensors_dtype.h"

namespace cairn {
namespace {

// The data part begins on a cache line, so that tensors whose sizes are multiples of it do as well.
constexpr size_t kDataAlignment = 64;

Result<std::string> header_json(const std::vector<TensorInfo>& tensors,
                                const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + dump_json(Json(metadata));
  for (const TensorInfo& tensor : tensors) {
    if (text.size() > 1) text += ',';
    text += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        dump_json(Json(tensor.name)),
                        dtype_to_safetensors(tensor.dtype),
                        fmt::join(tensor.shape, ","),
                        tensor.offset,
                        tensor.offset + tensor.n_bytes);
  }
  text += '}';
  const size_t tail = (kSafetensorsPrefixBytes + text.size()) % kDataAlignment;
  if (tail != 0) text.append(kDataAlignment - tail, ' ');
  if (text.size() > kSafetensorsMaxHeaderBytes) {
    return Status::invalid_argument(fmt::format(
        "a header of {} bytes, at most {} are allowed", text.size(), kSafetensorsMaxHeaderBytes));
  }
  return text;
}

// Fills in offsets and sizes; returns the size of the data part.
Result<uint64_t> lay_out_tensors(std::vector<TensorInfo>* tensors) {
  std::unordered_set<std::string_view> names;
  uint64_t end = 0;
  for (TensorInfo& tensor : *tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second) {
      return Status::invalid_argument(
          fmt::format("tensor name \"{}\" is reserved or given twice", tensor.name));
    }
    if (is_block_type(tensor.dtype)) {
      return Status::invalid_argument(fmt::format(
          "tensor {}: safetensors has no {}", in_quotes(tensor.name), to_string(tensor.dtype)));
    }
    CAIRN_ASSIGN_OR_RETURN(tensor.n_bytes, tensor_bytes(tensor.dtype, tensor.shape));
    tensor.offset = end;
    if (!checked_add(end, tensor.n_bytes, &end)) {
      return Status::invalid_argument("the tensors have more bytes than fit in 64 bits");
    }
  }
  return end;
}

}  // namespace

struct SafetensorsWriter::State {
  OutputFile file;
  uint64_t n_data_missing = 0;  // declared and not yet given
};

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<SafetensorsWriter> SafetensorsWriter::create(
    const std::string& path,
    std::vector<TensorInfo> tensors,
    const std::map<std::string, std::string>& metadata) {
  Result<uint64_t> n_data = lay_out_tensors(&tensors);
  if (!n_data.is_ok()) return n_data.status().with_prefix(path);
  CAIRN_ASSIGN_OR_RETURN(const std::string header, header_json(tensors, metadata));
  CAIRN_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  std::byte prefix[kSafetensorsPrefixBytes];
  store_le<uint64_t>(prefix, header.size());
  CAIRN_RETURN_IF_ERROR(file.write(prefix));
  CAIRN_RETURN_IF_ERROR(file.write(as_bytes(header)));
  return SafetensorsWriter(std::make_unique<State>(State{std::move(file), *n_data}));
}

Status SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > state_->n_data_missing) {
    return Status::invalid_argument(fmt::format("{}: {} bytes given, {} are left of those declared",
                                                state_->file.path(),
                                                bytes.size(),
                                                state_->n_data_missing));
  }
  state_->n_data_missing -= bytes.size();
  return state_->file.write(bytes);
}

Status SafetensorsWriter::finish() {
  if (state_->n_data_missing != 0) {
    return Status::invalid_argument(fmt::format(
        "{}: {} declared bytes were not written", state_->file.path(), state_->n_data_missing));
  }
  return state_->file.finish();
}

}  // namespace cairn
