// Whole models against reference logits from Hugging Face transformers (tests/data/oracles; its
// README gives the tolerances: f32 2e-3 everywhere and equal greedy ids, bf16 a mean of 0.1).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "model/model_fixture.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

struct Prompt {
  std::string name;
  std::vector<TokenId> ids;
  std::vector<TokenId> argmax;
  std::vector<TokenId> greedy;
};

// Reference numbers of one folder.
class Reference {
 public:
  explicit Reference(const std::string& dir)
      : file_(SafetensorsFile::open(dir + "/ref.safetensors").value()) {
    const Json json = read_json(dir + "/ref.json");
    for (const Json& p : json.at("prompts")) {
      prompts_.push_back({.name = p.at("name").get<std::string>(),
                          .ids = ids_of(p.at("ids")),
                          .argmax = ids_of(p.at("argmax")),
                          .greedy = ids_of(p.at("greedy"))});
    }
    CAIRN_CHECK(prompts_.size() == 3 && prompts_.back().ids.size() == 150);
  }

  const std::vector<Prompt>& prompts() const { return prompts_; }

  template <typename T>
  std::vector<T> values(const std::string& name) const {
    const TensorView view = file_.tensor(name).value();
    CAIRN_CHECK(dtype_bytes(view.dtype) == sizeof(T));
    std::vector<T> out(view.bytes.size() / sizeof(T));
    std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
    return out;
  }

 private:
  SafetensorsFile file_;
  std::vector<Prompt> prompts_;
};

constexpr size_t kTop = 16;
constexpr double kF32Tolerance = 2e-3;

double difference(float a, double b) {
  return std::abs(static_cast<double>(a) - b);
}

void expect_f32(const Reference& reference,
                const Prompt& prompt,
                size_t vocab_size,
                const std::vector<float>& logits) {
  const auto top_ids = reference.values<int16_t>(prompt.name + ".top_ids");
  const auto top_logits = reference.values<float>(prompt.name + ".top_logits");
  const auto lse = reference.values<float>(prompt.name + ".logsumexp");
  const auto last = reference.values<float>(prompt.name + ".last_logits");
  ASSERT_EQ(logits.size(), prompt.ids.size() * vocab_size);
  double worst = 0;
  for (size_t pos = 0; pos < prompt.ids.size(); ++pos) {
    const std::span<const float> row(logits.data() + pos * vocab_size, vocab_size);
    for (size_t k = 0; k < kTop; ++k) {
      const auto id = static_cast<size_t>(top_ids[pos * kTop + k]);
      worst = std::max(worst, difference(row[id], static_cast<double>(top_logits[pos * kTop + k])));
    }
    worst = std::max(worst, difference(lse[pos], log_sum_exp(row)));
    EXPECT_EQ(argmax(row), prompt.argmax[pos]) << prompt.name << " position " << pos;
  }
  const std::span<const float> row(logits.data() + (prompt.ids.size() - 1) * vocab_size,
                                   vocab_size);
  ASSERT_EQ(last.size(), vocab_size);
  for (size_t id = 0; id < vocab_size; ++id) {
    worst = std::max(worst, difference(row[id], static_cast<double>(last[id])));
  }
  EXPECT_LE(worst, kF32Tolerance) << prompt.name;
}

void expect_greedy(const Reference& reference,
                   const Prompt& prompt,
                   Model& model,
                   const CacheGeometry& geometry) {
  std::vector<float> last;
  EXPECT_EQ(greedy_ids(model, geometry, prompt.ids, prompt.greedy.size(), &last), prompt.greedy)
      << prompt.name;
  if (prompt.name != "p2") return;
  const auto wanted = reference.values<float>("p2.final_logits");
  ASSERT_EQ(last.size(), wanted.size());
  double worst = 0;
  for (size_t id = 0; id < wanted.size(); ++id) {
    worst = std::max(worst, difference(last[id], static_cast<double>(wanted[id])));
  }
  EXPECT_LE(worst, kF32Tolerance) << "p2.final_logits";
}

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
        const float* top = top_logits.data() + pos * kTop;
        for (size_t k = 0; k < kTop; ++k, ++n) {
          sum += difference(row[static_cast<size_t>(top_ids[pos * kTop + k])],
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
