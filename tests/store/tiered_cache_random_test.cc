// Random requests, forks, cancellations, restarts and faults against a model that knows no pages:
// the list of timelines that were computed. Rows tell which ids they stand for, so any wrong reuse
// shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "store/cache_fixture.h"
#include "store/tiered_cache.h"
#include "support/recording_file_system.h"
#include "support/test_size.h"

namespace cairn {
namespace {

using testing::CacheFixture;
using testing::front;
using testing::Ids;
using testing::kSmallPage;
using testing::small_options;

struct Live {
  Ids ids;                // prompt and what will be generated
  size_t n_max = 0;       // rows it may have
  size_t n_expected = 0;  // rows that the model says are reusable
  std::unique_ptr<CacheSequence> sequence;
};

class RandomCache {
 public:
  RandomCache(uint64_t seed, const TieredCacheOptions& options, bool is_roomy)
      : rng_(seed), f_(options), is_roomy_(is_roomy) {
    f_.attach(fs_);
  }

  ~RandomCache() { live_.clear(); }

  RandomCache(const RandomCache&) = delete;
  RandomCache& operator=(const RandomCache&) = delete;
  RandomCache(RandomCache&&) = delete;
  RandomCache& operator=(RandomCache&&) = delete;

  void step() {
    const size_t choice = pick(100);
    if (choice < 25) {
      begin();
    } else if (choice < 60) {
      work();
    } else if (choice < 70) {
      end();
    } else if (choice < 80) {
      f_.deliver_read();
    } else if (choice < 90) {
      f_.deliver_write();
    } else if (choice < 95) {
      f_.advance(std::chrono::milliseconds(pick(1500)));
    } else if (choice < 97) {
      flush();
    } else if (choice == 97) {
      restart();
    } else if (choice == 98 && !is_roomy_) {
      forget();
    } else if (!is_roomy_) {
      disturb();
    }
    f_.check();
  }

 private:
  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(rng_); }

  // Fronts of what is known, with few different ids behind, so that timelines fork everywhere.
  Ids random_ids() {
    Ids ids;
    if (!seen_.empty() && pick(5) != 0) {
      ids = seen_[pick(seen_.size())];
      ids.resize(pick(ids.size() + 1));
    }
    const size_t n = 1 + pick(50);
    for (size_t i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>(pick(3)));
    if (ids.size() > 160) ids.resize(160);
    return ids;
  }

  void begin() {
    if (live_.size() >= 6) return;
    Live live;
    live.ids = random_ids();
    live.n_max = live.ids.size() + pick(30);
    live.n_expected = reusable(live.ids);
    BeginOptions options;
    options.max_rows = live.n_max;
    auto sequence = f_.cache().begin(f_.root(), live.ids, options);
    if (!sequence.is_ok()) {
      ASSERT_EQ(sequence.status().code(), StatusCode::kOverloaded) << sequence.status().message();
      ASSERT_FALSE(is_roomy_);
      return;
    }
    live.sequence = std::move(*sequence);
    while (live.ids.size() < live.n_max) live.ids.push_back(static_cast<TokenId>(pick(3)));
    seen_.push_back(live.ids);
    if (seen_.size() > 30) seen_.erase(seen_.begin());
    live_.push_back(std::move(live));
    check_start(live_.back());
  }

  // What a sequence begins with is right, and in a roomy cache all that the model knows.
  void check_start(Live& live) {
    if (!live.sequence->is_ready() || live.n_expected == SIZE_MAX) return;
    f_.expect_rows(*live.sequence, live.ids);
    if (is_roomy_) {
      ASSERT_EQ(live.sequence->n_rows(), live.n_expected);
    }
    live.n_expected = SIZE_MAX;
  }

  Live* random_ready() {
    if (live_.empty()) return nullptr;
    Live& live = live_[pick(live_.size())];
    check_start(live);
    return live.sequence->is_ready() ? &live : nullptr;
  }

  void work() {
    Live* live = random_ready();
    if (live == nullptr) return;
    CacheSequence& sequence = *live->sequence;
    const size_t n = sequence.n_rows();
    const size_t n_private = n % kSmallPage;
    if (n_private > 0 && pick(8) == 0) {
      // Rejected proposals: rows were written that do not count.
      ASSERT_TRUE(sequence.truncate(n - pick(n_private + 1)).is_ok());
      return;
    }
    if (n < live->ids.size() && n_private == 0 && pick(2) == 0)
      sequence.adopt(std::span(live->ids).subspan(n));
    const size_t n_to = std::min(live->ids.size(), sequence.n_rows() + 1 + pick(40));
    f_.compute(sequence, front(live->ids, n_to), 1 + pick(20));
    remember_pages(*live);
    if (pick(6) == 0) f_.expect_rows(sequence, live->ids);
  }

  void remember_pages(const Live& live) {
    const size_t n = live.sequence->n_rows() / kSmallPage * kSmallPage;
    if (n > 0) known_.insert(front(live.ids, n));
  }

  void end() {
    Live* live = random_ready();
    if (live == nullptr) {
      if (!live_.empty() && pick(4) == 0)
        live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(pick(live_.size())));
      return;
    }
    f_.expect_rows(*live->sequence, live->ids);
    if (pick(4) != 0) {
      const size_t n = live->sequence->n_rows();
      live->sequence->finish();
      if (n > 0) known_.insert(front(live->ids, n));
    }
    live_.erase(live_.begin() + (live - live_.data()));
  }

  // The longest front that some computed timeline shares.
  size_t reusable(const Ids& prompt) const {
    size_t best = 0;
    for (const Ids& ids : known_) {
      const size_t cap = std::min(prompt.size() - 1, ids.size());
      size_t n = 0;
      while (n < cap && ids[n] == prompt[n]) ++n;
      best = std::max(best, n);
    }
    return best;
  }

  void flush() {
    const FlushReport report = f_.flush();
    if (is_roomy_) {
      ASSERT_TRUE(report.status.is_ok()) << report.status.message();
    }
  }

  void restart() {
    live_.clear();
    if (is_roomy_) {
      flush();
      // A timeline that is shorter than the shortest stored prefix was in memory only.
      std::erase_if(known_, [](const Ids& ids) { return ids.size() < 16; });
    }
    // A folder that cannot be opened is another test's business.
    fs_.set_total_bytes_max(std::nullopt);
    fs_.clear_faults();
    f_.restart(fs_);
  }

  // A timeline that was asked for, or a front of one; who runs on it goes on.
  void forget() {
    if (seen_.empty()) return;
    ForgetScope scope;
    scope.what = ForgetScope::What::kPrompt;
    scope.prompt = seen_[pick(seen_.size())];
    scope.prompt.resize(1 + pick(scope.prompt.size()));
    for (Live& live : live_) {
      const size_t n = std::min(scope.prompt.size(), live.ids.size());
      if (front(live.ids, n) == front(scope.prompt, n)) live.sequence->forget();
    }
    f_.cache().forget(f_.root(), std::move(scope), [](const ForgetReport&) {});
  }

  void disturb() {
    switch (pick(4)) {
      case 0: {
        const auto files = fs_.live().all_files();
        const std::string& path = files[pick(files.size())];
        const size_t n = fs_.live().read_bytes(path).size();
        if (n > 0 && (path.ends_with(".run") || path.ends_with(".leaf"))) {
          fs_.live().flip_bits(path, pick(n), std::byte{4});
        }
        break;
      }
      case 1:
        fs_.inject({.kind = pick(2) == 0 ? OperationKind::kRead : OperationKind::kRename,
                    .nth = 1 + pick(3)});
        break;
      case 2:
        fs_.set_total_bytes_max(fs_.live().total_bytes() + pick(20'000));
        break;
      default:
        fs_.set_total_bytes_max(std::nullopt);
        fs_.clear_faults();
    }
  }

  std::mt19937_64 rng_;
  RecordingFileSystem fs_;
  CacheFixture f_;
  bool is_roomy_;
  std::vector<Live> live_;
  std::vector<Ids> seen_;
  std::set<Ids> known_;
};

void run_steps(uint64_t seed, size_t n_steps, const TieredCacheOptions& options, bool is_roomy) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomCache random(seed, options, is_roomy);
  for (size_t i = 0; i < n_steps; ++i) {
    random.step();
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "at step " << i << " of seed " << seed;
      return;
    }
  }
}

TEST(TieredCacheRandom, WithRoomForAllNothingIsComputedTwice) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    run_steps(seed, testing::scaled(1000), small_options(2048), true);
    if (HasFailure()) return;
  }
}

TEST(TieredCacheRandom, WithLittleMemoryDiskAndLuckNothingIsWrong) {
  TieredCacheOptions options = small_options();
  options.ram_budget_bytes = 60 * testing::kSlotBytes;
  options.store_max_bytes = 200 << 10;
  for (uint64_t seed = 101; seed <= 108; ++seed) {
    run_steps(seed, testing::scaled(1000), options, false);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace cairn
