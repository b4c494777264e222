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

namespace cairn {
namespace {

constexpr size_t kPromptTokens = 150;

// One life of a program: a backend, a model and a cache, with a disk tier if a store is named.
class Life {
 public:
  explicit Life(const std::string& model, const std::string& store = "", unsigned n_threads = 1)
      : backend_(make_cpu_backend({.isa = supported_isas().back(),
                                   .precision = Precision::kFast,
                                   .n_threads = n_threads})),
        model_(Model::load(std::string(CAIRN_SOURCE_DIR) + "/" + model, *backend_, {}).value()),
        geometry_(model_->spec().cache_geometry(RowEncoding::kBf16)),
        cache_(std::make_unique<TieredCache>(*backend_, clock_, cache_options())) {
    root_ = cache_->add_root({.model_identity = model_->identity(),
                              .geometry = geometry_,
                              .numerics_version = backend_->numerics_version(),
                              .key_namespace = "",
                              .model_label = model});
    if (store.empty()) return;
    StoreOptions options;
    options.directory = store;
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

constexpr const char* kDemo = "models/cairn-demo";
constexpr const char* kLlama = "tests/data/oracles/llama";

TEST(Score, IsTheForwardPassRowForRow) {
  Life life(kDemo);
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
  Life life(kDemo);
  const auto wanted = life.rows_of(ids, {});
  ASSERT_EQ(wanted.size(), kPromptTokens * 4096);
  ScoreOptions options;
  options.batch_with = {some_ids(31, 2), some_ids(200, 3), some_ids(1, 4)};
  for (const size_t chunk : std::vector<size_t>{1, 7, 64, 150}) {
    options.chunk = chunk;
    EXPECT_TRUE(same_bits(life.rows_of(ids, options), wanted)) << "chunk " << chunk;
  }
  Life two_threads(kDemo, "", 2);
  EXPECT_TRUE(same_bits(two_threads.rows_of(ids, options), wanted));
}

TEST(Score, ListsRunAsOneBatch) {
  const std::vector<std::vector<TokenId>> lists = {
      some_ids(70, 1, 320), some_ids(5, 2, 320), some_ids(129, 3, 320)};
  Life together(kLlama);
  const auto scores = together.try_score(lists, {}).value();
  for (size_t i = 0; i < lists.size(); ++i) {
    Life alone(kLlama);
    EXPECT_TRUE(same_bits(alone.rows_of(lists[i], {}), scores.rows[i])) << "list " << i;
    EXPECT_EQ(scores.sequences[i].first_row, 0U);
    EXPECT_EQ(scores.sequences[i].n_rows, lists[i].size());
  }
}

TEST(Score, LastRowOnlyIsTheLastRow) {
  Life life(kLlama);
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
  Life life(kLlama);
  const std::vector<TokenId> ids = some_ids(100, 1, 320);
  ScoreOptions keep;
  keep.use_cache = true;
  (void)life.rows_of(ids, keep);
  const auto scores = life.try_score({ids}, {}).value();
  EXPECT_EQ(scores.sequences[0].first_row, 0U);
  EXPECT_EQ(scores.sequences[0].reuse.device_tokens, 0U);
}

TEST(Score, ForkedFromMemoryAtAnyCut) {
  Life life(kDemo);
  const std::vector<TokenId> ids = some_ids(kPromptTokens, 1);
  ScoreOptions options;
  options.use_cache = true;
  const auto wanted = life.rows_of(ids, options);
  for (const size_t cut : std::vector<size_t>{1, 16, 50, 63, 64, 65, 100, 127, 128, 148, 149}) {
    options.reuse_at = cut;
    const auto scores = life.try_score({ids}, options).value();
    ASSERT_EQ(scores.sequences[0].first_row, cut);
    EXPECT_EQ(scores.sequences[0].reuse.device_tokens, cut);
    EXPECT_TRUE(same_bits(scores.rows[0], std::span(wanted).subspan(cut * 4096))) << "cut " << cut;
  }
}

TEST(Score, RestoredFromDiskAtAnyCut) {
  const TempDir folder;
  const std::vector<TokenId> ids = some_ids(kPromptTokens, 1);
  ScoreOptions options;
  options.use_cache = true;
  std::vector<float> wanted;
  {
    Life first(kDemo, folder.path());
    wanted = first.rows_of(ids, options);
    first.flush();
  }
  for (const size_t cut : std::vector<size_t>{16, 64, 100, 128, 149}) {
    Life restarted(kDemo, folder.path());
    options.reuse_at = cut;
    const auto scores = restarted.try_score({ids}, options).value();
    ASSERT_EQ(scores.sequences[0].first_row, cut);
    EXPECT_EQ(scores.sequences[0].reuse.disk_tokens, cut);
    EXPECT_TRUE(same_bits(scores.rows[0], std::span(wanted).subspan(cut * 4096))) << "cut " << cut;
  }
}

TEST(Score, RefusesWhatItCannotScore) {
  Life life(kLlama);
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
