// `cairn generate-ids`: greedy continuation of given ids through the engine.
#include <cstdio>

#include "base/json.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/id_files.h"
#include "cli/local_session.h"

namespace cairn::cli {
namespace {

struct GenerateFlags {
  LocalFlags local;
  std::string ids;
  uint64_t max_tokens = 128;
  bool ignore_eos = false;
  bool json = false;
};

Json usage_json(const Generation& generation) {
  Json usage;
  usage["prompt_tokens"] = generation.usage.prompt_tokens;
  usage["completion_tokens"] = generation.tokens.size();
  usage["device_tokens"] = generation.usage.reuse.device_tokens;
  usage["disk_tokens"] = generation.usage.reuse.disk_tokens;
  usage["computed_tokens"] = generation.usage.computed_tokens;
  return usage;
}

Status run(const GenerateFlags& flags) {
  CAIRN_ASSIGN_OR_RETURN(const IdLists ids, read_id_file(flags.ids));
  CAIRN_ASSIGN_OR_RETURN(const auto session, LocalSession::open(flags.local, kNoText));
  Json lists = Json::array();
  Json details = Json::array();
  for (const std::vector<TokenId>& prompt : ids.lists) {
    GenerationRequest request;
    request.prompt = prompt;
    request.sampling.temperature = 0;
    request.max_tokens = static_cast<uint32_t>(flags.max_tokens);
    request.stop_ids = session->stop_ids();
    request.ignore_stop_ids = flags.ignore_eos;
    request.want_logprobs = flags.json;
    CAIRN_ASSIGN_OR_RETURN(
        const Generation generation,
        session->generate(std::move(request), [](const GeneratedToken&) { return true; }));
    Json list = Json::array();
    Json logprobs = Json::array();
    for (const GeneratedToken& token : generation.tokens) {
      list.push_back(token.id);
      logprobs.push_back(json_float(token.logprob));
    }
    lists.push_back(std::move(list));
    Json detail = usage_json(generation);
    detail["logprobs"] = std::move(logprobs);
    detail["finish_reason"] = generation.finish == FinishReason::kLength ? "length" : "stop";
    details.push_back(std::move(detail));
  }
  session->close();
  Json result;
  result["ids"] = ids.is_single ? lists[0] : lists;
  if (flags.json) result["details"] = ids.is_single ? details[0] : details;
  std::printf("%s\n", dump_json(result).c_str());
  return Status::ok();
}

}  // namespace

int run_generate_ids(int argc, const char* const* argv) {
  GenerateFlags flags;
  Arguments arguments("generate-ids",
                      "Continue given token ids greedily; prints {\"ids\": [...]}.");
  flags.local.declare(arguments, "none");
  arguments.required_text(
      "--ids", &flags.ids, "File with {\"ids\": [...]} or a list of lists (one after another)");
  arguments.integer("--max-tokens", &flags.max_tokens, 1, UINT32_MAX, "Ids to generate at most");
  arguments.flag("--ignore-eos", &flags.ignore_eos, "Go on after an end token");
  arguments.flag("--json", &flags.json, "Add logprobs and where the prompt's rows came from");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  const Status status = run(flags);
  return status.is_ok() ? kExitOk : report_failure(status);
}

}  // namespace cairn::cli
