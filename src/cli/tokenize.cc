// `cairn tokenize`: text to ids and back; needs a tokenizer.json, no weights.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>

#include "base/file_system.h"
#include "base/json.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_flags.h"
#include "cli/model_paths.h"
#include "cli/model_text.h"

namespace cairn::cli {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;

struct TokenizeFlags {
  std::string model, text, file, jsonl;
  bool json = false;
};

Json encode(const Tokenizer& tokenizer, std::string_view text, bool add_special_tokens) {
  const std::vector<TokenId> ids = tokenizer.encode(text, add_special_tokens);
  Json result;
  result["ids"] = ids;
  result["decoded"] = tokenizer.decode(ids, false);
  return result;
}

Status run_jsonl(const Tokenizer& tokenizer, const std::string& path) {
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
    const std::string what = fmt::format("{} line {}", path, n_lines);
    CAIRN_ASSIGN_OR_RETURN(const Json row, parse_json(line, what));
    if (!row.is_object() || !row.contains("text") || !row["text"].is_string()) {
      return Status::invalid_argument(what + ": wanted {\"text\": \"...\"}");
    }
    const bool special = row.contains("add_special_tokens") && row["add_special_tokens"] == true;
    std::printf(
        "%s\n",
        dump_json(encode(tokenizer, row["text"].get_ref<const std::string&>(), special)).c_str());
  }
  return Status::ok();
}

Status run(const TokenizeFlags& flags) {
  CAIRN_ASSIGN_OR_RETURN(const std::string dir, resolve_model(flags.model));
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(dir));
  if (!flags.jsonl.empty()) return run_jsonl(*tokenizer, flags.jsonl);
  std::string text = flags.text;
  if (!flags.file.empty()) {
    CAIRN_ASSIGN_OR_RETURN(text, read_text_file(posix_file_system(), flags.file, kMaxTextBytes));
  }
  const Json result = encode(*tokenizer, text, false);
  if (flags.json) {
    std::printf("%s\n", dump_json(result).c_str());
    return Status::ok();
  }
  for (const Json& id : result["ids"]) {
    Json piece = std::string(tokenizer->token_bytes(id.get<TokenId>()));
    std::printf("%8u  %s\n", id.get<TokenId>(), dump_json(piece).c_str());
  }
  return Status::ok();
}

}  // namespace

int run_tokenize(int argc, const char* const* argv) {
  TokenizeFlags flags;
  std::optional<std::string> text;
  Arguments arguments("tokenize", "Turn text into token ids with a model's tokenizer.");
  arguments.required_text("--model", &flags.model, std::string(kModelHelp) + "; no weights needed");
  arguments.optional_text("--text", &text, "The text");
  arguments.text("--file", &flags.file, "File with the text");
  arguments.text("--jsonl",
                 &flags.jsonl,
                 "File (or -) with {\"text\": ..., \"add_special_tokens\": ...} a line");
  arguments.flag("--json", &flags.json, "Print {\"ids\": ..., \"decoded\": ...}");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  if (int{text.has_value()} + int{!flags.file.empty()} + int{!flags.jsonl.empty()} != 1) {
    std::fprintf(stderr, "cairn tokenize: give one of --text, --file, --jsonl\n");
    return kExitUsage;
  }
  flags.text = text.value_or("");
  const Status status = run(flags);
  return status.is_ok() ? kExitOk : report_failure(status);
}

}  // namespace cairn::cli
