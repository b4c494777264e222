// `cairn convert`: a model in another file format or element type.
#include "formats/convert.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "base/options.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_flags.h"
#include "cli/model_paths.h"

namespace cairn::cli {
namespace {

struct ConvertFlags {
  std::string source;
  std::string target;
  std::string type = "bf16";
  bool pure = false;
};

constexpr DType kTypes[] = {DType::kF32,
                            DType::kF16,
                            DType::kBf16,
                            DType::kQ8_0,
                            DType::kQ4_0,
                            DType::kQ4_1,
                            DType::kQ5_0,
                            DType::kQ5_1,
                            DType::kQ2K,
                            DType::kQ3K,
                            DType::kQ4K,
                            DType::kQ5K,
                            DType::kQ6K,
                            DType::kIq4Nl,
                            DType::kIq4Xs,
                            DType::kMxfp4};

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const DType dtype : kTypes) names.emplace_back(to_string(dtype));
  return names;
}

DType dtype_of(const std::string& name) {
  for (const DType dtype : kTypes) {
    if (to_string(dtype) == name) return dtype;
  }
  return DType::kBf16;  // the arguments accept no other name
}

// A line that is written over, on terminals only.
void show_progress(double share, std::string_view what) {
  std::fprintf(
      stderr, "\r\033[K%3.0f%% %.*s", 100 * share, static_cast<int>(what.size()), what.data());
  std::fflush(stderr);
}

void print_summary(const ConvertFlags& flags, const ConvertSummary& summary) {
  std::printf("wrote      %s\n", flags.target.c_str());
  for (const auto& [dtype, n] : summary.n_tensors) {
    std::printf(
        "           %-6s %llu tensors\n", dtype.c_str(), static_cast<unsigned long long>(n));
  }
  std::printf("weights    %s\n", format_size(summary.n_bytes).c_str());
  for (const std::string& note : summary.notes) std::printf("note       %s\n", note.c_str());
}

Result<ConvertSummary> convert(const ConvertFlags& flags) {
  CAIRN_ASSIGN_OR_RETURN(const std::string source, resolve_path(flags.source));
  CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint,
                         Checkpoint::open(source));
  ConvertOptions options;
  options.dtype = dtype_of(flags.type);
  options.pure = flags.pure;
  const bool on_terminal = ::isatty(STDERR_FILENO) == 1;
  if (on_terminal) options.progress = show_progress;
  const bool to_gguf = std::filesystem::path(flags.target).extension() == ".gguf";
  auto summary = to_gguf ? convert_to_gguf(*checkpoint, flags.target, options)
                         : convert_to_safetensors(*checkpoint, flags.target, options);
  if (on_terminal) std::fprintf(stderr, "\r\033[K");
  return summary;
}

}  // namespace

int run_convert(int argc, const char* const* argv) {
  ConvertFlags flags;
  Arguments arguments("convert",
                      "Write a model in another format: FILE.gguf, or a folder with safetensors.");
  arguments.required_text("SOURCE", &flags.source, kModelHelp);
  arguments.required_text("TARGET", &flags.target, "FILE.gguf, or a folder for safetensors");
  arguments.choice("--type",
                   &flags.type,
                   type_names(),
                   "Element type of the matrices; block types for GGUF only");
  arguments.flag("--pure", &flags.pure, "No matrix keeps more bits than --type says");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  const auto summary = convert(flags);
  if (!summary.is_ok()) return report_failure(summary.status());
  print_summary(flags, *summary);
  return kExitOk;
}

}  // namespace cairn::cli
