#include "server/auth.h"

#include <string_view>

#include "base/hash.h"
#include "base/secret_file.h"
#include "server/server.h"

namespace cairn {
namespace {

constexpr uint64_t kMaxKeyFileBytes = uint64_t{1} << 20;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string_view presented_key(const HttpRequest& request) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view header = request.authorization;
  if (header.size() <= kScheme.size()) return request.api_key;
  for (size_t i = 0; i < kScheme.size(); ++i) {
    const char lower =
        header[i] >= 'A' && header[i] <= 'Z' ? static_cast<char>(header[i] + 32) : header[i];
    if (lower != kScheme[i]) return request.api_key;
  }
  return trimmed(header.substr(kScheme.size()));
}

}  // namespace

bool is_authorized(const HttpRequest& request, const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  const std::string_view presented = presented_key(request);
  bool found = false;
  for (const std::string& key : keys) found |= equal_constant_time(presented, key);
  return found;
}

std::string cache_namespace(const HttpRequest& request,
                            const std::vector<std::string>& keys,
                            std::string_view salt) {
  if (keys.empty() && salt.empty()) return "";
  Sha256 hash;
  hash.update_field("cairn.namespace.1");
  hash.update_u8(keys.empty() ? 0 : 1);
  hash.update_field(keys.empty() ? std::string_view() : presented_key(request));
  hash.update_field(salt);
  return to_hex(hash.finish());
}

Result<std::vector<std::string>> read_api_keys(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text,
                         read_secret_file(path, "key file", kMaxKeyFileBytes));
  std::vector<std::string> keys;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(std::string_view(text).substr(begin, end - begin));
    if (!line.empty() && line.front() != '#') keys.emplace_back(line);
    begin = end + 1;
  }
  if (keys.empty()) return Status::invalid_argument(path + ": holds no key; write one key a line");
  return keys;
}

}  // namespace cairn
