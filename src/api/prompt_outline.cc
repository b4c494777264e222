#include "api/prompt_outline.h"

#include <algorithm>

#include "base/json.h"

namespace cairn {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

// Many templates trim.
std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) - begin + 1);
}

std::optional<std::string> name_of(const Json& tool) {
  const auto function = tool.find("function");
  const Json& named = function != tool.end() && function->is_object() ? *function : tool;
  const auto name = named.find("name");
  if (name == named.end() || !name->is_string()) return std::nullopt;
  return name->get<std::string>();
}

}  // namespace

const OutlinedMessage* PromptOutline::message_at(size_t at) const {
  const auto it = std::find_if(
      messages.begin(), messages.end(), [at](const OutlinedMessage& m) { return at < m.end; });
  return it == messages.end() ? nullptr : &*it;
}

PromptOutline outline_prompt(const Json& messages, const Json& tools, std::string_view rendered) {
  PromptOutline outline;
  size_t done = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& content = messages[i]["content"];
    if (!content.is_string()) continue;
    const std::string_view text = trimmed(content.get_ref<const std::string&>());
    const size_t begin = text.empty() ? std::string_view::npos : rendered.find(text, done);
    if (begin == std::string_view::npos) continue;
    done = begin + text.size();
    outline.messages.push_back({i, messages[i]["role"].get<std::string>(), begin, done});
  }
  if (!tools.is_array()) return outline;
  for (const Json& tool : tools) {
    if (auto name = name_of(tool)) outline.tool_names.push_back(std::move(*name));
  }
  return outline;
}

}  // namespace cairn
