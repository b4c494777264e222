// Scores through the real cache: every way a prefix can come about gives the same bits (P2).
#include "engine/score.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "base/mailbox.h"
#include "engine/engine_fixture.h"
#include "store/store_files.h"
#include "support/weight_kinds.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

constexpr size_t kPromptTokens = 150;

struct LifeOptions {
  std::string model;       // path
  std::string store = "";  // none: no disk tier
  unsigned n_threads = 1;
  Precision precision = Precision::kFast;
  Isa isa = supported_isas().back();
};

// One life of a program: a backend, a model and a cache, with a disk tier if a store is named.
class Life {
 public:
  explicit Life(const LifeOptions& life)
      : backend_(make_cpu_backend(
            {.isa = life.isa, .precision = life.precision, .n_threads = life.n_threads})),
        model_(Model::load(life.model, *backend_, {}).value()),
        geometry_(model_->spec().cache_geometry(
            life.precision == Precision::kF32 ? RowEncoding::kF32 : RowEncoding::kBf16)),
        cache_(std::make_unique<TieredCache>(*backend_, clock_, cache_options())) {
    root_ = cache_->add_root({.model_identity = model_->identity(),
                              .geometry = geometry_,
                              .numerics_version = backend_->numerics_version(),
                              .key_namespace = "",
                              .model_label = life.model});
    if (life.store.empty()) return;
    StoreOptions options;
    options.directory = life.store;
    OpenReport report;
    auto files = StoreFiles::open(posix_file_system(), clock_, options, &report).value();
    cache_->attach_disk(std::move(files), std::move(report), [this](StoreReply reply) {
      replies_.push_reply(std::move(reply));
    });
  }

  // Rows of every sequence, [n_rows, vocab_size] each, with the reports.
  struct Scores {
    std::vector<ScoredSequence> sequences;
    std::vector<std::vector<float>> rows;
  };

  Result<Scores> try_score(const std::vector<std::vector<TokenId>>& sequences,
                           ScoreOptions options) {
    options.wait_for_replies = [this] { take_reply(); };
    Scores scores;
    scores.rows.resize(sequences.size());
    std::vector<size_t> next(sequences.size(), SIZE_MAX);
    const LogitSink sink = [&](size_t sequence, size_t position, std::span<const float> rows) {
      const size_t n = rows.size() / model_->spec().vocab_size;
      if (next[sequence] != SIZE_MAX) {
        EXPECT_EQ(position, next[sequence]);
      }
      next[sequence] = position + n;
      auto& all = scores.rows[sequence];
      all.insert(all.end(), rows.begin(), rows.end());
      return Status::ok();
    };
    CAIRN_ASSIGN_OR_RETURN(scores.sequences,
                           score(*model_, *cache_, root_, geometry_, sequences, options, sink));
    for (size_t i = 0; i < sequences.size(); ++i) EXPECT_EQ(next[i], sequences[i].size());
    return scores;
  }

  std::vector<float> rows_of(const std::vector<TokenId>& ids, const ScoreOptions& options) {
    return try_score({ids}, options).value().rows.front();
  }

  void flush() {
    bool done = false;
    cache_->flush([&](const FlushReport& report) {
      EXPECT_TRUE(report.status.is_ok()) << report.status.to_string();
      done = true;
    });
    while (!done) {
      cache_->poll();
      take_reply();
    }
  }

  Model& model() { return *model_; }

  TieredCache& cache() { return *cache_; }

  uint32_t root() const { return root_; }

  const CacheGeometry& geometry() const { return geometry_; }

 private:
  static TieredCacheOptions cache_options() {
    TieredCacheOptions options;
    options.ram_budget_bytes = size_t{128} << 20;
    return options;
  }

  void take_reply() {
    const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    if (auto reply = replies_.pop_until(soon)) cache_->on_reply(std::move(*reply));
  }

  SystemClock clock_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  CacheGeometry geometry_;
  Mailbox<StoreReply> replies_{1};  // outlives the cache, whose I/O threads push into it
  std::unique_ptr<TieredCache> cache_;
  uint32_t root_ = 0;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

constexpr const char* kDemo = CAIRN_SOURCE_DIR "/models/cairn-demo";
constexpr const char* kLlama = CAIRN_SOURCE_DIR "/tests/data/oracles/llama";

TEST(Score, IsTheForwardPassRowForRow) {
  Life life({kDemo});
  const std::vector<TokenId> ids = some_ids(60, 1);
  const auto rows = life.rows_of(ids, {});
  const size_t page_bytes = life.geometry().groups[0].layout.page_bytes();
  const Buffer page = life.model().backend().allocate(page_bytes).value();
  std::byte* const table[] = {page.data()};
  const StepRows step{.tokens = ids, .pos_begin = 0, .pages = {table}, .logits = LogitRows::kAll};
  const auto direct = life.model().forward(std::span(&step, 1), life.geometry()).value();
  EXPECT_TRUE(same_bits(rows, {direct.logits, direct.n_rows * life.model().spec().vocab_size}));
}

TEST(Score, ChunksThreadsAndCompanyDoNotShow) {
  const std::vector<TokenId> ids = some_ids(kPromptTokens, 1);
  Life life({kDemo});
  const auto wanted = life.rows_of(ids, {});
  ASSERT_EQ(wanted.size(), kPromptTokens * 4096);
  ScoreOptions options;
  options.batch_with = {some_ids(31, 2), some_ids(200, 3), some_ids(1, 4)};
  for (const size_t chunk : std::vector<size_t>{1, 7, 64, 150}) {
    options.chunk = chunk;
    EXPECT_TRUE(same_bits(life.rows_of(ids, options), wanted)) << "chunk " << chunk;
  }
  Life two_threads({.model = kDemo, .store = "", .n_threads = 2});
  EXPECT_TRUE(same_bits(two_threads.rows_of(ids, options), wanted));
}

TEST(Score, ListsRunAsOneBatch) {
  const std::vector<std::vector<TokenId>> lists = {
      some_ids(70, 1, 320), some_ids(5, 2, 320), some_ids(129, 3, 320)};
  Life together({kLlama});
  const auto scores = together.try_score(lists, {}).value();
  for (size_t i = 0; i < lists.size(); ++i) {
    Life alone({kLlama});
    EXPECT_TRUE(same_bits(alone.rows_of(lists[i], {}), scores.rows[i])) << "list " << i;
    EXPECT_EQ(scores.sequences[i].first_row, 0U);
    EXPECT_EQ(scores.sequences[i].n_rows, lists[i].size());
  }
}

TEST(Score, LastRowOnlyIsTheLastRow) {
  Life life({kLlama});
  const std::vector<TokenId> ids = some_ids(100, 1, 320);
  const auto all = life.rows_of(ids, {});
  ScoreOptions options;
  options.last_row_only = true;
  options.chunk = 33;
  const auto scores = life.try_score({ids}, options).value();
  EXPECT_EQ(scores.sequences[0].first_row, 99U);
  EXPECT_EQ(scores.sequences[0].n_rows, 1U);
  EXPECT_TRUE(same_bits(scores.rows[0], std::span(all).last(320)));
}

TEST(Score, WithoutTheCacheNothingIsReused) {
  Life life({kLlama});
  const std::vector<TokenId> ids = some_ids(100, 1, 320);
  ScoreOptions keep;
  keep.use_cache = true;
  (void)life.rows_of(ids, keep);
  const auto scores = life.try_score({ids}, {}).value();
  EXPECT_EQ(scores.sequences[0].first_row, 0U);
  EXPECT_EQ(scores.sequences[0].reuse.device_tokens, 0U);
}

// Where a prefix may come from.
enum class From { kMemory, kDisk };

// Rows from `cut` on, the rows before from the cache; `wanted` are those of all `ids`.
void expect_same_after(Life& life,
                       const std::vector<TokenId>& ids,
                       std::span<const float> wanted,
                       size_t cut,
                       From from) {
  ScoreOptions options;
  options.use_cache = true;
  options.reuse_at = cut;
  const auto scores = life.try_score({ids}, options).value();
  const ScoredSequence& sequence = scores.sequences[0];
  ASSERT_EQ(sequence.first_row, cut);
  EXPECT_EQ(from == From::kMemory ? sequence.reuse.device_tokens : sequence.reuse.disk_tokens, cut);
  const size_t vocab_size = wanted.size() / ids.size();
  EXPECT_TRUE(same_bits(scores.rows[0], wanted.subspan(cut * vocab_size))) << "cut " << cut;
}

struct Cuts {
  std::vector<size_t> in_memory;
  std::vector<size_t> on_disk;
};

std::vector<size_t> all_cuts(size_t begin) {
  std::vector<size_t> cuts;
  for (size_t cut = begin; cut < kPromptTokens; ++cut) cuts.push_back(cut);
  return cuts;
}

// Computes the prompt in one life, forks it there, and restores it in one life a cut.
void expect_same_at(const Cuts& cuts, LifeOptions life, uint32_t vocab_size) {
  const TempDir folder;
  life.store = folder.path();
  const std::vector<TokenId> ids = some_ids(kPromptTokens, 1, vocab_size);
  ScoreOptions keep;
  keep.use_cache = true;
  std::vector<float> wanted;
  {
    Life first(life);
    wanted = first.rows_of(ids, keep);
    for (const size_t cut : cuts.in_memory) {
      expect_same_after(first, ids, wanted, cut, From::kMemory);
    }
    first.flush();
  }
  for (const size_t cut : cuts.on_disk) {
    Life restarted(life);
    expect_same_after(restarted, ids, wanted, cut, From::kDisk);
  }
}

TEST(Score, ForkedFromMemoryAndRestoredFromDiskAtAnyCut) {
  expect_same_at(
      {{1, 16, 50, 63, 64, 65, 100, 127, 128, 148, 149}, {16, 64, 100, 128, 149}}, {kDemo}, 4096);
}

// Every way to keep weights, in a small model.
class WeightKindScore : public ::testing::TestWithParam<std::string> {};

TEST_P(WeightKindScore, ForkedFromMemoryAndRestoredFromDisk) {
  const TempDir folder;
  LifeOptions life{
      make_small_demo(CAIRN_SOURCE_DIR "/models/cairn-demo", GetParam(), folder.path())};
  for (const Precision precision : {Precision::kF32, Precision::kFast}) {
    life.precision = precision;
    expect_same_at({{1, 64, 100, 149}, {16, 101}}, life, kSmallDemoVocab);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         WeightKindScore,
                         ::testing::ValuesIn(weight_kinds()),
                         [](const auto& param) { return param.param; });

// `make soak`: every cut, on every class.
class SoakWeightKindScore : public ::testing::TestWithParam<std::string> {};

TEST_P(SoakWeightKindScore, EveryCutOnEveryClass) {
  const TempDir folder;
  LifeOptions life{
      make_small_demo(CAIRN_SOURCE_DIR "/models/cairn-demo", GetParam(), folder.path())};
  for (const Isa isa : supported_isas()) {
    for (const Precision precision : {Precision::kF32, Precision::kFast}) {
      life.isa = isa;
      life.precision = precision;
      expect_same_at({all_cuts(1), all_cuts(16)}, life, kSmallDemoVocab);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         SoakWeightKindScore,
                         ::testing::ValuesIn(weight_kinds()),
                         [](const auto& param) { return param.param; });

TEST(Score, RefusesWhatItCannotScore) {
  Life life({kLlama});
  const auto empty = life.try_score({{1, 2}, {}}, {});
  EXPECT_EQ(empty.status().code(), StatusCode::kInvalidArgument);
  const auto foreign = life.try_score({{1, 320}}, {});
  EXPECT_EQ(foreign.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(foreign.status().message().find("320"), std::string::npos);
  const LogitSink failing = [](size_t, size_t, std::span<const float>) {
    return Status::no_space("the output is full");
  };
  const std::vector<std::vector<TokenId>> lists = {{1, 2, 3}};
  const auto full =
      score(life.model(), life.cache(), life.root(), life.geometry(), lists, {}, failing);
  EXPECT_EQ(full.status().code(), StatusCode::kNoSpace);
  // Nothing of the failures stays behind.
  EXPECT_TRUE(life.cache().check_invariants().is_ok());
  EXPECT_EQ(life.rows_of({1, 2, 3}, {}).size(), 3U * 320);
}

}  // namespace
}  // namespace cairn
