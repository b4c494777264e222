#include "api/chat_messages.h"

#include <fmt/format.h>

#include "base/json.h"

namespace cairn {
namespace {

constexpr size_t kMaxMessages = 100'000;

// The text of `content`: a string, null, or a list of text parts. False after a fault.
bool flatten_content(JsonFields& fields, size_t index, Json* content) {
  if (content->is_string() || content->is_null()) return true;
  if (!content->is_array()) {
    fields.fail(
        "messages",
        fmt::format("messages[{}].content must be a string, null or a list of parts", index));
    return false;
  }
  std::string text;
  for (const Json& part : *content) {
    const std::string type = part.is_object() && part.contains("type") && part["type"].is_string()
                                 ? part["type"].get<std::string>()
                                 : "";
    if (type != "text" || !part.contains("text") || !part["text"].is_string()) {
      fields.fail("messages",
                  fmt::format("messages[{}].content holds a part of type \"{:.40}\"; this version "
                              "reads text parts only",
                              index,
                              type));
      return false;
    }
    text += part["text"].get<std::string>();
  }
  *content = std::move(text);
  return true;
}

bool read_tool_calls(JsonFields& fields, size_t index, Json* calls) {
  if (!calls->is_array()) {
    fields.fail("messages", fmt::format("messages[{}].tool_calls must be a list", index));
    return false;
  }
  for (Json& call : *calls) {
    Json* function = call.is_object() && call.contains("function") ? &call["function"] : &call;
    if (!function->is_object() || !function->contains("name") || !(*function)["name"].is_string()) {
      fields.fail("messages",
                  fmt::format("messages[{}].tool_calls: a call has no function name", index));
      return false;
    }
    if (!function->contains("arguments") || !(*function)["arguments"].is_string()) continue;
    auto parsed = parse_json((*function)["arguments"].get_ref<const std::string&>(), "arguments");
    if (parsed.is_ok() && parsed->is_object()) (*function)["arguments"] = std::move(*parsed);
  }
  return true;
}

bool read_message(JsonFields& fields, size_t index, Json* message) {
  if (!message->is_object() || !message->contains("role") || !(*message)["role"].is_string()) {
    fields.fail("messages", fmt::format("messages[{}] must be an object with a role", index));
    return false;
  }
  // By value: adding a key below moves the members of an ordered object.
  const Json role = (*message)["role"] == "developer" ? Json("system") : (*message)["role"];
  (*message)["role"] = role;
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    fields.fail(
        "messages",
        fmt::format(
            "messages[{}].role is {:.40}, wanted system, developer, user, assistant or tool",
            index,
            dump_json(role)));
    return false;
  }
  if (!message->contains("content")) (*message)["content"] = nullptr;
  if (!flatten_content(fields, index, &(*message)["content"])) return false;
  const bool has_calls = message->contains("tool_calls") && !(*message)["tool_calls"].is_null();
  if (has_calls && !read_tool_calls(fields, index, &(*message)["tool_calls"])) return false;
  if (message->contains("tool_calls") && !has_calls) message->erase("tool_calls");
  if ((*message)["content"].is_null() && role != "assistant") {
    fields.fail("messages",
                fmt::format("messages[{}].content is missing; only an assistant's may be", index));
    return false;
  }
  return true;
}

}  // namespace

void read_messages(JsonFields& fields, Json* out) {
  const Json* messages = fields.find("messages");
  if (fields.has_failed()) return;
  if (messages == nullptr || !messages->is_array() || messages->empty() ||
      messages->size() > kMaxMessages) {
    return fields.fail("messages",
                       fmt::format("messages must be a list of 1 to {} messages", kMaxMessages));
  }
  *out = *messages;
  for (size_t i = 0; i < out->size(); ++i) {
    if (!read_message(fields, i, &(*out)[i])) return;
  }
}

void read_tools(JsonFields& fields, Json* out) {
  *out = nullptr;
  const Json* tools = fields.find("tools");
  const Json* choice = fields.find("tool_choice");
  fields.ignore({"parallel_tool_calls"});
  if (choice != nullptr && *choice != "auto" && *choice != "none") {
    return fields.fail("tool_choice",
                       fmt::format("tool_choice is {:.80}; this version accepts \"auto\" and "
                                   "\"none\" only, because it cannot force a call",
                                   dump_json(*choice)));
  }
  if (tools == nullptr) return;
  if (!tools->is_array()) return fields.fail("tools", "tools must be a list");
  for (const Json& tool : *tools) {
    if (!tool.is_object())
      return fields.fail("tools", "tools holds something that is not an object");
  }
  if (!tools->empty() && (choice == nullptr || *choice == "auto")) *out = *tools;
}

}  // namespace cairn
