// The `cairn` program: finds the command and hands over.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>

#include "cli/arguments.h"
#include "cli/commands.h"

namespace {

struct Command {
  const char* name;
  int (*run)(int argc, const char* const* argv);
  const char* summary;
};

constexpr Command kCommands[] = {
    {"serve",
     cairn::cli::run_serve,
     "Serve models to OpenAI clients, with a cache that survives restarts"},
    {"run", cairn::cli::run_run, "Answer one prompt or conversation and print the reply"},
    {"chat", cairn::cli::run_chat, "Talk with a model in the terminal"},
    {"score", cairn::cli::run_score, "Write the logits of given token ids to a safetensors file"},
    {"generate-ids", cairn::cli::run_generate_ids, "Continue given token ids and print the ids"},
    {"bench", cairn::cli::run_bench, "Measure prefill and decode against this machine's limits"},
    {"tokenize", cairn::cli::run_tokenize, "Turn text into token ids"},
    {"template", cairn::cli::run_template, "Render a conversation with a model's chat template"},
    {"inspect", cairn::cli::run_inspect, "Tell what a model file holds"},
    {"convert", cairn::cli::run_convert, "Write a model in another format or element type"},
    {"pull", cairn::cli::run_pull, "Fetch a model from a hub, or list those that are here"},
    {"cache", cairn::cli::run_cache, "Look at a cache store: ls, stat, verify"},
};

void print_usage(std::FILE* out) {
  std::fprintf(out,
               "cairn: local LLM server with a durable prompt cache\n\nUsage: cairn COMMAND "
               "[OPTIONS]\n\nCommands:\n");
  for (const Command& command : kCommands)
    std::fprintf(out, "  %-14s %s\n", command.name, command.summary);
  std::fprintf(out, "\n`cairn COMMAND --help` tells a command's options.\n");
}

int dispatch(int argc, const char* const* argv) {
  if (argc < 2) {
    print_usage(stderr);
    return cairn::cli::kExitUsage;
  }
  const char* name = argv[1];
  if (std::strcmp(name, "--help") == 0 || std::strcmp(name, "-h") == 0 ||
      std::strcmp(name, "help") == 0) {
    print_usage(stdout);
    return cairn::cli::kExitOk;
  }
  if (std::strcmp(name, "--version") == 0) {
    std::printf("cairn %s\n", CAIRN_VERSION);
    return cairn::cli::kExitOk;
  }
  for (const Command& command : kCommands) {
    if (std::strcmp(name, command.name) == 0) return command.run(argc - 1, argv + 1);
  }
  std::fprintf(stderr, "cairn: unknown command \"%s\"\n\n", name);
  print_usage(stderr);
  return cairn::cli::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int status = dispatch(argc, argv);
    // Output that could not be written (a full disk, a closed pipe) is a failure like any other.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      std::fprintf(stderr, "error: standard output: %s\n", std::strerror(errno));
      return status == cairn::cli::kExitOk ? cairn::cli::kExitFailed : status;
    }
    return status;
  } catch (
      const std::exception& error) {  // no layer lets one through; this is for what we overlooked
    std::fprintf(stderr, "cairn: internal error: %s\n", error.what());
    return cairn::cli::kExitFailed;
  }
}
