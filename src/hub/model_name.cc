#include "hub/model_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"

namespace cairn {
namespace {

constexpr size_t kIdPartMax = 96;  // of an organisation's or repository's name, as the hub has it
constexpr size_t kRevisionMax = 128;
constexpr size_t kQuantMax = 32;
// Leaves room for ".part.json" in the 255 bytes that file systems allow.
constexpr size_t kPathPartMax = 240;
constexpr size_t kPathMax = 1024;
constexpr std::string_view kGgufEnding = ".gguf";

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

bool is_word(std::string_view text, size_t max_bytes) {
  return !text.empty() && text.size() <= max_bytes && std::ranges::all_of(text, is_word_char);
}

// The hub forbids "--" and "..", and uses "--" itself in folder names.
bool is_id_part(std::string_view text) {
  return is_word(text, kIdPartMax) && text.front() != '.' && text.front() != '-' &&
         text.find("--") == std::string_view::npos && text.find("..") == std::string_view::npos;
}

bool is_revision(std::string_view text) {
  const auto is_allowed = [](char c) { return is_word_char(c) || c == '/'; };
  return !text.empty() && text.size() <= kRevisionMax && std::ranges::all_of(text, is_allowed) &&
         text.front() != '/' && text.front() != '-' && text.back() != '/' &&
         text.find("..") == std::string_view::npos && text.find("//") == std::string_view::npos;
}

Status no_name(std::string_view text) {
  return Status::invalid_argument(
      fmt::format("\"{}\" is not a model's name on a hub; write ORG/REPO, ORG/REPO@REVISION, "
                  "ORG/REPO:Q4_K_M (a GGUF of that type) or ORG/REPO/FILE.gguf",
                  printable(text)));
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

const char* fault_of_path(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.size() > kPathMax) return "is longer than 1,024 bytes";
  if (path.front() == '/') return "is absolute";
  if (path.find('\\') != std::string_view::npos) return "has a backslash";
  if (std::ranges::any_of(path, is_control)) return "has a control character";
  if (!is_utf8(path)) return "is not UTF-8";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty()) return "has an empty part";
    if (part == "." || part == "..") return "leaves its folder";
    if (part.size() > kPathPartMax) return "has a part of more than 240 bytes";
    begin = end + 1;
  }
  return nullptr;
}

}  // namespace

std::string ModelName::text() const {
  std::string text = repo_id();
  if (!file.empty()) text += "/" + file;
  if (!revision.empty()) text += "@" + revision;
  if (!quant.empty()) text += ":" + quant;
  return text;
}

Result<ModelName> parse_model_name(std::string_view text) {
  ModelName name;
  std::string_view rest = text;
  const size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos) {
    name.quant = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!is_word(name.quant, kQuantMax)) return no_name(text);
  }
  const size_t at = rest.find('@');
  if (at != std::string_view::npos) {
    name.revision = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!is_revision(name.revision)) return no_name(text);
  }
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return no_name(text);
  name.org = rest.substr(0, slash);
  rest.remove_prefix(slash + 1);
  const size_t next = std::min(rest.find('/'), rest.size());
  name.repo = rest.substr(0, next);
  if (!is_id_part(name.org) || !is_id_part(name.repo)) return no_name(text);
  if (next == rest.size()) return name;
  name.file = rest.substr(next + 1);
  const bool is_gguf = name.file.ends_with(kGgufEnding) && check_repo_path(name.file).is_ok();
  if (!is_gguf || !name.quant.empty()) return no_name(text);
  return name;
}

Status check_repo_path(std::string_view path) {
  const char* const fault = fault_of_path(path);
  if (fault == nullptr) return Status::ok();
  return Status::corruption(fmt::format("file name \"{}\" {}", printable(path), fault));
}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out(text.substr(0, max_bytes));
  std::ranges::replace_if(out, is_control, ' ');
  if (text.size() > max_bytes) out += "...";
  return out;
}

}  // namespace cairn
