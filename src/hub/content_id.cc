#include "hub/content_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/coding.h"
#include "base/file_system.h"

namespace cairn {
namespace {

constexpr size_t kReadStep = size_t{1} << 20;
constexpr std::string_view kSha256Prefix = "sha256:";
constexpr std::string_view kGitPrefix = "git:";

bool is_hex_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

std::string ContentId::text() const {
  if (kind == ContentKind::kUnknown) return "";
  return std::string(kind == ContentKind::kSha256 ? kSha256Prefix : kGitPrefix) + hex;
}

ContentId content_id_from_hex(std::string_view hex) {
  ContentId id;
  if (!std::ranges::all_of(hex, is_hex_digit)) return id;
  if (hex.size() == 64) id.kind = ContentKind::kSha256;
  if (hex.size() == 40) id.kind = ContentKind::kGitBlob;
  if (!id.is_known()) return id;
  for (const char c : hex) id.hex += c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c;
  return id;
}

ContentId content_id_from_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  return content_id_from_hex(etag);
}

ContentId content_id_from_text(std::string_view text) {
  ContentId id;
  if (text.starts_with(kSha256Prefix)) id = content_id_from_hex(text.substr(kSha256Prefix.size()));
  if (text.starts_with(kGitPrefix)) id = content_id_from_hex(text.substr(kGitPrefix.size()));
  return id.text() == text ? id : ContentId();
}

ContentHasher::ContentHasher(ContentKind kind, uint64_t size_bytes) : kind_(kind) {
  if (kind != ContentKind::kGitBlob) return;
  std::string head = fmt::format("blob {}", size_bytes);
  head.push_back('\0');
  sha1_.update(as_bytes(head));
}

void ContentHasher::update(std::span<const std::byte> bytes) {
  if (kind_ == ContentKind::kSha256) sha256_.update(bytes);
  if (kind_ == ContentKind::kGitBlob) sha1_.update(bytes);
}

ContentId ContentHasher::finish() {
  if (kind_ == ContentKind::kSha256) return {kind_, to_hex(sha256_.finish())};
  if (kind_ == ContentKind::kGitBlob) return {kind_, sha1_.finish_hex()};
  return {};
}

Result<ContentId> content_id_of_file(const std::string& path, ContentKind kind) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, posix_file_system().open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileStat stat, file->stat());
  ContentHasher hasher(kind, stat.size_bytes);
  std::vector<std::byte> piece(kReadStep);
  for (uint64_t at = 0; at < stat.size_bytes;) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(kReadStep, stat.size_bytes - at));
    const std::span<std::byte> part = std::span(piece).first(n);
    CAIRN_RETURN_IF_ERROR(file->read_at(at, part));
    hasher.update(part);
    at += n;
  }
  return hasher.finish();
}

}  // namespace cairn
