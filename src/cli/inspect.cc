// `cairn inspect`: what a model folder or weight file holds, in plain words or as JSON.
#include "formats/inspect.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/json.h"
#include "base/options.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_flags.h"
#include "cli/model_paths.h"
#include "model/model_spec.h"

namespace cairn::cli {
namespace {

struct InspectFlags {
  std::string path;
  bool json = false;
  bool tensors = false;
};

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

// Whether this version can run the model, and if not, why.
std::string run_verdict(const InspectReport& report) {
  if (!report.config)
    return report.config_error.empty() ? "no config.json beside the weights" : report.config_error;
  const auto spec = make_model_spec(*report.config);
  return spec.is_ok() ? "" : spec.status().message();
}

Json config_json(const HfConfig& config) {
  Json out;
  out["architecture"] = config.architecture;
  out["model_type"] = config.model_type;
  out["layers"] = config.num_hidden_layers;
  out["hidden_dim"] = config.hidden_size;
  out["ffn_dim"] = config.intermediate_size;
  out["n_heads"] = config.num_attention_heads;
  out["n_kv_heads"] = config.num_key_value_heads;
  out["head_dim"] = config.head_dim;
  out["vocab_size"] = config.vocab_size;
  out["max_positions"] = config.max_position_embeddings;
  out["rope"] = to_string(config.rope.type);
  out["rope_theta"] = config.rope.theta;
  if (config.sliding_window) out["sliding_window"] = *config.sliding_window;
  out["tied_head"] = config.tie_word_embeddings;
  return out;
}

void print_json(const InspectReport& report) {
  Json out;
  out["path"] = report.path;
  out["n_tensors"] = report.n_tensors;
  out["n_elements"] = report.n_elements;
  out["n_bytes"] = report.n_bytes;
  for (const auto& [name, dtype] : report.dtypes) {
    out["dtypes"][name] = {
        {"tensors", dtype.n_tensors}, {"elements", dtype.n_elements}, {"bytes", dtype.n_bytes}};
  }
  if (report.config) out["config"] = config_json(*report.config);
  const std::string verdict = run_verdict(report);
  out["runs"] = verdict.empty();
  if (!verdict.empty()) out["why_not"] = verdict;
  out["files"] = Json::array();
  for (const InspectFile& file : report.files) {
    Json tensors = Json::array();
    for (const TensorInfo& tensor : file.tensors) {
      tensors.push_back({{"name", tensor.name},
                         {"dtype", to_string(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"bytes", tensor.n_bytes}});
    }
    out["files"].push_back({{"path", file.path},
                            {"bytes", file.size_bytes},
                            {"metadata", file.metadata},
                            {"tensors", tensors}});
  }
  std::printf("%s\n", dump_json(out).c_str());
}

void print_config(const HfConfig& c) {
  std::printf("model      %s (%s)\n", c.architecture.c_str(), c.model_type.c_str());
  std::printf("shape      %lld layers, width %lld, FFN %lld\n",
              static_cast<long long>(c.num_hidden_layers),
              static_cast<long long>(c.hidden_size),
              static_cast<long long>(c.intermediate_size));
  std::printf("attention  %lld query heads and %lld key-value heads of %lld\n",
              static_cast<long long>(c.num_attention_heads),
              static_cast<long long>(c.num_key_value_heads),
              static_cast<long long>(c.head_dim));
  if (c.sliding_window) {
    size_t n_sliding = 0;
    for (const std::string& type : c.layer_types) n_sliding += type == kSlidingAttention ? 1 : 0;
    std::printf("window     %lld positions in %zu of %zu layers\n",
                static_cast<long long>(*c.sliding_window),
                n_sliding,
                c.layer_types.size());
  }
  std::printf("positions  %lld, rope %s, theta %g\n",
              static_cast<long long>(c.max_position_embeddings),
              std::string(to_string(c.rope.type)).c_str(),
              c.rope.theta);
  std::printf("vocabulary %lld, %s output matrix\n",
              static_cast<long long>(c.vocab_size),
              c.tie_word_embeddings ? "tied" : "separate");
}

void print_text(const InspectReport& report, bool with_tensors) {
  std::printf("path       %s\n", report.path.c_str());
  if (report.config) print_config(*report.config);
  std::printf("weights    %llu parameters in %llu tensors, %s in %zu file(s)\n",
              static_cast<unsigned long long>(report.n_elements),
              static_cast<unsigned long long>(report.n_tensors),
              format_size(report.n_bytes).c_str(),
              report.files.size());
  for (const auto& [name, dtype] : report.dtypes) {
    std::printf("           %-5s %llu tensors, %s\n",
                name.c_str(),
                static_cast<unsigned long long>(dtype.n_tensors),
                format_size(dtype.n_bytes).c_str());
  }
  const std::string verdict = run_verdict(report);
  std::printf("runs       %s\n", verdict.empty() ? "yes" : ("no: " + verdict).c_str());
  if (!with_tensors) return;
  for (const InspectFile& file : report.files) {
    std::printf("\n%s\n", file.path.c_str());
    for (const TensorInfo& tensor : file.tensors) {
      std::printf("  %-60s %-5s %s\n",
                  tensor.name.c_str(),
                  std::string(to_string(tensor.dtype)).c_str(),
                  shape_text(tensor.shape).c_str());
    }
  }
}

}  // namespace

int run_inspect(int argc, const char* const* argv) {
  InspectFlags flags;
  Arguments arguments("inspect", "Tell what a model folder or a safetensors file holds.");
  arguments.required_text("PATH", &flags.path, "Model folder, safetensors file, or \"demo\"");
  arguments.flag("--tensors", &flags.tensors, "List every tensor");
  arguments.flag("--json", &flags.json, "Print JSON (with every tensor)");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  std::string path = flags.path;
  if (path == "demo") {
    const auto demo = resolve_model(path);
    if (!demo.is_ok()) return report_failure(demo.status());
    path = *demo;
  }
  const auto report = inspect_checkpoint(path);
  if (!report.is_ok()) return report_failure(report.status());
  if (flags.json) {
    print_json(*report);
  } else {
    print_text(*report, flags.tensors);
  }
  return kExitOk;
}

}  // namespace cairn::cli
