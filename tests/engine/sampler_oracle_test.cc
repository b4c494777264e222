// The kept ids and probabilities of 20 cases made by transformers' logits processors
// (tests/data/oracles/_sampling; cases closer than 1e-5 to an edge were left out there).

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/json.h"
#include "engine/sampler.h"
#include "formats/safetensors.h"

namespace cairn {
namespace {

const std::string kFolder = std::string(CAIRN_SOURCE_DIR) + "/tests/data/oracles/_sampling";

Json load_cases() {
  const auto text = read_text_file(posix_file_system(), kFolder + "/sampling.json", 1U << 24);
  EXPECT_TRUE(text.is_ok()) << text.status().to_string();
  auto json = parse_json(*text, "sampling.json");
  EXPECT_TRUE(json.is_ok()) << json.status().to_string();
  return (*json)["cases"];
}

std::vector<float> load_logits() {
  const auto file = SafetensorsFile::open(kFolder + "/logits.safetensors");
  EXPECT_TRUE(file.is_ok()) << file.status().to_string();
  const auto view = file->tensor("logits");
  EXPECT_TRUE(view.is_ok()) << view.status().to_string();
  std::vector<float> logits(view->bytes.size() / sizeof(float));
  std::memcpy(logits.data(), view->bytes.data(), view->bytes.size());
  return logits;
}

SamplingParams params_of(const Json& json) {
  SamplingParams params;
  params.temperature = json["temperature"].get<float>();
  params.top_k = json["top_k"].get<uint32_t>();
  params.top_p = json["top_p"].get<float>();
  params.min_p = json["min_p"].get<float>();
  params.repetition_penalty = json["repetition_penalty"].get<float>();
  params.presence_penalty = json["presence_penalty"].get<float>();
  params.frequency_penalty = json["frequency_penalty"].get<float>();
  params.seed = 1;
  return params;
}

TEST(SamplerOracle, KeepsTheSameIdsWithTheSameProbabilities) {
  constexpr size_t kVocab = 512;
  const Json cases = load_cases();
  const std::vector<float> logits = load_logits();
  ASSERT_EQ(cases.size(), 20U);
  ASSERT_EQ(logits.size(), 20 * kVocab);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    const SamplingParams params = params_of(cases[i]);
    ASSERT_TRUE(validate_sampling(params, kVocab).is_ok());
    Sampler sampler(params, kVocab, 0);
    sampler.add_prompt(cases[i]["prompt_ids"].get<std::vector<TokenId>>());
    for (const TokenId id : cases[i]["output_ids"].get<std::vector<TokenId>>()) {
      sampler.add_output(id);
    }
    const CandidateSet kept =
        sampler.candidates(std::span<const float>(logits).subspan(i * kVocab, kVocab));
    ASSERT_EQ(kept.ids, cases[i]["kept_ids"].get<std::vector<TokenId>>());
    const auto wanted = cases[i]["kept_probs"].get<std::vector<double>>();
    double sum = 0;
    for (size_t rank = 0; rank < wanted.size(); ++rank) {
      // Penalties and temperature were float32 there: 1e-6 relative, amplified by 1/temperature.
      EXPECT_NEAR(static_cast<double>(kept.probs[rank]), wanted[rank], 1e-8 + 1e-5 * wanted[rank])
          << rank;
      sum += static_cast<double>(kept.probs[rank]);
    }
    EXPECT_NEAR(sum, 1.0, 1e-5);
  }
}

// sample() finds its id without sorting the whole vocabulary; it must be the one that a walk over
// the sorted candidates finds.
TEST(SamplerOracle, DrawsFollowTheCandidates) {
  constexpr size_t kVocab = 512;
  const Json cases = load_cases();
  const std::vector<float> logits = load_logits();
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::span<const float> row(logits.data() + i * kVocab, kVocab);
    SamplingParams params = params_of(cases[i]);
    for (uint64_t seed = 0; seed < 200; ++seed) {
      params.seed = seed;
      Sampler sampler(params, kVocab, 3);
      sampler.add_prompt(cases[i]["prompt_ids"].get<std::vector<TokenId>>());
      const CandidateSet kept = sampler.candidates(row);
      const TokenId drawn = sampler.sample(row, {});
      const double u = counter_uniform(seed, 3, 0, kDrawStream);
      double before = 0;
      size_t rank = 0;
      while (kept.ids[rank] != drawn) {
        before += static_cast<double>(kept.probs[rank]);
        ASSERT_LT(++rank, kept.ids.size()) << "drew an id that was cut";
      }
      // float32 probabilities: their sum is only near the one that decided.
      EXPECT_GE(u, before - 1e-5);
      EXPECT_LE(u, before + static_cast<double>(kept.probs[rank]) + 1e-5);
    }
  }
}

}  // namespace
}  // namespace cairn
