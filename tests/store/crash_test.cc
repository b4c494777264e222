// Power fails everywhere: a mixed workload on a recording file system, then every prefix of what it
// did to the disk, in every mode of loss. Each state must open, serve nothing wrong and hold
// everything that a completed sync() covered.
//
// Another seed: --gtest_random_seed=N.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/log.h"
#include "store/store_fixture.h"
#include "support/recording_file_system.h"
#include "support/test_size.h"

namespace cairn {
namespace {

using test::find_entry;
using test::kStore;
using test::layouts_of;
using test::make_leaf;
using test::make_root;
using test::make_run;
using test::odd_layout;
using test::open_store;
using test::Random;
using test::read_and_compare;
using test::TestObject;

constexpr CrashMode kModes[] = {CrashMode::kDropUnsynced,
                                CrashMode::kKeepAll,
                                CrashMode::kNamesWithoutData,
                                CrashMode::kDataWithoutNames,
                                CrashMode::kRandom,
                                CrashMode::kTorn};

// Sanitizers make a state ten times as slow: they look at every fifth prefix.
constexpr size_t kStride = testing::kIsSanitized ? 5 : 1;

// A completed sync promised `key` to every crash in [from, until] operations.
struct Promise {
  PageKey key;
  size_t from = 0;
  size_t until = SIZE_MAX;
};

class Workload {
 public:
  explicit Workload(uint64_t seed) : random_(seed) {
    for (uint64_t i = 0; i < 2; ++i) {
      roots_.push_back(make_root(i, {odd_layout(1, 16), odd_layout(2, 16)}));
      parents_.push_back({root_key(roots_.back())});
    }
    reopen();
    for (const RootSpec& root : roots_) EXPECT_TRUE(files_->describe_root(root).is_ok());
  }

  void run(size_t n_steps) {
    for (size_t i = 0; i < n_steps; ++i) {
      step(random_.below(100));
      clock_.advance(std::chrono::seconds(1));
    }
    sync();
    files_.reset();
  }

  const RecordingFileSystem& disk() const { return fs_; }

  const std::vector<Promise>& promises() const { return promises_; }

  const std::vector<RootSpec>& roots() const { return roots_; }

  size_t n_synced() const { return n_synced_; }

  size_t n_compacted() const { return n_compacted_; }

 private:
  void reopen() {
    files_.reset();
    OpenReport report;
    files_ = open_store(fs_, clock_, &report);
    EXPECT_EQ(report.objects.size(), live_.size());
    EXPECT_EQ(report.n_missing_files + report.n_bad_records + report.n_quarantined, 0U);
  }

  void step(uint64_t dice) {
    if (dice < 40) return write_run();
    if (dice < 55) return write_leaf();
    if (dice < 67) return sync();
    if (dice < 73) return drop(true);
    if (dice < 76) return drop(false);
    if (dice < 84) return use();
    if (dice < 90) return write_again();
    if (dice < 95) return compact();
    reopen();  // a killed process: nothing is synced on the way out
  }

  void write(const TestObject& object) {
    const auto written = files_->write_object(object.source);
    EXPECT_TRUE(written.is_ok()) << written.status().to_string();
    live_.insert_or_assign(object.key(), object.entry);
  }

  void write_run() {
    const size_t r = random_.below(roots_.size());
    const PageKey parent = parents_[r][random_.below(parents_[r].size())];
    written_.push_back(make_run(roots_[r], parent, 1 + random_.below(3), random_.next()));
    write(written_.back());
    parents_[r].push_back(written_.back().key());
  }

  void write_leaf() {
    const size_t r = random_.below(roots_.size());
    const PageKey parent = parents_[r][random_.below(parents_[r].size())];
    written_.push_back(
        make_leaf(roots_[r], parent, static_cast<uint32_t>(1 + random_.below(15)), random_.next()));
    write(written_.back());
  }

  // What lives already, or what has been dropped and is computed again.
  void write_again() {
    if (!written_.empty()) write(written_[random_.below(written_.size())]);
  }

  void sync() {
    ASSERT_TRUE(files_->sync().is_ok());
    ++n_synced_;
    for (const auto& [key, entry] : live_) {
      const bool is_open = std::any_of(promises_.begin(), promises_.end(), [&](const Promise& p) {
        return p.key == key && p.until == SIZE_MAX;
      });
      if (!is_open) promises_.push_back({key, fs_.n_operations()});
    }
  }

  void drop(bool remove) {
    if (live_.empty()) return;
    const auto it = std::next(live_.begin(), static_cast<ptrdiff_t>(random_.below(live_.size())));
    for (Promise& promise : promises_) {
      if (promise.key == it->first) promise.until = std::min(promise.until, fs_.n_operations());
    }
    EXPECT_TRUE(
        (remove ? files_->remove_object(it->second) : files_->quarantine(it->second, "test"))
            .is_ok());
    live_.erase(it);
  }

  void use() {
    if (live_.empty()) return;
    const std::vector<PageKey> keys(1000,
                                    live_.begin()->first);  // long, so that compaction has work
    EXPECT_TRUE(files_->record_use(keys, clock_.unix_seconds()).is_ok());
  }

  void compact() {
    std::vector<ObjectEntry> live;
    for (const auto& [key, entry] : live_) {
      if (random_.below(4) != 0)
        live.push_back(entry);  // the others' replies are still on their way
    }
    const size_t before = fs_.n_operations();
    EXPECT_TRUE(files_->compact_if_needed(live).is_ok());
    if (fs_.n_operations() != before) ++n_compacted_;
  }

  Random random_;
  RecordingFileSystem fs_;
  FakeClock clock_;
  std::vector<RootSpec> roots_;
  std::vector<std::vector<PageKey>> parents_;  // of each root: where a chain may go on
  std::vector<TestObject> written_;
  std::map<PageKey, ObjectEntry> live_;
  std::vector<Promise> promises_;
  std::unique_ptr<StoreFiles> files_;
  size_t n_synced_ = 0;
  size_t n_compacted_ = 0;
};

class CrashTest : public ::testing::Test {
 protected:
  CrashTest() { set_log_level(LogLevel::kOff); }

  ~CrashTest() override { set_log_level(LogLevel::kInfo); }

  // The same one unless another is asked for: what a workload loses is part of what is checked.
  static uint64_t seed() { return 20'260 + static_cast<uint64_t>(GTEST_FLAG_GET(random_seed)); }

  static const std::vector<PageLayout>& layouts_for(const ObjectEntry& entry,
                                                    const Workload& workload) {
    static std::map<RootKey, std::vector<PageLayout>> known;
    for (const RootSpec& root : workload.roots())
      known.try_emplace(root_key(root), layouts_of(root));
    return known.at(entry.root);
  }

  // Reads every object; the keys of those that came back right. Damage must be found, never served.
  std::vector<PageKey> read_all(StoreFiles& files,
                                const OpenReport& report,
                                const Workload& workload) {
    std::vector<PageKey> right;
    for (const ObjectEntry& entry : report.objects) {
      const Status status = read_and_compare(files, entry, layouts_for(entry, workload));
      if (status.is_ok()) {
        right.push_back(entry.key());
      } else {
        EXPECT_EQ(status.code(), StatusCode::kCorruption) << status.to_string();
        ++n_damaged_;
      }
    }
    std::sort(right.begin(), right.end());
    return right;
  }

  void check_promises(const std::vector<PageKey>& right,
                      size_t n_operations,
                      const Workload& workload) {
    for (const Promise& promise : workload.promises()) {
      if (n_operations < promise.from || n_operations > promise.until) continue;
      ++n_promises_;
      EXPECT_TRUE(std::binary_search(right.begin(), right.end(), promise.key))
          << to_hex(promise.key) << " was synced at operation " << promise.from << " and is lost";
    }
  }

  // Life goes on in a crashed store: damage is set aside, more is written and synced, and power
  // fails once more.
  void crash_again(const MemoryFileSystem& state,
                   const std::vector<PageKey>& right,
                   const Workload& workload) {
    RecordingFileSystem fs(state);
    OpenReport report;
    auto files = open_store(fs, clock_, &report);
    const TestObject added = make_run(workload.roots()[0], root_key(workload.roots()[0]), 2, 4711);
    ASSERT_TRUE(files->write_object(added.source).is_ok());
    ASSERT_TRUE(files->sync().is_ok());
    files.reset();
    const auto again = fs.crash_state(fs.n_operations(), CrashMode::kDropUnsynced, 0);
    files = open_store(*again, clock_, &report);
    EXPECT_EQ(report.n_bad_records, 0U);
    const std::vector<PageKey> now = read_all(*files, report, workload);
    EXPECT_TRUE(std::binary_search(now.begin(), now.end(), added.key()));
    EXPECT_TRUE(std::includes(now.begin(), now.end(), right.begin(), right.end()));
  }

  FakeClock clock_;
  size_t n_states_ = 0;
  size_t n_promises_ = 0;  // checked
  size_t n_damaged_ = 0;   // objects that were refused
};

TEST_F(CrashTest, EveryPrefixInEveryModeOpensTellsNoLieAndKeepsItsPromises) {
  const uint64_t seed = this->seed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Workload workload(seed);
  workload.run(90);
  ASSERT_GT(workload.n_synced(), 3U);
  ASSERT_GT(workload.n_compacted(), 0U);
  const size_t n_operations = workload.disk().n_operations();
  for (size_t n = 0; n <= n_operations; n += kStride) {
    for (const CrashMode mode : kModes) {
      SCOPED_TRACE(::testing::Message()
                   << "after " << n << " operations, mode " << static_cast<int>(mode));
      const auto state = workload.disk().crash_state(n, mode, seed + n);
      OpenReport report;
      auto opened = StoreFiles::open(*state, clock_, {.directory = kStore}, &report);
      ASSERT_TRUE(opened.is_ok()) << opened.status().to_string();
      const std::vector<PageKey> right = read_all(**opened, report, workload);
      check_promises(right, n, workload);
      ++n_states_;
      opened->reset();
      if (n_states_ % 23 == 0) crash_again(*state, right, workload);
      if (HasFailure()) return;
    }
  }
  RecordProperty("states", static_cast<int>(n_states_));
  RecordProperty("promises", static_cast<int>(n_promises_));
  RecordProperty("refused", static_cast<int>(n_damaged_));
  EXPECT_GE(n_states_, 2000U / kStride);
  EXPECT_GT(n_promises_, n_states_);
  EXPECT_GT(n_damaged_, 100U / kStride) << "the modes lost too little to test anything";
}

}  // namespace
}  // namespace cairn
