#include "hub/hub_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/file_system.h"
#include "base/options.h"

namespace cairn {
namespace {

constexpr uint64_t kTokenFileMax = 4096;

// A variable that is set to nothing counts as unset.
std::optional<std::string> variable(const char* name) {
  std::optional<std::string> value = env(name);
  return value && value->empty() ? std::nullopt : value;
}

// The folder that default_cache_dir() makes its own folder in.
std::string cache_root() {
  const std::string own = default_cache_dir();
  return own.substr(0, own.rfind('/'));
}

std::string hf_home() {
  return variable("HF_HOME").value_or(cache_root() + "/huggingface");
}

std::string trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

std::string find_token() {
  if (const auto token = variable("HF_TOKEN")) return trimmed(*token);
  const std::string path = variable("HF_TOKEN_PATH").value_or(hf_home() + "/token");
  const auto text = read_text_file(posix_file_system(), path, kTokenFileMax);
  return text.is_ok() ? trimmed(*text) : "";
}

// A token goes into a header line, so it must not hold an end of line.
Status check_token(std::string_view token) {
  const auto is_visible = [](char c) { return c > ' ' && c < 0x7F; };
  if (std::ranges::all_of(token, is_visible)) return Status::ok();
  return Status::invalid_argument(
      "the access token (HF_TOKEN, or the file token in HF_HOME) has a space or a control "
      "character "
      "in it; copy it again");
}

Result<std::string> find_endpoint() {
  std::string endpoint = variable("HF_ENDPOINT").value_or(HubSettings().endpoint);
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const bool is_plain = endpoint.find_first_of("@?# \t\r\n") == std::string::npos;
  if (is_plain && is_same_origin(endpoint, endpoint)) return endpoint;
  return Status::invalid_argument(
      fmt::format("HF_ENDPOINT is \"{}\", wanted the address of a hub such as "
                  "https://huggingface.co, without user, query or fragment",
                  printable(endpoint.substr(endpoint.rfind('@') + 1))));  // never shows a password
}

}  // namespace

Result<HubSettings> hub_settings_from_environment() {
  HubSettings settings;
  CAIRN_ASSIGN_OR_RETURN(settings.endpoint, find_endpoint());
  const std::string token = find_token();
  CAIRN_RETURN_IF_ERROR(check_token(token));
  if (token.empty()) return settings;
  if (!is_private_channel(settings.endpoint)) {
    settings.warning = fmt::format(
        "the access token is not sent to {}: http can be read by others on the way; use https",
        settings.endpoint);
    return settings;
  }
  settings.http.token = token;
  settings.http.token_origin = settings.endpoint;
  return settings;
}

ModelPlaces model_places_from_environment() {
  return {default_cache_dir() + "/models", variable("HF_HUB_CACHE").value_or(hf_home() + "/hub")};
}

}  // namespace cairn
