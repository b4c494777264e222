// A model's chat template: messages to the prompt text that the model was trained on.
//
// The language is Jinja as Hugging Face's tools run it: an immutable sandbox, trim_blocks and
// lstrip_blocks on, loop controls, tojson as plain json.dumps, raise_exception and strftime_now.
// Templates come with models and are not trusted: nothing is executed but this language, no file or
// variable outside of the inputs can be reached, and steps, memory and nesting are bounded.
// Thread: immutable; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cairn {

struct TemplateInputs {
  Json messages = Json::array();
  Json tools = nullptr;  // array or null
  bool add_generation_prompt = false;
  Json kwargs = Json::object();  // extra variables by name; they win over all others
  int64_t now_unix = 0;          // what strftime_now shows, as UTC
};

// Variables that every rendering has: {"bos_token", "<s>"}, {"eos_token", ...}, ...
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

// Why a rendering failed, for `cairn template --jsonl`.
struct RenderError {
  std::string message;     // without the template's name and line
  bool is_raised = false;  // the template itself refused, by raise_exception; message is its text
};

class ChatTemplate {
 public:
  // The largest published template has 17 KB. A tree takes up to 200 times the bytes of its source.
  static constexpr size_t kSourceBytesMax = size_t{256} << 10U;

  // `name` is used in errors. Errors: kInvalidArgument with name and line, for bad syntax, for what
  // this Jinja does not have (include, import, recursive loops) and for sources over 256 KiB.
  static Result<ChatTemplate> parse(std::string_view source,
                                    std::string_view name,
                                    SpecialTokens special_tokens = {});

  ChatTemplate(const ChatTemplate&);
  ChatTemplate& operator=(const ChatTemplate&);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Errors: kInvalidArgument with name and line; `error`, if given, gets the reason by itself.
  // Integers up to 2^64 - 1 and the order of keys print as they came; larger integers have become
  // floats when the JSON was read.
  Result<std::string> render(const TemplateInputs& inputs, RenderError* error = nullptr) const;

  const std::string& source() const;
  const SpecialTokens& special_tokens() const;

 private:
  struct Parsed;
  explicit ChatTemplate(std::shared_ptr<const Parsed> parsed);

  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace cairn
