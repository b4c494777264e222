// P2 inside the model: logits are the same bits however the rows were cut, batched and spread over
// threads, in both precisions, on every ISA class.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/model_fixture.h"
#include "support/test_size.h"
#include "support/weight_kinds.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

constexpr size_t kPromptTokens = 150;

RowEncoding encoding_of(Precision precision) {
  return precision == Precision::kF32 ? RowEncoding::kF32 : RowEncoding::kBf16;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

struct Subject {
  std::string dir;
  // kPromptTokens; where tests are small fewer of the demo, though still in two pages.
  std::vector<TokenId> ids;
};

Subject subject_of(const std::string& name) {
  if (name != "demo") {
    const std::string dir = oracle_dir(name);
    return {.dir = dir, .ids = ids_of(read_json(dir + "/ref.json").at("prompts").at(2).at("ids"))};
  }
  const Json conversations = read_json(demo_dir() + "/demo_goldens.json").at("conversations");
  std::vector<TokenId> ids = ids_of(conversations.at(3).at("prompt_ids"));
  ids.resize(scaled(kPromptTokens, 70));
  return {.dir = demo_dir(), .ids = ids};
}

// Logits of all of `ids` in chunks, while three others of other lengths and phases share each step:
// one decodes, one prefills faster and wants every row's logits, one wants none.
std::vector<float> score_among_others(Model& model,
                                      const CacheGeometry& geometry,
                                      std::span<const TokenId> ids,
                                      size_t chunk) {
  std::vector<TokenId> reversed(ids.rbegin(), ids.rend());
  Timeline timeline(model.backend(), geometry);
  Timeline decoding(model.backend(), geometry);
  Timeline faster(model.backend(), geometry);
  Timeline silent(model.backend(), geometry);
  const size_t vocab_size = model.spec().vocab_size;
  std::vector<float> all;
  for (size_t begin = 0; begin < ids.size(); begin += chunk) {
    const size_t n = std::min(chunk, ids.size() - begin);
    const auto at = [&](const Timeline& t, size_t wanted) {
      const size_t pos = t.n_rows() % reversed.size();
      return std::span(reversed).subspan(pos, std::min(wanted, reversed.size() - pos));
    };
    const std::vector<StepRows> rows = {decoding.next(at(decoding, 1), LogitRows::kLast),
                                        faster.next(at(faster, 2 * chunk + 1), LogitRows::kAll),
                                        timeline.next(ids.subspan(begin, n), LogitRows::kAll),
                                        silent.next(at(silent, 5), LogitRows::kNone)};
    const Model::StepLogits result = model.forward(rows, geometry).value();
    const size_t n_before = 1 + rows[1].tokens.size();
    EXPECT_EQ(result.n_rows, n_before + n);
    std::vector<float> host(n * vocab_size);
    model.backend().read_back(
        std::as_writable_bytes(std::span(host)),
        reinterpret_cast<const std::byte*>(result.logits + n_before * vocab_size));
    all.insert(all.end(), host.begin(), host.end());
    decoding.advance(1);
    faster.advance(rows[1].tokens.size());
    timeline.advance(n);
    silent.advance(rows[3].tokens.size());
  }
  return all;
}

// Chunks, threads and company.
void expect_same_every_way(const Subject& subject, Isa isa, Precision precision) {
  SCOPED_TRACE(std::string(to_string(isa)) + " " + std::string(to_string(precision)));
  const size_t n_tokens = subject.ids.size();
  ASSERT_GT(n_tokens, 64U);
  const auto alone = make_backend(isa, precision, 1);
  const auto model = load_model(subject.dir, *alone);
  const CacheGeometry geometry = model->spec().cache_geometry(encoding_of(precision));
  const auto wanted = score_ids(*model, geometry, subject.ids, n_tokens);
  for (const size_t chunk : std::vector<size_t>{1, 7, 64}) {
    EXPECT_TRUE(same_bits(score_ids(*model, geometry, subject.ids, chunk), wanted))
        << "chunk " << chunk;
  }
  EXPECT_TRUE(same_bits(score_among_others(*model, geometry, subject.ids, 7), wanted));
  const auto pair = make_backend(isa, precision, 2);
  const auto second = load_model(subject.dir, *pair);
  for (const size_t chunk : {size_t{7}, n_tokens}) {
    EXPECT_TRUE(same_bits(score_ids(*second, geometry, subject.ids, chunk), wanted))
        << "2 threads, chunk " << chunk;
  }
  EXPECT_TRUE(same_bits(score_among_others(*second, geometry, subject.ids, 64), wanted));
}

void expect_same_everywhere(const Subject& subject) {
  for (const Isa isa : supported_isas()) {
    for (const Precision precision : {Precision::kF32, Precision::kFast}) {
      expect_same_every_way(subject, isa, precision);
    }
  }
}

class Bits : public ::testing::TestWithParam<const char*> {};

TEST_P(Bits, ChunksThreadsAndBatchesDoNotShow) {
  expect_same_everywhere(subject_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Models,
                         Bits,
                         ::testing::Values("demo", "llama", "qwen3", "mistral"),
                         [](const auto& param) { return std::string(param.param); });

std::vector<TokenId> scattered_ids(size_t n, size_t vocab_size) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < n; ++i) {
    ids.push_back(static_cast<TokenId>((i * i * 7 + i * 31 + 5) % vocab_size));
  }
  return ids;
}

// Every way to keep weights, in a small model.
class WeightKindBits : public ::testing::TestWithParam<std::string> {
 protected:
  Subject subject() const {
    return {.dir = make_small_demo(demo_dir(), GetParam(), folder_.path()),
            .ids = scattered_ids(scaled(kPromptTokens, 70), kSmallDemoVocab)};
  }

 private:
  const TempDir folder_;
};

// The reference precision is slow: its other classes are for `make soak`.
TEST_P(WeightKindBits, ChunksThreadsAndBatchesDoNotShow) {
  const Subject small = subject();
  expect_same_every_way(small, supported_isas().back(), Precision::kF32);
  for (const Isa isa : supported_isas()) expect_same_every_way(small, isa, Precision::kFast);
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         WeightKindBits,
                         ::testing::ValuesIn(weight_kinds()),
                         [](const auto& param) { return param.param; });

class SoakWeightKindBits : public WeightKindBits {};

TEST_P(SoakWeightKindBits, ChunksThreadsAndBatchesDoNotShowAnywhere) {
  expect_same_everywhere(subject());
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         SoakWeightKindBits,
                         ::testing::ValuesIn(weight_kinds()),
                         [](const auto& param) { return param.param; });

// Folders that MLX's own quantiser would write.
class MlxBits : public ::testing::TestWithParam<const char*> {};

TEST_P(MlxBits, ChunksThreadsAndBatchesDoNotShow) {
  const std::string dir = mlx_dir(GetParam());
  if (dir.empty()) GTEST_SKIP() << GetParam() << ": CAIRN_ORACLES is unset";
  expect_same_everywhere({.dir = dir, .ids = scattered_ids(150, 320)});
}

INSTANTIATE_TEST_SUITE_P(Models, MlxBits, ::testing::ValuesIn(kMlxFolders), [](const auto& param) {
  return test_name(param.param);
});

// The last layer leaves out rows whose logits nobody wants; that must not move the others.
TEST(Bits, WantingFewerLogitsDoesNotShow) {
  const Subject subject = subject_of("qwen3");
  const auto backend = make_backend(supported_isas().back(), Precision::kFast);
  const auto model = load_model(subject.dir, *backend);
  const CacheGeometry geometry = model->spec().cache_geometry(RowEncoding::kBf16);
  const size_t vocab_size = model->spec().vocab_size;
  const auto wanted = score_ids(*model, geometry, subject.ids, kPromptTokens);
  Timeline timeline(*backend, geometry);
  const std::span<const TokenId> ids(subject.ids);
  EXPECT_TRUE(step(*model, geometry, timeline, ids.first(70), LogitRows::kNone).empty());
  const auto last = step(*model, geometry, timeline, ids.subspan(70, 60), LogitRows::kLast);
  EXPECT_TRUE(same_bits(last, std::span(wanted).subspan(129 * vocab_size, vocab_size)));
  const auto rest = step(*model, geometry, timeline, ids.subspan(130), LogitRows::kAll);
  EXPECT_TRUE(same_bits(rest, std::span(wanted).subspan(130 * vocab_size)));
}

// Long enough to cross several splits of 512 positions.
TEST(Bits, LongPromptCrossesSplits) {
  const size_t n_tokens = scaled(3000, 600);
  const std::vector<TokenId> part = subject_of("demo").ids;
  std::vector<TokenId> ids;
  while (ids.size() < n_tokens)
    ids.push_back(part[(ids.size() * 7 + ids.size() / 150) % part.size()]);
  const auto backend = make_backend(supported_isas().back(), Precision::kFast, 2);
  const auto model = load_model(demo_dir(), *backend);
  const CacheGeometry geometry = model->spec().cache_geometry(RowEncoding::kBf16);
  std::vector<float> wanted;
  for (const size_t chunk : std::vector<size_t>{512, 61}) {
    Timeline timeline(*backend, geometry);
    const size_t n_front = n_tokens - 40;
    for (size_t begin = 0; begin < n_front; begin += chunk) {
      const size_t n = std::min(chunk, n_front - begin);
      const auto none =
          step(*model, geometry, timeline, std::span(ids).subspan(begin, n), LogitRows::kNone);
      ASSERT_TRUE(none.empty());
    }
    std::vector<float> tail;
    const size_t n_tail = chunk == 512 ? 40 : 1;  // in one step, or token by token
    while (timeline.n_rows() < n_tokens) {
      const auto rows = std::span(ids).subspan(timeline.n_rows(), n_tail);
      const auto logits = step(*model, geometry, timeline, rows, LogitRows::kAll);
      tail.insert(tail.end(), logits.begin(), logits.end());
    }
    if (wanted.empty()) wanted = tail;
    EXPECT_TRUE(same_bits(tail, wanted)) << "chunk " << chunk;
  }
}

}  // namespace
}  // namespace cairn
