// A chat template, rendered with a conversation that has every kind of value. Whatever the template
// is, parsing and rendering must end, within bounds, with a text or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"

namespace {

cairn::TemplateInputs make_inputs() {
  cairn::TemplateInputs inputs;
  inputs.messages = cairn::parse_json(
                        R"([{"role": "system", "content": "Rules."},
      {"role": "user", "content": [{"type": "text", "text": "H\u00e9llo"}, {"type": "image"}]},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "f", "arguments": {"a": 1, "b": [1.5, true, null, "x"]}}}]},
      {"role": "tool", "content": "{}", "tool_call_id": "c1"},
      {"role": "assistant", "content": "<think>\nx\n</think>\n\ny"}, {"role": "user", "content": ""}])",
                        "messages")
                        .value();
  inputs.tools = cairn::parse_json(
                     R"([{"type": "function", "function": {"name": "f", "description": "d",
      "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}])",
                     "tools")
                     .value();
  inputs.add_generation_prompt = true;
  inputs.kwargs["n"] = 12345678901234567890U;
  inputs.now_unix = 1'721'997'296;
  return inputs;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const cairn::TemplateInputs kInputs = make_inputs();
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto chat = cairn::ChatTemplate::parse(source, "fuzz", {{"bos_token", "<s>"}});
  if (!chat.is_ok()) return 0;
  const auto prompt = chat->render(kInputs);
  (void)prompt.is_ok();
  return 0;
}
