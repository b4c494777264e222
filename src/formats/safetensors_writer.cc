// Writing safetensors files front to back.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unordered_set>
#include <utility>

#include "base/coding.h"
#include "base/hash.h"
#include "base/json.h"
#include "formats/safetensors.h"
#include "formats/safetensors_dtype.h"

namespace cairn {
namespace {

constexpr size_t kBufferBytes = 4 << 20;
// The data part begins on a cache line, so that tensors whose sizes are multiples of it do as well.
constexpr size_t kDataAlignment = 64;
constexpr size_t kPrefixBytes = 8;

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
  const size_t tail = (kPrefixBytes + text.size()) % kDataAlignment;
  if (tail != 0) text.append(kDataAlignment - tail, ' ');
  if (text.size() > kSafetensorsMaxHeaderBytes) {
    return Status::invalid_argument(fmt::format(
        "a header of {} bytes, at most {} are allowed", text.size(), kSafetensorsMaxHeaderBytes));
  }
  return text;
}

// Fills in offsets and sizes; returns the size of the data part.
Result<uint64_t> lay_out(std::vector<TensorInfo>* tensors) {
  std::unordered_set<std::string_view> names;
  uint64_t end = 0;
  for (TensorInfo& tensor : *tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second) {
      return Status::invalid_argument(
          fmt::format("tensor name \"{}\" is reserved or given twice", tensor.name));
    }
    CAIRN_ASSIGN_OR_RETURN(tensor.n_bytes, tensor_bytes(tensor.dtype, tensor.shape));
    tensor.offset = end;
    if (!checked_add(end, tensor.n_bytes, &end)) {
      return Status::invalid_argument("the tensors have more bytes than fit in 64 bits");
    }
  }
  return end;
}

// The file that the rename at the end will replace: links are followed, so that they stay links.
// Devices and pipes are refused: a rename would put a file in their place.
Result<std::string> writable_target(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    const fs::path folder = fs::path(path).parent_path();
    if (!folder.empty() && !fs::is_directory(folder, error)) {
      return Status::not_found(
          fmt::format("{}: the folder {} does not exist; make it first", path, folder.string()));
    }
    return path;
  }
  if (!fs::is_regular_file(status)) {
    return Status::invalid_argument(
        fmt::format("{}: not a regular file; give a file's path to write to", path));
  }
  fs::path target = fs::canonical(path, error);
  if (error) return Status::io(fmt::format("{}: {}", path, error.message()));
  return target.string();
}

}  // namespace

struct SafetensorsWriter::State {
  std::string path;
  std::string temp_path;
  std::unique_ptr<File> file;
  uint64_t file_offset = 0;     // of the buffer's first byte
  uint64_t n_data_missing = 0;  // declared and not yet given
  std::vector<std::byte> buffer;

  Status flush() {
    CAIRN_RETURN_IF_ERROR(file->write_at(file_offset, buffer));
    file_offset += buffer.size();
    buffer.clear();
    return Status::ok();
  }

  Status put(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const size_t n = std::min(bytes.size(), kBufferBytes - buffer.size());
      buffer.insert(buffer.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
      bytes = bytes.subspan(n);
      if (buffer.size() == kBufferBytes) CAIRN_RETURN_IF_ERROR(flush());
    }
    return Status::ok();
  }

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  State(State&&) = delete;
  State& operator=(State&&) = delete;

  ~State() {
    if (file == nullptr) return;
    file.reset();
    const Status removed = posix_file_system().remove(temp_path);
    static_cast<void>(removed);  // a left-over temporary file is all that can happen
  }
};

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

Result<SafetensorsWriter> SafetensorsWriter::create(
    const std::string& path,
    std::vector<TensorInfo> tensors,
    const std::map<std::string, std::string>& metadata) {
  Result<uint64_t> n_data = lay_out(&tensors);
  if (!n_data.is_ok()) return n_data.status().with_prefix(path);
  CAIRN_ASSIGN_OR_RETURN(const std::string header, header_json(tensors, metadata));
  CAIRN_ASSIGN_OR_RETURN(std::string target, writable_target(path));
  auto state = std::make_unique<State>();
  state->temp_path = fmt::format("{}.tmp-{}", target, random_hex_128());
  state->path = std::move(target);
  state->n_data_missing = *n_data;
  OpenOptions options;
  options.mode = FileMode::kWrite;
  options.permissions = 0644;  // weights and results are no secrets, unlike prompts
  CAIRN_ASSIGN_OR_RETURN(state->file, posix_file_system().open(state->temp_path, options));
  state->buffer.reserve(kBufferBytes);
  std::byte prefix[kPrefixBytes];
  store_le<uint64_t>(prefix, header.size());
  CAIRN_RETURN_IF_ERROR(state->put(prefix));
  CAIRN_RETURN_IF_ERROR(state->put(as_bytes(header)));
  return SafetensorsWriter(std::move(state));
}

Status SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > state_->n_data_missing) {
    return Status::invalid_argument(fmt::format("{}: {} bytes given, {} are left of those declared",
                                                state_->path,
                                                bytes.size(),
                                                state_->n_data_missing));
  }
  state_->n_data_missing -= bytes.size();
  return state_->put(bytes);
}

Status SafetensorsWriter::finish() {
  if (state_->file == nullptr) {
    return Status::invalid_argument(state_->path + ": finished already");
  }
  if (state_->n_data_missing != 0) {
    return Status::invalid_argument(fmt::format(
        "{}: {} declared bytes were not written", state_->path, state_->n_data_missing));
  }
  CAIRN_RETURN_IF_ERROR(state_->flush());
  CAIRN_RETURN_IF_ERROR(state_->file->sync());
  CAIRN_RETURN_IF_ERROR(posix_file_system().rename(state_->temp_path, state_->path));
  state_->file.reset();
  const std::string folder = std::filesystem::path(state_->path).parent_path().string();
  return posix_file_system().sync_directory(folder.empty() ? "." : folder);
}

}  // namespace cairn
