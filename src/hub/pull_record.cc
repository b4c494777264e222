#include "hub/pull_record.h"

#include <utility>

#include "base/coding.h"
#include "base/file_system.h"
#include "base/json.h"
#include "hub/listing.h"

namespace cairn {
namespace {

constexpr uint64_t kVersion = 1;
constexpr uint64_t kRecordBytesMax = kListingBytesMax;

std::string record_path(const std::string& folder) {
  return folder + "/.cairn-pull.json";
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

PulledFile file_of(const Json& object) {
  PulledFile file;
  const auto bytes = object.find("bytes");
  const auto mtime = object.find("mtime_ns");
  if (bytes != object.end() && bytes->is_number_unsigned()) {
    file.size_bytes = bytes->get<uint64_t>();
  }
  if (mtime != object.end() && mtime->is_number_integer()) file.mtime_ns = mtime->get<int64_t>();
  file.content = content_id_from_text(text_of(object, "content"));
  file.listed = content_id_from_text(text_of(object, "listed"));
  file.commit = text_of(object, "commit");
  return file;
}

}  // namespace

bool PullRecord::is_untouched(const std::string& folder, const std::string& name) const {
  const auto known = files.find(name);
  if (known == files.end()) return false;
  const auto stat = posix_file_system().stat(folder + "/" + name);
  return stat.is_ok() && !stat->is_directory && stat->size_bytes == known->second.size_bytes &&
         stat->mtime_ns == known->second.mtime_ns;
}

PullRecord load_pull_record(const std::string& folder) {
  PullRecord record;
  const std::string path = record_path(folder);
  const auto text = read_text_file(posix_file_system(), path, kRecordBytesMax);
  if (!text.is_ok()) return record;
  const auto json = parse_json(*text, path);
  if (!json.is_ok() || !json->is_object()) return record;
  const auto version = json->find("version");
  if (version == json->end() || *version != kVersion) return record;
  record.revision = text_of(*json, "revision");
  record.commit = text_of(*json, "commit");
  if (const auto pending = json->find("pending"); pending != json->end()) {
    for (const Json& name : *pending) {
      if (name.is_string()) record.pending.insert(name.get<std::string>());
    }
  }
  const auto files = json->find("files");
  if (files == json->end() || !files->is_object()) return record;
  for (const auto& [name, file] : files->items()) {
    if (file.is_object()) record.files.emplace(name, file_of(file));
  }
  return record;
}

Status save_pull_record(const std::string& folder, const PullRecord& record) {
  Json files = Json::object();
  for (const auto& [name, file] : record.files) {
    files[name] = {{"bytes", file.size_bytes},
                   {"content", file.content.text()},
                   {"listed", file.listed.text()},
                   {"commit", file.commit},
                   {"mtime_ns", file.mtime_ns}};
  }
  const Json json = {{"version", kVersion},
                     {"revision", record.revision},
                     {"commit", record.commit},
                     {"pending", record.pending},
                     {"files", std::move(files)}};
  return write_file_atomically(
      posix_file_system(), record_path(folder), as_bytes(dump_json(json) + "\n"));
}

}  // namespace cairn
