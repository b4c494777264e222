// A TieredCache over file systems in RAM, whose disk threads answer only when the test lets them,
// and sequences that write rows which tell what they stand for (cache/fake_backend.h).
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/mailbox.h"
#include "cache/fake_backend.h"
#include "store/tiered_cache.h"
#include "support/memory_file_system.h"

namespace cairn::testing {

inline constexpr uint32_t kSmallPage = 16;  // tokens
inline constexpr size_t kSlotBytes = 4096;  // of such a page
inline constexpr size_t kSmallChunk = 4 * kSlotBytes;

using Ids = std::vector<TokenId>;

// Pools of `n_pages` pages and immediate syncs; enough disk for everything.
TieredCacheOptions small_options(size_t n_pages = 256);

class CacheFixture {
 public:
  explicit CacheFixture(const TieredCacheOptions& options = small_options()) : options_(options) {
    set_log_level(LogLevel::kOff);  // tests are silent when they pass
    make_cache();
  }

  CacheFixture(const CacheFixture&) = delete;
  CacheFixture& operator=(const CacheFixture&) = delete;
  CacheFixture(CacheFixture&&) = delete;
  CacheFixture& operator=(CacheFixture&&) = delete;

  ~CacheFixture() {
    check();
    cache_.reset();  // its threads may still have something to say
    set_log_level(LogLevel::kInfo);
  }

  // Opens the store of `fs` and adds it; the file system must outlive the fixture. Fails the test
  // when the folder cannot be used.
  void attach(FileSystem& fs);
  // Ends the cache as a crash of the process would (nothing is flushed, commands that were queued
  // may still run), then starts anew on the same folder.
  void restart(FileSystem& fs);

  // From the next attach() or restart() on; null: none.
  void set_key(std::shared_ptr<const StoreKey> key) { key_ = std::move(key); }

  void set_options(const TieredCacheOptions& options) { options_ = options; }

  TieredCache& cache() { return *cache_; }

  FakeClock& clock() { return clock_; }

  FakeBackend& backend() { return backend_; }

  uint32_t root() const { return root_; }

  uint32_t base_root() const { return base_root_; }

  // For what follows, until the next restart.
  void use_namespace(std::string_view name) { root_ = cache_->namespace_root(base_root_, name); }

  const OpenReport& report() const { return report_; }

  CacheStats stats() const { return cache_->stats(); }

  const PageLayout& layout() const { return spec_.geometry.groups[0].layout; }

  // Hands over one answer that must come: of a read, or of a write or sync. False when none is
  // awaited.
  bool deliver_read();
  bool deliver_write();
  // All answers, those that come meanwhile included; polls in between.
  void settle();

  void advance(std::chrono::milliseconds by) {
    clock_.advance(by);
    disk_lag_ += by;
    cache_->poll();
  }

  FlushReport flush();
  void check() const;

  // Begins and waits for restores. Null when begin() refused; then last_error tells.
  std::unique_ptr<CacheSequence> begin(const Ids& prompt,
                                       size_t max_rows = 0,
                                       BeginOptions options = {});
  // Every row is what these ids should have, and what lies behind in the last page is zero.
  void expect_rows(const CacheSequence& sequence, const Ids& ids) const;
  // Computes the rows of ids[sequence.n_rows() ..] in chunks.
  void compute(CacheSequence& sequence, const Ids& ids, size_t chunk = 7);
  // A whole request. Returns how many rows were reused.
  size_t run(const Ids& ids, BeginOptions options = {});

  Status last_error;

 private:
  void make_cache();

  void hand_over(StoreReply reply) { cache_->on_reply(std::move(reply)); }

  TieredCacheOptions options_;
  FakeClock clock_;
  // The disk threads read their own clock, which only moves while there are none.
  FakeClock disk_clock_;
  std::chrono::milliseconds disk_lag_{0};
  FakeBackend backend_;
  RootSpec spec_ = fake_root(kSmallPage);
  uint32_t base_root_ = 0;  // the model's own
  uint32_t root_ = 0;
  std::shared_ptr<const StoreKey> key_;
  OpenReport report_;
  std::unique_ptr<Mailbox<StoreReply>> reads_;
  std::unique_ptr<Mailbox<StoreReply>> writes_;
  std::unique_ptr<TieredCache> cache_;
};

// n ids counting up from `first`.
Ids ids_from(TokenId first, size_t n);
Ids operator+(Ids a, const Ids& b);
Ids front(const Ids& ids, size_t n);

}  // namespace cairn::testing
