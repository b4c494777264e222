// What each type of weights costs: the demo converted to it against the demo itself, over its
// golden conversations. docs/quantisation.md has the table, which the Soak test prints.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/convert.h"
#include "model/model_fixture.h"
#include "support/test_size.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

struct Conversation {
  std::vector<TokenId> ids;  // prompt, then the golden reply with its end token
  size_t n_prompt = 0;
};

// Those with prompts of at most so many tokens.
std::vector<Conversation> golden_conversations(size_t prompt_tokens_max) {
  std::vector<Conversation> conversations;
  const Json goldens = read_json(demo_dir() + "/demo_goldens.json");
  for (const Json& golden : goldens.at("conversations")) {
    Conversation conversation{.ids = ids_of(golden.at("prompt_ids")), .n_prompt = 0};
    conversation.n_prompt = conversation.ids.size();
    if (conversation.n_prompt > prompt_tokens_max) continue;
    std::vector<TokenId> reply = ids_of(golden.at("ids"));
    const auto stop_index = golden.at("stop_index").get<ptrdiff_t>();
    if (stop_index >= 0) reply.resize(static_cast<size_t>(stop_index) + 1);
    conversation.ids.insert(conversation.ids.end(), reply.begin(), reply.end());
    conversations.push_back(std::move(conversation));
  }
  return conversations;
}

// Logits of every position, one list a conversation, in the reference precision.
std::vector<std::vector<float>> conversation_logits(
    const std::string& path, const std::vector<Conversation>& conversations) {
  const auto backend = make_backend(supported_isas().back(), Precision::kF32);
  const auto model = load_model(path, *backend);
  const CacheGeometry geometry = model->spec().cache_geometry(RowEncoding::kF32);
  std::vector<std::vector<float>> logits;
  for (const Conversation& conversation : conversations) {
    logits.push_back(score_ids(*model, geometry, conversation.ids, 512));
  }
  return logits;
}

// By how much `id` leads all others; negative when it does not.
double lead(std::span<const float> logits, size_t id) {
  float best = -INFINITY;
  for (size_t other = 0; other < logits.size(); ++other) {
    if (other != id) best = std::max(best, logits[other]);
  }
  return static_cast<double>(logits[id]) - static_cast<double>(best);
}

// A token of a golden reply: what it leads by in the demo and in the converted model. A greedy
// reply is the golden one up to the first token that leads no longer.
struct GoldenToken {
  double lead_before = 0;
  double lead_after = 0;

  bool is_lost() const { return lead_after <= 0; }
};

struct Quality {
  double kl_mean = 0;  // over all positions
  double kl_max = 0;
  double lead_rms = 0;  // how far leads move
  std::vector<GoldenToken> golden;
  size_t n_replies_kept = 0;
};

Quality measure(const std::vector<Conversation>& conversations,
                const std::vector<std::vector<float>>& wanted,
                const std::vector<std::vector<float>>& found) {
  Quality quality;
  size_t n_positions = 0;
  double squares = 0;
  for (size_t c = 0; c < conversations.size(); ++c) {
    const Conversation& conversation = conversations[c];
    const size_t vocab_size = wanted[c].size() / conversation.ids.size();
    bool is_kept = true;
    for (size_t pos = 0; pos < conversation.ids.size(); ++pos, ++n_positions) {
      const auto p = std::span(wanted[c]).subspan(pos * vocab_size, vocab_size);
      const auto q = std::span(found[c]).subspan(pos * vocab_size, vocab_size);
      const double kl = divergence(p, q);
      quality.kl_mean += kl;
      quality.kl_max = std::max(quality.kl_max, kl);
      if (pos + 1 < conversation.n_prompt || pos + 1 == conversation.ids.size()) continue;
      const size_t next = conversation.ids[pos + 1];
      const GoldenToken token{lead(p, next), lead(q, next)};
      squares += (token.lead_after - token.lead_before) * (token.lead_after - token.lead_before);
      is_kept = is_kept && !token.is_lost();
      quality.golden.push_back(token);
    }
    quality.n_replies_kept += is_kept ? 1 : 0;
  }
  quality.kl_mean /= static_cast<double>(n_positions);
  quality.lead_rms = std::sqrt(squares / static_cast<double>(quality.golden.size()));
  return quality;
}

// What was measured over all conversations (f32 and bf16 hold the demo's weights exactly).
struct TypeCase {
  DType dtype;
  double kl_mean;
  double lead_rms;

  double kl_bound() const { return 2 * kl_mean; }

  double lead_rms_bound() const { return 1.5 * lead_rms; }

  // A golden token that leads by more has to stay the best. Of the tokens that low-bit types lose
  // the strongest led by 2.4 times lead_rms.
  double firm_lead() const { return 3 * lead_rms; }
};

constexpr TypeCase kTypes[] = {{DType::kF32, 0, 0},
                               {DType::kBf16, 0, 0},
                               {DType::kF16, 9.1e-13, 1.6e-5},
                               {DType::kQ8_0, 7.3e-5, 0.14},
                               {DType::kQ6K, 8.7e-4, 0.50},
                               {DType::kQ5_1, 2.6e-3, 0.90},
                               {DType::kQ5K, 1.6e-3, 0.81},
                               {DType::kQ5_0, 3.3e-3, 0.96},
                               {DType::kQ4_1, 1.1e-2, 1.91},
                               {DType::kQ4K, 6.7e-3, 1.56},
                               {DType::kIq4Nl, 1.1e-2, 1.97},
                               {DType::kIq4Xs, 1.1e-2, 1.94},
                               {DType::kQ4_0, 1.6e-2, 2.15},
                               {DType::kMxfp4, 3.7e-2, 2.92},
                               {DType::kQ3K, 3.2e-2, 2.6},
                               {DType::kQ2K, 0.46, 8.4}};

void expect_within_bounds(const TypeCase& type, const Quality& quality) {
  EXPECT_LE(quality.kl_mean, type.kl_bound());
  EXPECT_LE(quality.lead_rms, type.lead_rms_bound());
  EXPECT_EQ(quality.kl_mean == 0.0, type.kl_mean == 0.0);
  for (const GoldenToken& token : quality.golden) {
    EXPECT_GT(token.lead_before, 0.0);
    EXPECT_FALSE(token.is_lost() && token.lead_before > type.firm_lead()) << token.lead_before;
  }
}

// The demo as `cairn convert` writes it, with the types that files of this name mix.
struct Converted {
  std::string path;
  uint64_t n_bytes = 0;
};

Converted convert_demo(DType dtype, WeightFormat format, const TempDir& folder) {
  const auto demo = Checkpoint::open(demo_dir()).value();
  ConvertOptions options;
  options.dtype = dtype;
  if (format == WeightFormat::kGguf) {
    const std::string path = folder.path() + "/demo.gguf";
    return {path, convert_to_gguf(*demo, path, options).value().n_bytes};
  }
  const std::string path = folder.path() + "/demo";
  return {path, convert_to_safetensors(*demo, path, options).value().n_bytes};
}

struct MeasuredType {
  Quality quality;
  uint64_t n_bytes = 0;  // of the weights
};

// The demo as a GGUF file of this type against itself.
MeasuredType measure_type(const TypeCase& type,
                          const std::vector<Conversation>& conversations,
                          const std::vector<std::vector<float>>& wanted) {
  const TempDir folder;
  const Converted gguf = convert_demo(type.dtype, WeightFormat::kGguf, folder);
  const auto found = conversation_logits(gguf.path, conversations);
  return {measure(conversations, wanted, found), gguf.n_bytes};
}

TEST(Quantisation, GoldenRepliesAndDistributionsStayWithinTheBoundsOfTheType) {
  // The short prompts: an eighth of the positions, two fifths of the replies.
  const auto conversations = golden_conversations(120);
  ASSERT_EQ(conversations.size(), 8U);
  const auto wanted = conversation_logits(demo_dir(), conversations);
  for (const TypeCase& type : kTypes) {
    SCOPED_TRACE(to_string(type.dtype));
    const Quality quality = measure_type(type, conversations, wanted).quality;
    expect_within_bounds(type, quality);
    RecordProperty(std::string(to_string(type.dtype)),
                   fmt::format("mean KL {:.3g}, lead moves by {:.3g}, {} replies kept",
                               quality.kl_mean,
                               quality.lead_rms,
                               quality.n_replies_kept));
  }
}

TEST(Quantisation, SafetensorsOfATypeAreTheNumbersOfItsGguf) {
  const auto conversations = golden_conversations(20);
  ASSERT_EQ(conversations.size(), 1U);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    const TempDir folder;
    const auto gguf = convert_demo(dtype, WeightFormat::kGguf, folder);
    const auto safetensors = convert_demo(dtype, WeightFormat::kSafetensors, folder);
    EXPECT_EQ(conversation_logits(gguf.path, conversations),
              conversation_logits(safetensors.path, conversations))
        << to_string(dtype);
  }
}

std::string table_row(const TypeCase& type, uint64_t n_bytes, size_t n_replies, const Quality& q) {
  size_t n_firm = 0;
  size_t n_lost = 0;
  double strongest_lost = 0;
  for (const GoldenToken& token : q.golden) {
    n_firm += token.lead_before > type.firm_lead() ? 1 : 0;
    if (!token.is_lost()) continue;
    ++n_lost;
    strongest_lost = std::max(strongest_lost, token.lead_before);
  }
  return fmt::format(
      "| {} | {:.2f} | {:.2g} | {:.2g} | {:.2g} | {} of {} | {} ({:.2g}) | {} of {} |",
      to_string(type.dtype),
      static_cast<double>(n_bytes) / (1 << 20),
      q.kl_mean,
      q.kl_max,
      q.lead_rms,
      n_firm,
      q.golden.size(),
      n_lost,
      strongest_lost,
      q.n_replies_kept,
      n_replies);
}

// All conversations, and the table of docs/quantisation.md.
TEST(SoakQuantisation, PrintsTheTable) {
  const auto conversations = golden_conversations(SIZE_MAX);
  ASSERT_EQ(conversations.size(), 20U);
  const auto wanted = conversation_logits(demo_dir(), conversations);
  for (const TypeCase& type : kTypes) {
    SCOPED_TRACE(to_string(type.dtype));
    const auto [quality, n_bytes] = measure_type(type, conversations, wanted);
    expect_within_bounds(type, quality);
    std::puts(table_row(type, n_bytes, conversations.size(), quality).c_str());
  }
}

}  // namespace
}  // namespace cairn
