#include "formats/output_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "base/hash.h"

namespace cairn {
namespace {

constexpr size_t kBufferBytes = 4 << 20;

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

struct OutputFile::State {
  std::string path;
  std::string temp_path;
  std::unique_ptr<File> file;
  uint64_t file_offset = 0;  // of the buffer's first byte
  std::vector<std::byte> buffer;

  Status flush() {
    CAIRN_RETURN_IF_ERROR(file->write_at(file_offset, buffer));
    file_offset += buffer.size();
    buffer.clear();
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

OutputFile::OutputFile(std::unique_ptr<State> state) : state_(std::move(state)) {}

OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;
OutputFile::~OutputFile() = default;

Result<OutputFile> OutputFile::create(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(std::string target, writable_target(path));
  auto state = std::make_unique<State>();
  state->temp_path = fmt::format("{}.tmp-{}", target, random_hex_128());
  state->path = std::move(target);
  OpenOptions options;
  options.mode = FileMode::kWrite;
  options.permissions = 0644;  // weights and results are no secrets, unlike prompts
  CAIRN_ASSIGN_OR_RETURN(state->file, posix_file_system().open(state->temp_path, options));
  state->buffer.reserve(kBufferBytes);
  return OutputFile(std::move(state));
}

const std::string& OutputFile::path() const {
  return state_->path;
}

uint64_t OutputFile::n_written() const {
  return state_->file_offset + state_->buffer.size();
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  std::vector<std::byte>& buffer = state_->buffer;
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kBufferBytes - buffer.size());
    buffer.insert(buffer.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    if (buffer.size() == kBufferBytes) CAIRN_RETURN_IF_ERROR(state_->flush());
  }
  return Status::ok();
}

Status OutputFile::finish_unsynced() {
  if (state_->file == nullptr) {
    return Status::invalid_argument(state_->path + ": finished already");
  }
  CAIRN_RETURN_IF_ERROR(state_->flush());
  CAIRN_RETURN_IF_ERROR(posix_file_system().rename(state_->temp_path, state_->path));
  state_->file.reset();
  return Status::ok();
}

Status OutputFile::finish() {
  if (state_->file != nullptr) {
    CAIRN_RETURN_IF_ERROR(state_->flush());
    CAIRN_RETURN_IF_ERROR(state_->file->sync());
  }
  CAIRN_RETURN_IF_ERROR(finish_unsynced());
  const std::string folder = std::filesystem::path(state_->path).parent_path().string();
  return posix_file_system().sync_directory(folder.empty() ? "." : folder);
}

}  // namespace cairn
