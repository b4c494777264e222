// `cairn chat`: talk in the terminal. The conversation's cache outlives the program.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "base/json.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/local_session.h"

namespace cairn::cli {
namespace {

struct ChatFlags {
  LocalFlags local;
  std::string system, template_file;
  ReplyOptions reply;
};

Status run(ChatFlags flags) {
  CAIRN_ASSIGN_OR_RETURN(const auto session,
                         LocalSession::open(flags.local, flags.template_file.c_str()));
  flags.reply.stream = true;
  Json messages = Json::array();
  if (!flags.system.empty()) messages.push_back({{"role", "system"}, {"content", flags.system}});
  const bool on_terminal = isatty(STDIN_FILENO) == 1;
  for (std::string line;;) {
    if (on_terminal) std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    messages.push_back({{"role", "user"}, {"content", line}});
    auto reply = reply_to(*session, messages, flags.reply);
    if (!reply.is_ok()) {
      // Too long, or a message the template refuses: say so and let the user go on.
      std::fprintf(stderr, "error: %s\n", reply.status().message().c_str());
      messages.erase(messages.size() - 1);
      continue;
    }
    std::printf("\n");
    std::fflush(stdout);
    messages.push_back({{"role", "assistant"}, {"content", reply->text}});
  }
  session->close();
  return Status::ok();
}

}  // namespace

int run_chat(int argc, const char* const* argv) {
  ChatFlags flags;
  Arguments arguments("chat", "Talk with a model in the terminal; end with Ctrl-D.");
  flags.local.declare(arguments, "");
  arguments.text("--system", &flags.system, "System message at the front");
  arguments.text(
      "--template", &flags.template_file, "Chat template file in place of the model's own");
  arguments.optional_integer(
      "--max-tokens", &flags.reply.max_tokens, 1, UINT32_MAX, "Tokens a reply may have");
  arguments.number("--temperature",
                   &flags.reply.temperature,
                   0.0F,
                   100.0F,
                   "0 = greedy; default: the model's own");
  arguments.optional_integer(
      "--seed", &flags.reply.seed, 0, UINT64_MAX, "Makes sampling repeatable");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  const Status status = run(std::move(flags));
  return status.is_ok() ? kExitOk : report_failure(status);
}

}  // namespace cairn::cli
