#include "hub/listing.h"

#include <fmt/format.h>

#include <unordered_set>
#include <utility>

#include "base/json.h"
#include "hub/model_name.h"

namespace cairn {
namespace {

// Null when `object` has no such member, or null there.
const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_member(const Json& object, const char* name) {
  const Json* const value = member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

Status read_size(const Json& object, std::optional<uint64_t>* size_bytes) {
  const Json* const value = member(object, "size");
  if (value == nullptr) return Status::ok();
  if (!value->is_number_unsigned() || value->get<uint64_t>() > kRepoFileBytesMax) {
    return Status::corruption(fmt::format("size {}, wanted a whole number up to {}",
                                          printable(dump_json(*value), 40),
                                          kRepoFileBytesMax));
  }
  *size_bytes = value->get<uint64_t>();
  return Status::ok();
}

// Under "lfs" the blob id is that of a pointer, not of the file's own bytes.
Status read_content(const Json& entry, RepoFile* file) {
  CAIRN_RETURN_IF_ERROR(read_size(entry, &file->size_bytes));
  const Json* const lfs = member(entry, "lfs");
  if (lfs == nullptr) {
    const ContentId blob = content_id_from_hex(text_member(entry, "blobId"));
    if (blob.kind == ContentKind::kGitBlob) file->content = blob;
    return Status::ok();
  }
  if (!lfs->is_object()) return Status::corruption("\"lfs\" is no object");
  CAIRN_RETURN_IF_ERROR(read_size(*lfs, &file->size_bytes));
  const ContentId sha256 = content_id_from_hex(text_member(*lfs, "sha256"));
  if (sha256.kind == ContentKind::kSha256) file->content = sha256;
  return Status::ok();
}

Result<RepoFile> read_entry(const Json& entry) {
  if (!entry.is_object()) return Status::corruption("an entry of \"siblings\" is no object");
  const Json* const name = member(entry, "rfilename");
  if (name == nullptr || !name->is_string()) {
    return Status::corruption("an entry of \"siblings\" has no \"rfilename\"");
  }
  RepoFile file;
  file.name = name->get<std::string>();
  CAIRN_RETURN_IF_ERROR(check_repo_path(file.name));
  const Status status = read_content(entry, &file);
  if (!status.is_ok()) return status.with_prefix(file.name);
  return file;
}

}  // namespace

Result<Listing> parse_listing(std::string_view json) {
  if (json.size() > kListingBytesMax) {
    return Status::corruption(fmt::format(
        "the list of files has {} bytes, at most {} are read", json.size(), kListingBytesMax));
  }
  CAIRN_ASSIGN_OR_RETURN(const Json root, parse_json(json, "the list of files"));
  const Json* const siblings = root.is_object() ? member(root, "siblings") : nullptr;
  if (siblings == nullptr || !siblings->is_array()) {
    return Status::corruption("the list of files has no array \"siblings\": is this a model hub?");
  }
  if (siblings->size() > kListingFilesMax) {
    return Status::corruption(fmt::format(
        "the repository has {} files, at most {} are read", siblings->size(), kListingFilesMax));
  }
  Listing listing;
  const ContentId commit = content_id_from_hex(text_member(root, "sha"));
  if (commit.kind == ContentKind::kGitBlob) listing.commit = commit.hex;
  std::unordered_set<std::string> seen;
  for (const Json& entry : *siblings) {
    auto file = read_entry(entry);
    if (!file.is_ok()) return file.status().with_prefix("the list of files");
    if (!seen.insert(file->name).second) {
      return Status::corruption(
          fmt::format("the list of files names \"{}\" twice", printable(file->name)));
    }
    listing.files.push_back(std::move(*file));
  }
  return listing;
}

}  // namespace cairn
