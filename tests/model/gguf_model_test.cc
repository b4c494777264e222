// GGUF files end to end against float64 log-probabilities of an independent program
// (tests/data/gguf/README.md). The files are made by bench/peers/make_gguf.mjs, which needs
// Node.js.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "model/model_fixture.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

constexpr size_t kTop = 4;

struct Golden {
  std::vector<TokenId> prompt;
  std::vector<std::vector<double>> top;  // [position][kTop * 2]: id, log-probability, ...
};

Golden read_golden(const std::string& name) {
  const Json json = read_json(std::string(CAIRN_SOURCE_DIR) + "/tests/data/gguf/goldens.json");
  return {ids_of(json.at("prompt")),
          json.at("files").at(name).get<std::vector<std::vector<double>>>()};
}

// Empty when Node.js is missing.
std::string make_gguf(const TempDir& dir, const std::string& shape, const std::string& type) {
  if (std::system("command -v node > /dev/null 2>&1") != 0) return "";
  const std::string path = dir.path() + "/model.gguf";
  const std::string command = "node '" + std::string(CAIRN_SOURCE_DIR) +
                              "/bench/peers/make_gguf.mjs' --shape " + shape + " --type " + type +
                              " --out '" + path + "' > /dev/null";
  CAIRN_CHECK(std::system(command.c_str()) == 0, command);
  return path;
}

struct Errors {
  double mean = 0;
  double max = 0;
  size_t n_other_winners = 0;
};

Errors compare(const Golden& golden, const std::vector<float>& logits, size_t vocab_size) {
  Errors errors;
  for (size_t pos = 0; pos < golden.prompt.size(); ++pos) {
    const std::span<const float> row(logits.data() + pos * vocab_size, vocab_size);
    const double lse = log_sum_exp(row);
    for (size_t k = 0; k < kTop; ++k) {
      const auto id = static_cast<size_t>(golden.top[pos][2 * k]);
      const double error =
          std::abs(static_cast<double>(row[id]) - lse - golden.top[pos][2 * k + 1]);
      errors.mean += error / static_cast<double>(kTop * golden.prompt.size());
      errors.max = std::max(errors.max, error);
    }
    errors.n_other_winners += argmax(row) == static_cast<size_t>(golden.top[pos][0]) ? 0 : 1;
  }
  return errors;
}

struct FileCase {
  const char* shape;
  const char* type;
};

class GgufModel : public ::testing::TestWithParam<FileCase> {};

TEST_P(GgufModel, F32LogProbabilitiesAreTheReferences) {
  const auto [shape, type] = GetParam();
  const TempDir dir;
  const std::string path = make_gguf(dir, shape, type);
  if (path.empty()) GTEST_SKIP() << "node is not installed";
  const Golden golden = read_golden(std::string(shape) + "-" + type);
  ASSERT_EQ(golden.prompt.size(), 48U);
  ASSERT_EQ(golden.top.size(), 48U);
  const auto backend = make_backend(supported_isas().back(), Precision::kF32);
  auto model = Model::load(path, *backend, {});
  ASSERT_TRUE(model.is_ok()) << model.status().message();
  const CacheGeometry geometry = (*model)->spec().cache_geometry(RowEncoding::kF32);
  const Errors errors =
      compare(golden, score_ids(**model, geometry, golden.prompt, 64), (*model)->spec().vocab_size);
  EXPECT_LE(errors.mean, 1e-4);
  EXPECT_LE(errors.max, 1e-3);
  EXPECT_EQ(errors.n_other_winners, 0U);
}

// What llama.cpp loses on the same files, by type: the mean of its errors over the twenty best
// tokens (f32 state, AVX-512 build of node-llama-cpp 3.21.1).
double peer_mean_error(std::string_view type) {
  if (type == "f32") return 0.004;
  if (type == "f16") return 0.005;
  if (type == "bf16") return 0.025;
  if (type == "q8_0" || type == "q4_0") return 0.08;
  return type == "q4_k" ? 0.11 : 0.10;
}

TEST_P(GgufModel, FastIsNoFartherFromTheReferenceThanThePeer) {
  const auto [shape, type] = GetParam();
  const TempDir dir;
  const std::string path = make_gguf(dir, shape, type);
  if (path.empty()) GTEST_SKIP() << "node is not installed";
  const Golden golden = read_golden(std::string(shape) + "-" + type);
  for (const Isa isa : supported_isas()) {
    const auto backend = make_backend(isa, Precision::kFast);
    auto model = Model::load(path, *backend, {});
    ASSERT_TRUE(model.is_ok()) << model.status().message();
    const CacheGeometry geometry = (*model)->spec().cache_geometry(RowEncoding::kF32);
    const Errors errors = compare(
        golden, score_ids(**model, geometry, golden.prompt, 64), (*model)->spec().vocab_size);
    RecordProperty(std::string(to_string(isa)), std::to_string(errors.mean));
    EXPECT_LE(errors.mean, peer_mean_error(type)) << to_string(isa);
    EXPECT_GT(errors.mean, 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Files,
                         GgufModel,
                         ::testing::Values(FileCase{"tiny-llama", "f32"},
                                           FileCase{"tiny-llama", "f16"},
                                           FileCase{"tiny-llama", "bf16"},
                                           FileCase{"tiny-llama", "q8_0"},
                                           FileCase{"tiny-llama", "q4_0"},
                                           FileCase{"tiny-llama", "q4_k"},
                                           FileCase{"tiny-llama", "q6_k"},
                                           FileCase{"tiny-qwen3", "f32"},
                                           FileCase{"tiny-qwen3", "f16"},
                                           FileCase{"tiny-qwen3", "bf16"},
                                           FileCase{"tiny-qwen3", "q8_0"},
                                           FileCase{"tiny-qwen3", "q4_0"},
                                           FileCase{"tiny-qwen3", "q4_k"},
                                           FileCase{"tiny-qwen3", "q6_k"}),
                         [](const auto& param) {
                           std::string name =
                               std::string(param.param.shape) + "_" + param.param.type;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace cairn
