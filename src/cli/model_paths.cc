#include "cli/model_paths.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "base/options.h"
#include "hub/model_folders.h"

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDemoName = "demo";
constexpr const char* kDemoFolder = "cairn-demo";

bool is_model_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.json", ignored);
}

// Installed: <prefix>/bin/cairn beside <prefix>/share/cairn/models. Build tree:
// <tree>/build/<preset>/bin.
Result<std::string> find_demo() {
  std::vector<fs::path> tried;
  fs::path folder = executable_dir();
  tried.push_back(folder.parent_path() / "share" / "cairn" / "models" / kDemoFolder);
  for (int level = 0; level < 4 && folder.has_relative_path(); ++level) {
    tried.push_back(folder / "models" / kDemoFolder);
    folder = folder.parent_path();
  }
  for (const fs::path& candidate : tried) {
    if (is_model_folder(candidate)) return candidate.string();
  }
  std::string listed;
  for (const fs::path& candidate : tried) listed += "\n  " + candidate.string();
  return Status::not_found("the bundled demo model is missing; looked in:" + listed);
}

fs::file_status status_of(const fs::path& path) {
  std::error_code ignored;
  return fs::status(path, ignored);
}

Result<std::string> find_by_name(const std::string& text) {
  if (text == kDemoName) return find_demo();
  const auto name = parse_model_name(text);
  if (name.is_ok()) return find_model(*name, model_places_from_environment());
  return Status::not_found(
      fmt::format("model \"{}\": no such file or folder; give the path of a Hugging Face folder or "
                  "a GGUF file, "
                  "the name ORG/REPO[:QUANT] of a model that `cairn pull` fetched, or \"demo\"",
                  text));
}

}  // namespace

Result<std::string> resolve_model(const std::string& text) {
  const fs::path path(text);
  const fs::file_status status = status_of(path);
  if (!fs::exists(status)) return find_by_name(text);
  if (fs::is_directory(status)) return path.string();
  if (path.extension() == ".gguf") return path.string();
  return Status::unsupported(fmt::format(
      "model \"{}\" is a file; give a GGUF file, or the Hugging Face folder that holds it "
      "(config.json beside the weights)",
      text));
}

Result<std::string> resolve_path(const std::string& text) {
  return fs::exists(status_of(text)) ? Result<std::string>(text) : resolve_model(text);
}

std::string default_model_name(const std::string& text) {
  if (text == kDemoName) return text;
  if (!fs::exists(status_of(text)) && parse_model_name(text).is_ok()) return text;
  fs::path path = fs::path(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::string name = path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
  return name.empty() || name == "." ? "model" : name;
}

}  // namespace cairn::cli
