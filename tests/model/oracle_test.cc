// Whole models against reference logits from Hugging Face transformers (tests/data/oracles; its
// README gives the tolerances: f32 2e-3 everywhere and equal greedy ids, bf16 a mean of 0.1).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/oracle_reference.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

class Oracle : public ::testing::TestWithParam<const char*> {};

TEST_P(Oracle, F32LogitsAndGreedyIdsAreTheReferences) {
  const std::string dir = oracle_dir(GetParam());
  const Reference reference(dir);
  const TempDir v5;
  copy_model(dir, v5.path(), [&](Json& config) { config = read_json(dir + "/config.v5.json"); });
  for (const Isa isa : supported_isas()) {
    const auto backend = make_backend(isa, Precision::kF32);
    for (const std::string& folder : {dir, v5.path()}) {
      SCOPED_TRACE(std::string(to_string(isa)) + " " + folder);
      const auto model = load_model(folder, *backend);
      const CacheGeometry geometry = model->spec().cache_geometry(RowEncoding::kF32);
      for (const Prompt& prompt : reference.prompts()) {
        const auto logits = score_ids(*model, geometry, prompt.ids, 64);
        expect_f32(reference, prompt, model->spec().vocab_size, logits);
        expect_greedy(reference, prompt, *model, geometry);
      }
    }
  }
}

TEST_P(Oracle, FastStaysWithinTheBoundsOfABf16Run) {
  const std::string dir = oracle_dir(GetParam());
  const Reference reference(dir);
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(to_string(isa));
    const auto backend = make_backend(isa, Precision::kFast);
    const auto model = load_model(dir, *backend);
    const size_t vocab_size = model->spec().vocab_size;
    const CacheGeometry geometry = model->spec().cache_geometry(RowEncoding::kBf16);
    double sum = 0;
    size_t n = 0;
    for (const Prompt& prompt : reference.prompts()) {
      const auto top_ids = reference.values<int16_t>(prompt.name + ".top_ids");
      const auto top_logits = reference.values<float>(prompt.name + ".top_logits");
      const auto logits = score_ids(*model, geometry, prompt.ids, prompt.ids.size());
      for (size_t pos = 0; pos < prompt.ids.size(); ++pos) {
        const std::span<const float> row(logits.data() + pos * vocab_size, vocab_size);
        const float* top = top_logits.data() + pos * kOracleTop;
        for (size_t k = 0; k < kOracleTop; ++k, ++n) {
          sum += difference(row[static_cast<size_t>(top_ids[pos * kOracleTop + k])],
                            static_cast<double>(top[k]));
        }
        if (top[0] - top[1] <= 0.5F) continue;
        EXPECT_EQ(argmax(row), prompt.argmax[pos]) << prompt.name << " position " << pos;
      }
    }
    EXPECT_LE(sum / static_cast<double>(n), 0.1);
    EXPECT_GT(sum, 0.0);  // else this was not the fast path
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    Oracle,
    ::testing::Values("llama", "llama-linear", "llama-yarn", "mistral", "qwen2", "qwen3"),
    [](const auto& param) {
      std::string name = param.param;
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

}  // namespace
}  // namespace cairn
