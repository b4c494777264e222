#include "hub/part_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/coding.h"
#include "base/json.h"

namespace cairn {
namespace {

constexpr uint64_t kNoteBytesMax = 4096;
constexpr size_t kHashStep = size_t{1} << 20;

// Nullopt for a note that is missing, damaged or of another kind: then nothing is kept.
std::optional<PartSource> read_note(const std::string& path) {
  const auto text = read_text_file(posix_file_system(), path, kNoteBytesMax);
  if (!text.is_ok()) return std::nullopt;
  const auto json = parse_json(*text, path);
  if (!json.is_ok() || !json->is_object()) return std::nullopt;
  const auto content = json->find("content");
  const auto etag = json->find("etag");
  const auto size = json->find("size");
  if (content == json->end() || !content->is_string() || etag == json->end() ||
      !etag->is_string() || size == json->end()) {
    return std::nullopt;
  }
  PartSource source;
  source.content = content_id_from_text(content->get<std::string>());
  source.etag = etag->get<std::string>();
  if (size->is_number_unsigned()) source.size_bytes = size->get<uint64_t>();
  return source;
}

// A weak tag ("W/...") promises alike bytes, not the same ones.
bool is_strong(std::string_view etag) {
  return etag.size() > 2 && etag.front() == '"' && etag.back() == '"';
}

bool is_part_of(const PartSource& source, const RepoFile& file) {
  if (file.size_bytes && source.size_bytes != file.size_bytes) return false;
  if (file.content.kind == ContentKind::kSha256 || source.content.kind == file.content.kind) {
    return source.content == file.content && (source.content.is_known() || is_strong(source.etag));
  }
  // The hub's list did not say, or gave a blob id where the answer knew a SHA-256.
  return is_strong(source.etag);
}

std::optional<PartSource> usable_part(const std::string& path,
                                      const RepoFile& file,
                                      uint64_t* n_bytes) {
  std::optional<PartSource> source = read_note(path + ".part.json");
  const auto stat = posix_file_system().stat(path + ".part");
  if (!source || !stat.is_ok() || !is_part_of(*source, file)) return std::nullopt;
  if (source->size_bytes && stat->size_bytes > *source->size_bytes) return std::nullopt;
  *n_bytes = stat->size_bytes;
  return source;
}

}  // namespace

uint64_t n_part_bytes(const std::string& path, const RepoFile& file) {
  uint64_t n_bytes = 0;
  return usable_part(path, file, &n_bytes) ? n_bytes : 0;
}

Result<PartFile> PartFile::open(const std::string& path, const RepoFile& file) {
  PartFile part(path);
  CAIRN_RETURN_IF_ERROR(part.take_up(file));
  return part;
}

Status PartFile::take_up(const RepoFile& file) {
  source_ = usable_part(path_, file, &n_bytes_);
  if (!source_) remove();
  OpenOptions options;
  options.mode = FileMode::kAppend;
  CAIRN_ASSIGN_OR_RETURN(file_, posix_file_system().open(part_path(), options));
  return source_ ? hash_what_is_here() : Status::ok();
}

Status PartFile::hash_what_is_here() {
  hasher_.reset();
  if (!source_->size_bytes) return Status::ok();
  hasher_.emplace(source_->content.kind, *source_->size_bytes);
  if (!source_->content.is_known()) return Status::ok();
  std::vector<std::byte> piece(kHashStep);
  for (uint64_t at = 0; at < n_bytes_;) {
    const auto part =
        std::span(piece).first(static_cast<size_t>(std::min<uint64_t>(kHashStep, n_bytes_ - at)));
    CAIRN_RETURN_IF_ERROR(file_->read_at(at, part));
    hasher_->update(part);
    at += part.size();
  }
  return Status::ok();
}

Status PartFile::begin(const PartSource& source) {
  if (source_ == source) return Status::ok();
  // The same bytes under another server's tag may be added to; other bytes may not.
  const bool is_same = source_ && source.content.is_known() && source_->content == source.content &&
                       source_->size_bytes == source.size_bytes;
  if (!is_same) CAIRN_RETURN_IF_ERROR(start_anew());
  source_ = source;
  CAIRN_RETURN_IF_ERROR(write_note());
  return is_same ? Status::ok() : hash_what_is_here();
}

std::string PartFile::resume_tag() const {
  return source_ && is_strong(source_->etag) ? source_->etag : "";
}

bool PartFile::can_resume() const {
  return source_ && (source_->content.is_known() || is_strong(source_->etag));
}

Status PartFile::start_anew() {
  n_bytes_ = 0;
  source_.reset();
  hasher_.reset();
  return file_->truncate(0);
}

Status PartFile::write_note() const {
  Json note;
  note["content"] = source_->content.text();
  note["etag"] = source_->etag;
  note["size"] = source_->size_bytes ? Json(*source_->size_bytes) : Json();
  // Not synced: a note that power loss takes or tears costs the bytes that it spoke of.
  OpenOptions options;
  options.mode = FileMode::kWrite;
  CAIRN_ASSIGN_OR_RETURN(const auto file, posix_file_system().open(note_path(), options));
  return file->write_at(0, as_bytes(dump_json(note)));
}

Status PartFile::append(std::span<const std::byte> bytes) {
  CAIRN_RETURN_IF_ERROR(file_->append(bytes));
  n_bytes_ += bytes.size();
  if (hasher_) hasher_->update(bytes);
  return Status::ok();
}

Status PartFile::check_content(const ContentId& found) {
  const ContentId wanted = source_->content;  // remove() forgets it
  if (!wanted.is_known() || found == wanted) return Status::ok();
  remove();
  return Status::corruption(fmt::format(
      "{}: what came is {}, wanted {}; it was removed, pull again (a mirror or proxy that sends "
      "other bytes each time is broken)",
      path_,
      found.text(),
      wanted.text()));
}

Result<ContentId> PartFile::finish() {
  CAIRN_RETURN_IF_ERROR(file_->sync());
  ContentId found;
  if (hasher_) {
    found = hasher_->finish();
  } else {
    CAIRN_ASSIGN_OR_RETURN(found, content_id_of_file(part_path(), source_->content.kind));
  }
  CAIRN_RETURN_IF_ERROR(check_content(found));
  CAIRN_RETURN_IF_ERROR(posix_file_system().rename(part_path(), path_));
  static_cast<void>(posix_file_system().remove(note_path()).is_ok());  // worth nothing any more
  return found;
}

void PartFile::remove() {
  // The bytes first: without a note they would only be removed later, without bytes a note is none.
  static_cast<void>(posix_file_system().remove(part_path()).is_ok());
  static_cast<void>(posix_file_system().remove(note_path()).is_ok());
  n_bytes_ = 0;
  source_.reset();
}

}  // namespace cairn
