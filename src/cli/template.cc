// `cairn template`: renders conversations; needs a chat template only, no tokenizer.json, no
// weights.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "base/clock.h"
#include "base/file_system.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_flags.h"
#include "cli/model_paths.h"
#include "cli/model_text.h"
#include "text/chat_format.h"
#include "text/chat_template.h"

namespace cairn::cli {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{64} << 20;

struct TemplateFlags {
  std::string model, messages, jsonl, tools, template_file, now;
  bool no_generation_prompt = false;
  bool json = false;
};

// Seconds since 1970, or "2024-07-26 12:34:56" (UTC).
Result<int64_t> parse_now(const std::string& text) {
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc{} && end == text.data() + text.size()) return seconds;
  std::tm time{};
  if (const char* rest = strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &time);
      rest != nullptr && *rest == '\0') {
    return static_cast<int64_t>(timegm(&time));
  }
  return Status::invalid_argument(fmt::format(
      "--now is \"{}\", wanted seconds since 1970 or \"YYYY-MM-DD HH:MM:SS\" (UTC)", text));
}

Result<Json> read_json_file(const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text,
                         read_text_file(posix_file_system(), path, kMaxFileBytes));
  return parse_json(text, path);
}

TemplateInputs inputs_of(const Json& row, int64_t now) {
  TemplateInputs inputs;
  inputs.now_unix = now;
  if (row.contains("messages")) inputs.messages = row["messages"];
  if (row.contains("tools")) inputs.tools = row["tools"];
  if (row.contains("add_generation_prompt"))
    inputs.add_generation_prompt = row["add_generation_prompt"] == true;
  if (row.contains("kwargs") && row["kwargs"].is_object()) inputs.kwargs = row["kwargs"];
  return inputs;
}

Status run_jsonl(const ChatFormat& format, const std::string& path, int64_t now) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) return Status::not_found(fmt::format("{}: cannot be read", path));
  }
  std::istream& in = path == "-" ? std::cin : file;
  size_t n_lines = 0;
  for (std::string line; std::getline(in, line);) {
    ++n_lines;
    if (line.empty()) continue;
    CAIRN_ASSIGN_OR_RETURN(const Json row,
                           parse_json(line, fmt::format("{} line {}", path, n_lines)));
    if (!row.is_object())
      return Status::invalid_argument(fmt::format("{} line {}: wanted an object", path, n_lines));
    RenderError error;
    const auto rendered = format.render(inputs_of(row, now), &error);
    Json out;
    if (rendered.is_ok()) {
      out["rendered"] = *rendered;
    } else {
      out["error"] = error.message;
      out["raised"] = error.is_raised;
    }
    std::printf("%s\n", dump_json(out).c_str());
  }
  return Status::ok();
}

Status run(const TemplateFlags& flags) {
  int64_t now = SystemClock().unix_seconds();
  if (!flags.now.empty()) {
    CAIRN_ASSIGN_OR_RETURN(now, parse_now(flags.now));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string dir, resolve_model(flags.model));
  CAIRN_ASSIGN_OR_RETURN(const ChatFormat format, load_chat_format(dir, flags.template_file));
  if (!flags.jsonl.empty()) return run_jsonl(format, flags.jsonl, now);

  CAIRN_ASSIGN_OR_RETURN(const Json parsed, read_json_file(flags.messages));
  TemplateInputs inputs = inputs_of(parsed.is_object() ? parsed : Json{{"messages", parsed}}, now);
  inputs.add_generation_prompt = !flags.no_generation_prompt;
  if (!flags.tools.empty()) {
    CAIRN_ASSIGN_OR_RETURN(inputs.tools, read_json_file(flags.tools));
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string rendered, format.render(inputs));
  if (flags.json) {
    std::printf("%s\n", dump_json(Json{{"rendered", rendered}}).c_str());
  } else {
    std::fwrite(rendered.data(), 1, rendered.size(), stdout);
  }
  return Status::ok();
}

}  // namespace

int run_template(int argc, const char* const* argv) {
  TemplateFlags flags;
  Arguments arguments("template", "Render a conversation with a model's chat template.");
  arguments.required_text(
      "--model", &flags.model, std::string(kModelHelp) + "; no weights or tokenizer needed");
  arguments.text("--messages", &flags.messages, "File with a list of messages");
  arguments.text(
      "--jsonl",
      &flags.jsonl,
      "File (or -) with {\"messages\", \"tools\", \"add_generation_prompt\", \"kwargs\"} a line");
  arguments.text("--tools", &flags.tools, "File with a list of tools");
  arguments.text(
      "--template", &flags.template_file, "Chat template file in place of the model's own");
  arguments.text("--now",
                 &flags.now,
                 "The time that templates print: seconds since 1970 or \"YYYY-MM-DD HH:MM:SS\"");
  arguments.flag(
      "--no-generation-prompt", &flags.no_generation_prompt, "Leave out the start of the reply");
  arguments.flag("--json", &flags.json, "Print {\"rendered\": ...}");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  if (flags.messages.empty() == flags.jsonl.empty()) {
    std::fprintf(stderr, "cairn template: give either --messages FILE or --jsonl FILE\n");
    return kExitUsage;
  }
  const Status status = run(flags);
  return status.is_ok() ? kExitOk : report_failure(status);
}

}  // namespace cairn::cli
