// `cairn run`: one prompt or conversation in, one reply out.
#include <fmt/format.h>

#include <cstdio>

#include "base/file_system.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/local_session.h"

namespace cairn::cli {
namespace {

constexpr uint64_t kMaxMessagesBytes = uint64_t{64} << 20;

struct RunFlags {
  LocalFlags local;
  std::string prompt, messages, template_file;
  ReplyOptions reply;
  bool json = false;
};

Result<Json> conversation_of(const RunFlags& flags) {
  if (flags.messages.empty()) {
    return Json::array({{{"role", "user"}, {"content", flags.prompt}}});
  }
  CAIRN_ASSIGN_OR_RETURN(const std::string text,
                         read_text_file(posix_file_system(), flags.messages, kMaxMessagesBytes));
  CAIRN_ASSIGN_OR_RETURN(Json parsed, parse_json(text, flags.messages));
  if (parsed.is_object() && parsed.contains("messages")) parsed = Json(parsed["messages"]);
  if (!parsed.is_array() || parsed.empty()) {
    return Status::invalid_argument(
        fmt::format("{}: wanted a list of messages, or {{\"messages\": [...]}}", flags.messages));
  }
  return parsed;
}

Status run(RunFlags flags) {
  CAIRN_ASSIGN_OR_RETURN(const Json messages, conversation_of(flags));
  CAIRN_ASSIGN_OR_RETURN(const auto session,
                         LocalSession::open(flags.local, flags.template_file.c_str()));
  flags.reply.stream = !flags.json;
  CAIRN_ASSIGN_OR_RETURN(const ReplyText reply, reply_to(*session, messages, flags.reply));
  session->close();
  if (!flags.json) {
    std::printf("\n");
    return Status::ok();
  }
  const RequestUsage& usage = reply.generation.usage;
  Json result;
  result["text"] = reply.text;
  result["finish_reason"] = reply.generation.finish == FinishReason::kLength ? "length" : "stop";
  result["prompt_tokens"] = usage.prompt_tokens;
  result["completion_tokens"] = usage.completion_tokens;
  result["cached_tokens"] = usage.reuse.device_tokens + usage.reuse.disk_tokens;
  result["seed"] = usage.seed;
  std::printf("%s\n", dump_json(result).c_str());
  return Status::ok();
}

}  // namespace

int run_run(int argc, const char* const* argv) {
  RunFlags flags;
  Arguments arguments("run", "Answer one prompt or conversation and print the reply.");
  flags.local.declare(arguments, "");
  arguments.text("PROMPT", &flags.prompt, "What the user says, in quotes; the same as --prompt");
  arguments.text("--prompt", &flags.prompt, "What the user says");
  arguments.text("--messages", &flags.messages, "File with a list of messages");
  arguments.text(
      "--template", &flags.template_file, "Chat template file in place of the model's own");
  arguments.optional_integer(
      "--max-tokens", &flags.reply.max_tokens, 1, UINT32_MAX, "Tokens to generate at most");
  arguments.number("--temperature",
                   &flags.reply.temperature,
                   0.0F,
                   100.0F,
                   "0 = greedy; default: the model's own");
  arguments.optional_integer(
      "--seed", &flags.reply.seed, 0, UINT64_MAX, "Makes sampling repeatable");
  arguments.flag("--json", &flags.json, "Print text and usage as one JSON object");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  if (flags.prompt.empty() == flags.messages.empty()) {
    std::fprintf(
        stderr,
        "cairn run: give either a prompt in quotes (or --prompt TEXT) or --messages FILE\n");
    return kExitUsage;
  }
  const Status status = run(std::move(flags));
  return status.is_ok() ? kExitOk : report_failure(status);
}

}  // namespace cairn::cli
