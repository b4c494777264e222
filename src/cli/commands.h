// One function a command, one file a function; main.cc only dispatches. Each takes the arguments
// after the command's name (argv[0] is the name itself) and returns the exit status: 0, 1 failed, 2
// usage.
#pragma once

namespace cairn::cli {

int run_serve(int argc, const char* const* argv);
int run_run(int argc, const char* const* argv);
int run_chat(int argc, const char* const* argv);
int run_score(int argc, const char* const* argv);
int run_generate_ids(int argc, const char* const* argv);
int run_bench(int argc, const char* const* argv);
int run_tokenize(int argc, const char* const* argv);
int run_template(int argc, const char* const* argv);
int run_inspect(int argc, const char* const* argv);
int run_convert(int argc, const char* const* argv);
int run_pull(int argc, const char* const* argv);
int run_cache(int argc, const char* const* argv);

}  // namespace cairn::cli
