#include "model/model_fixture.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/check.h"
#include "base/json.h"

namespace cairn::testing {

std::string oracle_dir(const std::string& name) {
  return std::string(CAIRN_SOURCE_DIR) + "/tests/data/oracles/" + name;
}

std::string demo_dir() {
  return std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo";
}

std::string mlx_dir(const std::string& folder) {
  const char* root = std::getenv("CAIRN_ORACLES");
  return root == nullptr ? "" : std::string(root) + "/models/" + folder;
}

std::string test_name(std::string folder) {
  for (char& c : folder) c = c == '-' || c == '/' ? '_' : c;
  return folder;
}

TempDir::TempDir() : path_(::testing::TempDir() + "cairn-model-XXXXXX") {
  CAIRN_CHECK(mkdtemp(path_.data()) != nullptr);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Json read_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return parse_json(text, path).value();
}

void write_json(const std::string& path, const Json& value) {
  std::ofstream(path, std::ios::binary) << dump_json(value);
}

std::vector<TokenId> ids_of(const Json& list) {
  return list.get<std::vector<TokenId>>();
}

void copy_model(const std::string& from,
                const std::string& to,
                const ConfigEdit& edit_config,
                const TensorEdit& edit_tensors) {
  Json config = read_json(from + "/config.json");
  if (edit_config) edit_config(config);
  write_json(to + "/config.json", config);
  if (!edit_tensors) {
    std::filesystem::copy(from + "/model.safetensors", to + "/model.safetensors");
    return;
  }
  const SafetensorsFile source = SafetensorsFile::open(from + "/model.safetensors").value();
  std::vector<RawTensor> tensors;
  for (size_t i = 0; i < source.tensors().size(); ++i) {
    const auto bytes = source.tensor_at(i).bytes;
    tensors.push_back({source.tensors()[i], {bytes.begin(), bytes.end()}});
  }
  edit_tensors(tensors);
  std::vector<TensorInfo> infos;
  for (const RawTensor& tensor : tensors) infos.push_back(tensor.info);
  SafetensorsWriter writer = SafetensorsWriter::create(to + "/model.safetensors", infos).value();
  for (const RawTensor& tensor : tensors) CAIRN_CHECK(writer.write(tensor.bytes).is_ok());
  CAIRN_CHECK(writer.finish().is_ok());
}

std::unique_ptr<Backend> make_backend(Isa isa, Precision precision, unsigned n_threads) {
  return make_cpu_backend({.isa = isa, .precision = precision, .n_threads = n_threads});
}

std::unique_ptr<Model> load_model(const std::string& dir, Backend& backend) {
  return Model::load(dir, backend, {}).value();
}

Timeline::Timeline(Backend& backend, const CacheGeometry& geometry)
    : backend_(backend), geometry_(geometry), tables_(geometry.groups.size()) {}

StepRows Timeline::next(std::span<const TokenId> tokens, LogitRows logits) {
  const size_t n_pages =
      (n_rows_ + tokens.size() + geometry_.page_tokens - 1) / geometry_.page_tokens;
  StepRows rows{.tokens = tokens, .pos_begin = n_rows_, .pages = {}, .logits = logits};
  for (size_t g = 0; g < tables_.size(); ++g) {
    while (tables_[g].size() < n_pages) {
      memory_.push_back(backend_.allocate(geometry_.groups[g].layout.page_bytes()).value());
      tables_[g].push_back(memory_.back().data());
    }
    rows.pages.push_back(tables_[g].data());
  }
  return rows;
}

std::vector<float> step(Model& model,
                        const CacheGeometry& geometry,
                        Timeline& timeline,
                        std::span<const TokenId> tokens,
                        LogitRows logits) {
  const StepRows rows = timeline.next(tokens, logits);
  const Model::StepLogits result = model.forward(std::span(&rows, 1), geometry).value();
  std::vector<float> host(result.n_rows * model.spec().vocab_size);
  if (!host.empty()) {
    model.backend().read_back(std::as_writable_bytes(std::span(host)),
                              reinterpret_cast<const std::byte*>(result.logits));
  }
  timeline.advance(tokens.size());
  return host;
}

std::vector<float> score_ids(Model& model,
                             const CacheGeometry& geometry,
                             std::span<const TokenId> ids,
                             size_t chunk) {
  Timeline timeline(model.backend(), geometry);
  std::vector<float> all;
  for (size_t begin = 0; begin < ids.size(); begin += chunk) {
    const auto part = ids.subspan(begin, std::min(chunk, ids.size() - begin));
    const std::vector<float> logits = step(model, geometry, timeline, part, LogitRows::kAll);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

std::vector<TokenId> greedy_ids(Model& model,
                                const CacheGeometry& geometry,
                                std::span<const TokenId> prompt,
                                size_t n,
                                std::vector<float>* last) {
  Timeline timeline(model.backend(), geometry);
  std::vector<float> logits = step(model, geometry, timeline, prompt, LogitRows::kLast);
  std::vector<TokenId> ids = {static_cast<TokenId>(argmax(logits))};
  while (ids.size() < n) {
    const TokenId id = ids.back();
    logits = step(model, geometry, timeline, std::span(&id, 1), LogitRows::kLast);
    ids.push_back(static_cast<TokenId>(argmax(logits)));
  }
  if (last != nullptr) *last = std::move(logits);
  return ids;
}

size_t argmax(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double log_sum_exp(std::span<const float> logits) {
  const double max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
  return max + std::log(sum);
}

double divergence(std::span<const float> p_logits, std::span<const float> q_logits) {
  const double p_norm = log_sum_exp(p_logits);
  const double q_norm = log_sum_exp(q_logits);
  double sum = 0;
  for (size_t id = 0; id < p_logits.size(); ++id) {
    const double log_p = static_cast<double>(p_logits[id]) - p_norm;
    sum += std::exp(log_p) * (log_p - (static_cast<double>(q_logits[id]) - q_norm));
  }
  return sum;
}

}  // namespace cairn::testing
