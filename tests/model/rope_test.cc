// Frequencies against values worked out apart from this code (Python, double) from the formulas in
// the papers, for the settings of the oracle models.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace cairn {
namespace {

void expect_frequencies(const RopeSpec& spec, const std::vector<double>& wanted) {
  ASSERT_EQ(spec.inv_freq.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(spec.inv_freq[i] / wanted[i], 1.0, 1e-14) << "pair " << i;
  }
}

TEST(Rope, DefaultIsAGeometricRow) {
  RopeConfig config;
  config.theta = 10000.0;
  const RopeSpec spec = make_rope_spec(config, 8).value();
  expect_frequencies(spec, {1.0, 0.1, 0.01, 0.001});
  EXPECT_EQ(spec.attention_factor, 1.0);
}

TEST(Rope, LinearDividesEveryFrequency) {
  RopeConfig config;
  config.type = RopeConfig::Type::kLinear;
  config.factor = 2.5;
  expect_frequencies(make_rope_spec(config, 8).value(), {0.4, 0.04, 0.004, 0.0004});
}

TEST(Rope, Llama3KeepsShortWavesAndStretchesLongOnes) {
  RopeConfig config;
  config.type = RopeConfig::Type::kLlama3;
  config.factor = 8.0;
  config.low_freq_factor = 1.0;
  config.high_freq_factor = 4.0;
  config.original_max_position = 64;
  expect_frequencies(make_rope_spec(config, 16).value(),
                     {1.0,
                      0.24438459943539834,
                      0.013042256043820465,
                      0.003952847075210474,
                      0.00125,
                      0.0003952847075210474,
                      0.000125,
                      3.952847075210474e-05});
}

TEST(Rope, YarnBlendsAndRaisesTheScores) {
  RopeConfig config;
  config.type = RopeConfig::Type::kYarn;
  config.theta = 5000.0;
  config.factor = 4.0;
  config.original_max_position = 128;
  const RopeSpec spec = make_rope_spec(config, 24).value();
  expect_frequencies(spec,
                     {1.0,
                      0.41799532581425053,
                      0.16927898225853702,
                      0.06540639132514965,
                      0.02339214190570293,
                      0.007189563218652556,
                      0.0035355339059327377,
                      0.0017386313493384514,
                      0.0008549879733383488,
                      0.00042044820762685725,
                      0.0002067592771000068,
                      0.00010167577811357212});
  EXPECT_DOUBLE_EQ(spec.attention_factor, 1.138629436111989);
}

TEST(Rope, YarnAttentionFactorComesFromTheFileOrTheMscales) {
  RopeConfig config;
  config.type = RopeConfig::Type::kYarn;
  config.factor = 40.0;
  config.original_max_position = 4096;
  config.mscale = 0.707;
  config.mscale_all_dim = 0.5;
  const double ratio = (0.0707 * std::log(40.0) + 1) / (0.05 * std::log(40.0) + 1);
  EXPECT_DOUBLE_EQ(make_rope_spec(config, 64).value().attention_factor, ratio);
  config.attention_factor = 1.25;
  EXPECT_EQ(make_rope_spec(config, 64).value().attention_factor, 1.25);
}

TEST(Rope, YarnUntruncatedRampMovesTheBlend) {
  RopeConfig config;
  config.type = RopeConfig::Type::kYarn;
  config.theta = 5000.0;
  config.factor = 4.0;
  config.original_max_position = 128;
  const RopeSpec truncated = make_rope_spec(config, 24).value();
  config.truncate = false;
  const RopeSpec exact = make_rope_spec(config, 24).value();
  EXPECT_NE(truncated.inv_freq[2], exact.inv_freq[2]);
  EXPECT_EQ(truncated.inv_freq.back(), exact.inv_freq.back());  // past the ramp in both
}

TEST(Rope, PartialRotaryTurnsTheFirstDimensionsOnly) {
  RopeConfig config;
  config.partial_rotary_factor = 0.25;
  expect_frequencies(make_rope_spec(config, 32).value(), {1.0, 0.1, 0.01, 0.001});
}

TEST(Rope, OddPartIsRefusedWithTheNumbers) {
  RopeConfig config;
  config.partial_rotary_factor = 0.3;
  const Status status = make_rope_spec(config, 10).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("0.3"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("turns 3 dimensions"), std::string::npos) << status.message();
}

TEST(Rope, TableOfAPositionDoesNotDependOnWhereItBegins) {
  RopeConfig config;
  const RopeSpec spec = make_rope_spec(config, 16).value();
  std::vector<float> all(100 * 16);
  fill_cos_sin(spec, 0, all);
  for (const size_t pos : std::vector<size_t>{0, 1, 17, 99}) {
    std::vector<float> one(16);
    fill_cos_sin(spec, pos, one);
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + static_cast<ptrdiff_t>(pos * 16)));
  }
  EXPECT_EQ(all[0], 1.0F);
  EXPECT_EQ(all[1], 0.0F);
  EXPECT_EQ(all[17 * 16], static_cast<float>(std::cos(17.0)));
  EXPECT_EQ(all[17 * 16 + 1], static_cast<float>(std::sin(17.0)));
}

}  // namespace
}  // namespace cairn
