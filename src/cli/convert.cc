// `cairn convert`: a model in another file format or element type.
#include "formats/convert.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <iterator>

#include "base/options.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_flags.h"
#include "cli/model_paths.h"
#include "cli/progress_line.h"

namespace cairn::cli {
namespace {

struct ConvertFlags {
  std::string source;
  std::string target;
  std::string type = "bf16";
  bool pure = false;
};

// What convert writes.
std::vector<DType> known_types() {
  std::vector<DType> types = {DType::kF32, DType::kF16, DType::kBf16};
  types.insert(types.end(), std::begin(kBlockTypes), std::end(kBlockTypes));
  return types;
}

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const DType dtype : known_types()) names.emplace_back(to_string(dtype));
  return names;
}

DType dtype_of(const std::string& name) {
  for (const DType dtype : known_types()) {
    if (to_string(dtype) == name) return dtype;
  }
  return DType::kBf16;  // the arguments accept no other name
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
  ProgressLine line;
  options.progress = line.reporter();
  const bool to_gguf = std::filesystem::path(flags.target).extension() == ".gguf";
  return to_gguf ? convert_to_gguf(*checkpoint, flags.target, options)
                 : convert_to_safetensors(*checkpoint, flags.target, options);
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
