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
  bool metadata = false;
};

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

// Whether this version can run the model, and if not, why.
std::string run_verdict(const InspectReport& report) {
  if (!report.config)
    return report.config_error.empty() ? "a lone weights file: name its folder, with config.json"
                                       : report.config_error;
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
  if (!config.quantization.empty()) out["quantization"] = config.quantization;
  out["eos_token_ids"] = config.eos_token_ids;
  return out;
}

void print_file(const InspectFile& file) {
  std::string head =
      dump_json(Json{{"path", file.path}, {"bytes", file.size_bytes}, {"metadata", file.metadata}});
  head.pop_back();
  std::printf("%s,\"tensors\":[", head.c_str());
  const char* separator = "";
  for (const TensorInfo& tensor : file.tensors) {
    const Json line = {{"name", tensor.name},
                       {"dtype", to_string(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"bytes", tensor.n_bytes}};
    std::printf("%s%s", separator, dump_json(line).c_str());
    separator = ",";
  }
  std::printf("]}");
}

void print_json(const InspectReport& report) {
  Json out;
  out["path"] = report.path;
  out["format"] = report.format;
  out["n_parameters"] = report.n_parameters;
  out["n_tensors"] = report.n_tensors;
  out["n_elements"] = report.n_elements;
  out["n_bytes"] = report.n_bytes;
  for (const auto& [name, dtype] : report.dtypes) {
    out["dtypes"][name] = {
        {"tensors", dtype.n_tensors}, {"elements", dtype.n_elements}, {"bytes", dtype.n_bytes}};
  }
  if (report.config) out["config"] = config_json(*report.config);
  if (report.tokenizer) {
    out["tokenizer"] = {{"model", report.tokenizer->model},
                        {"pre", report.tokenizer->pre},
                        {"tokens", report.tokenizer->n_tokens},
                        {"merges", report.tokenizer->n_merges},
                        {"chat_template_bytes", report.tokenizer->template_bytes}};
  }
  const std::string verdict = run_verdict(report);
  out["runs"] = verdict.empty();
  if (!verdict.empty()) out["why_not"] = verdict;
  // A file may list half a million tensors: they are written one by one, not made one tree.
  std::string head = dump_json(out);
  head.pop_back();
  std::printf("%s,\"files\":[", head.c_str());
  for (size_t i = 0; i < report.files.size(); ++i) {
    if (i > 0) std::printf(",");
    print_file(report.files[i]);
  }
  std::printf("]}\n");
}

// One line, the name of the fact in front.
void print_fact(const char* name, const std::string& text) {
  std::printf("%-10s %s\n", name, text.c_str());
}

std::string windows_text(const HfConfig& c) {
  size_t n_sliding = 0;
  for (const std::string& type : c.layer_types) n_sliding += type == kSlidingAttention ? 1 : 0;
  return fmt::format(
      "{} positions in {} of {} layers", *c.sliding_window, n_sliding, c.layer_types.size());
}

std::string rope_text(const HfConfig& c) {
  std::string text = fmt::format(
      "{}, rope {}, theta {}", c.max_position_embeddings, to_string(c.rope.type), c.rope.theta);
  if (c.rope.factor != 1.0) text += fmt::format(", stretched {} times", c.rope.factor);
  if (!c.rope.frequency_divisors.empty()) text += ", frequencies divided by a table of the file";
  return text;
}

std::string affine_text(const AffineQuantization& affine) {
  std::string text = fmt::format(
      "MLX affine, {} bits in groups of {}", affine.usual.bits, affine.usual.group_size);
  for (const auto& [module, format] : affine.exceptions) {
    text += format ? fmt::format("\n           {}: {} bits in groups of {}",
                                 module,
                                 format->bits,
                                 format->group_size)
                   : fmt::format("\n           {}: not quantised", module);
  }
  return text;
}

void print_config(const HfConfig& c) {
  print_fact("model", fmt::format("{} ({})", c.architecture, c.model_type));
  print_fact(
      "shape",
      fmt::format(
          "{} layers, width {}, FFN {}", c.num_hidden_layers, c.hidden_size, c.intermediate_size));
  print_fact("attention",
             fmt::format("{} query heads and {} key-value heads of {}",
                         c.num_attention_heads,
                         c.num_key_value_heads,
                         c.head_dim));
  if (c.sliding_window) print_fact("window", windows_text(c));
  print_fact("positions", rope_text(c));
  print_fact(
      "vocabulary",
      fmt::format(
          "{}, {} output matrix", c.vocab_size, c.tie_word_embeddings ? "tied" : "separate"));
  if (c.affine) {
    print_fact("quantised", affine_text(*c.affine));
  } else if (!c.quantization.empty()) {
    print_fact("quantised", c.quantization);
  }
}

std::string tokenizer_text(const InspectTokenizer& t) {
  std::string kind = t.model;
  if (t.model == "gpt2") kind = fmt::format("byte-level BPE, text split as {:?}", t.pre);
  if (t.model == "llama") kind = "SentencePiece BPE with scores";
  std::string text = fmt::format("{}, {} tokens", kind, t.n_tokens);
  if (t.n_merges > 0) text += fmt::format(", {} merges", t.n_merges);
  return text + (t.template_bytes > 0 ? fmt::format(", chat template of {} bytes", t.template_bytes)
                                      : ", no chat template");
}

void print_weights(const InspectReport& report) {
  const double bits = report.n_parameters == 0 ? 0
                                               : 8 * static_cast<double>(report.n_bytes) /
                                                     static_cast<double>(report.n_parameters);
  print_fact("weights",
             fmt::format("{} parameters in {} tensors, {} in {} file(s), {:.2f} bits each",
                         report.n_parameters,
                         report.n_tensors,
                         format_size(report.n_bytes),
                         report.files.size(),
                         bits));
  for (const auto& [name, dtype] : report.dtypes) {
    print_fact(
        "", fmt::format("{:<6} {} tensors, {}", name, dtype.n_tensors, format_size(dtype.n_bytes)));
  }
}

void print_lists(const InspectReport& report, const InspectFlags& flags) {
  for (const InspectFile& file : report.files) {
    if (flags.metadata || flags.tensors) std::printf("\n%s\n", file.path.c_str());
    if (flags.metadata) {
      for (const auto& [key, value] : file.metadata) {
        std::printf("  %-44s %s\n", key.c_str(), value.c_str());
      }
    }
    if (!flags.tensors) continue;
    for (const TensorInfo& tensor : file.tensors) {
      std::printf("  %-60s %-6s %s\n",
                  tensor.name.c_str(),
                  std::string(to_string(tensor.dtype)).c_str(),
                  shape_text(tensor.shape).c_str());
    }
  }
}

void print_text(const InspectReport& report, const InspectFlags& flags) {
  print_fact("path", report.path);
  print_fact("format", report.format);
  if (report.config) print_config(*report.config);
  if (report.tokenizer) print_fact("tokenizer", tokenizer_text(*report.tokenizer));
  if (!report.tokenizer_error.empty()) print_fact("tokenizer", "none: " + report.tokenizer_error);
  if (!report.generation.eos_token_ids.empty()) {
    print_fact("stops at",
               fmt::format("tokens {}", fmt::join(report.generation.eos_token_ids, ", ")));
  }
  print_weights(report);
  const std::string verdict = run_verdict(report);
  print_fact("runs", verdict.empty() ? "yes" : "no: " + verdict);
  if (report.config) {
    for (const std::string& note : report.config->notes) print_fact("note", note);
  }
  print_lists(report, flags);
}

}  // namespace

int run_inspect(int argc, const char* const* argv) {
  InspectFlags flags;
  Arguments arguments("inspect", "Tell what a model folder, a GGUF or a safetensors file holds.");
  arguments.required_text(
      "PATH",
      &flags.path,
      "Model folder, weights file, ORG/REPO[:QUANT] that was pulled, or \"demo\"");
  arguments.flag("--tensors", &flags.tensors, "List every tensor");
  arguments.flag("--metadata", &flags.metadata, "List every metadata key of the files");
  arguments.flag("--json", &flags.json, "Print JSON (with every tensor and key)");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  const auto path = resolve_path(flags.path);
  if (!path.is_ok()) return report_failure(path.status());
  const auto report = inspect_checkpoint(*path);
  if (!report.is_ok()) return report_failure(report.status());
  if (flags.json) {
    print_json(*report);
  } else {
    print_text(*report, flags);
  }
  return kExitOk;
}

}  // namespace cairn::cli
