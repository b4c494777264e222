#include "model/oracle_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace cairn::testing {
namespace {

constexpr double kF32Tolerance = 2e-3;

}  // namespace

Reference::Reference(const std::string& dir)
    : file_(SafetensorsFile::open(dir + "/ref.safetensors").value()) {
  const Json json = read_json(dir + "/ref.json");
  for (const Json& p : json.at("prompts")) {
    prompts_.push_back({.name = p.at("name").get<std::string>(),
                        .ids = ids_of(p.at("ids")),
                        .argmax = ids_of(p.at("argmax")),
                        .greedy = ids_of(p.at("greedy"))});
  }
  CAIRN_CHECK(!prompts_.empty());
}

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
    for (size_t k = 0; k < kOracleTop; ++k) {
      const auto id = static_cast<size_t>(top_ids[pos * kOracleTop + k]);
      worst = std::max(worst,
                       difference(row[id], static_cast<double>(top_logits[pos * kOracleTop + k])));
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

}  // namespace cairn::testing
