// The bundled model against its golden conversations (models/cairn-demo; made by its recipe with
// another implementation in float32).
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/model_fixture.h"
#include "support/test_size.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

// Past the end token the model runs on in loops, where two ids may be equally good: from the first
// step with a margin below this on, an f32 sum in another order may choose otherwise.
constexpr double kFirmMargin = 1e-3;

TEST(Demo, GoldenConversationsTokenForToken) {
  const Json goldens = read_json(demo_dir() + "/demo_goldens.json");
  const auto backend = make_backend(supported_isas().back(), Precision::kF32, 2);
  const auto model = load_model(demo_dir(), *backend);
  const CacheGeometry geometry = model->spec().cache_geometry(RowEncoding::kF32);
  size_t n_left = scaled(goldens.at("conversations").size(), 3);
  ASSERT_EQ(goldens.at("conversations").size(), 20U);
  for (const Json& conversation : goldens.at("conversations")) {
    if (n_left-- == 0) break;
    const std::vector<TokenId> wanted = ids_of(conversation.at("ids"));
    const auto margin = conversation.at("margin").get<std::vector<double>>();
    const auto stop_index = conversation.at("stop_index").get<ptrdiff_t>();
    ASSERT_EQ(wanted.size(), 64U);
    size_t n_firm = 0;
    while (n_firm < wanted.size() && margin[n_firm] >= kFirmMargin) ++n_firm;
    ASSERT_GT(static_cast<ptrdiff_t>(n_firm), stop_index);
    std::vector<TokenId> ids =
        greedy_ids(*model, geometry, ids_of(conversation.at("prompt_ids")), n_firm);
    EXPECT_EQ(ids,
              std::vector<TokenId>(wanted.begin(), wanted.begin() + static_cast<ptrdiff_t>(n_firm)))
        << conversation.at("messages").dump();
  }
}

// How far the distribution of the next token moves in fast precision, in nats.
double mean_divergence(const std::vector<float>& p_logits,
                       const std::vector<float>& q_logits,
                       size_t vocab_size) {
  double sum = 0;
  const size_t n_rows = p_logits.size() / vocab_size;
  for (size_t row = 0; row < n_rows; ++row) {
    sum += divergence(std::span(p_logits).subspan(row * vocab_size, vocab_size),
                      std::span(q_logits).subspan(row * vocab_size, vocab_size));
  }
  return sum / static_cast<double>(n_rows);
}

TEST(Demo, FastDistributionsAreCloseToF32) {
  const Json conversation = read_json(demo_dir() + "/demo_goldens.json").at("conversations").at(3);
  const std::vector<TokenId> ids = ids_of(conversation.at("prompt_ids"));
  const auto reference_backend = make_backend(supported_isas().back(), Precision::kF32);
  const auto reference = load_model(demo_dir(), *reference_backend);
  const auto wanted =
      score_ids(*reference, reference->spec().cache_geometry(RowEncoding::kF32), ids, ids.size());
  for (const Isa isa : supported_isas()) {
    const auto backend = make_backend(isa, Precision::kFast);
    const auto model = load_model(demo_dir(), *backend);
    const auto logits =
        score_ids(*model, model->spec().cache_geometry(RowEncoding::kBf16), ids, ids.size());
    const double mean = mean_divergence(wanted, logits, model->spec().vocab_size);
    EXPECT_LE(mean, 1e-4) << to_string(isa);
    EXPECT_GT(mean, 0.0) << to_string(isa);
  }
}

}  // namespace
}  // namespace cairn
