#include "store/cache_fixture.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cairn::testing {

TieredCacheOptions small_options(size_t n_pages) {
  TieredCacheOptions options;
  options.ram_budget_bytes = n_pages * kSlotBytes + (size_t{4} << 20);  // and the tree beside them
  options.page_tokens = kSmallPage;
  options.chunk_bytes = kSmallChunk;
  options.restore = RestoreMode::kAlways;
  return options;
}

void CacheFixture::make_cache() {
  reads_ = std::make_unique<Mailbox<StoreReply>>(0);
  writes_ = std::make_unique<Mailbox<StoreReply>>(0);
  cache_ = std::make_unique<TieredCache>(backend_, clock_, options_);
  root_ = base_root_ = cache_->add_root(spec_);
}

void CacheFixture::attach(FileSystem& fs) {
  StoreOptions options;
  options.directory = "/store";
  options.io_engine = IoEngine::kInline;
  options.key = key_;
  disk_clock_.advance(std::exchange(disk_lag_, std::chrono::milliseconds(0)));
  Result<std::unique_ptr<StoreFiles>> files = StoreFiles::open(fs, disk_clock_, options, &report_);
  ASSERT_TRUE(files.is_ok()) << files.status().to_string();
  cache_->attach_disk(std::move(*files), report_, [this](StoreReply reply) {
    const bool is_read = std::holds_alternative<ReadReply>(reply);
    (is_read ? reads_ : writes_)->push_reply(std::move(reply));
  });
}

void CacheFixture::restart(FileSystem& fs) {
  cache_.reset();
  make_cache();
  attach(fs);
}

bool CacheFixture::deliver_read() {
  if (stats().reads_in_flight == 0) return false;
  hand_over(*reads_->pop());
  return true;
}

bool CacheFixture::deliver_write() {
  if (stats().writes_in_flight + stats().syncs_in_flight == 0) return false;
  hand_over(*writes_->pop());
  return true;
}

void CacheFixture::settle() {
  cache_->poll();
  while (deliver_read() || deliver_write()) {
  }
}

FlushReport CacheFixture::flush() {
  std::optional<FlushReport> report;
  cache_->flush([&](FlushReport r) { report = std::move(r); });
  cache_->poll();
  while (!report && (deliver_write() || deliver_read())) {
  }
  EXPECT_TRUE(report.has_value()) << "flush never answered";
  return report.value_or(FlushReport{});
}

void CacheFixture::check() const {
  const Status status = cache_->check_invariants();
  EXPECT_TRUE(status.is_ok()) << status.message();
}

std::unique_ptr<CacheSequence> CacheFixture::begin(const Ids& prompt,
                                                   size_t max_rows,
                                                   BeginOptions options) {
  options.max_rows = std::max(max_rows, prompt.size());
  auto sequence = cache_->begin(root_, prompt, options);
  last_error = sequence.status();
  if (!sequence.is_ok()) return nullptr;
  while (!(*sequence)->is_ready() && deliver_read()) {
  }
  EXPECT_TRUE((*sequence)->is_ready());
  return std::move(*sequence);
}

void CacheFixture::expect_rows(const CacheSequence& sequence, const Ids& ids) const {
  const size_t n = sequence.n_rows();
  ASSERT_LE(n, ids.size());
  const std::span<const TokenId> all(ids);
  for (size_t t = 0; t < n; ++t) {
    ASSERT_TRUE(has_row(layout(), sequence.pages(0)[t / kSmallPage], all.first(t + 1)))
        << "row " << t << " of " << n;
  }
}

void CacheFixture::compute(CacheSequence& sequence, const Ids& ids, size_t chunk) {
  const std::span<const TokenId> all(ids);
  while (sequence.n_rows() < ids.size()) {
    const size_t begin = sequence.n_rows();
    const size_t n = std::min(chunk, ids.size() - begin);
    const Status room = sequence.prepare(n);
    ASSERT_TRUE(room.is_ok()) << room.message();
    for (size_t t = begin; t < begin + n; ++t) {
      write_row(layout(), sequence.pages(0)[t / kSmallPage], all.first(t + 1));
    }
    sequence.advance(all.subspan(begin, n));
  }
}

size_t CacheFixture::run(const Ids& ids, BeginOptions options) {
  const auto sequence = begin(ids, 0, options);
  EXPECT_NE(sequence, nullptr) << last_error.message();
  if (sequence == nullptr) return 0;
  const size_t n_reused = sequence->n_rows();
  expect_rows(*sequence, ids);
  compute(*sequence, ids);
  expect_rows(*sequence, ids);
  sequence->finish();
  check();
  return n_reused;
}

Ids ids_from(TokenId first, size_t n) {
  Ids ids(n);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

Ids operator+(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Ids front(const Ids& ids, size_t n) {
  return Ids(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
}

}  // namespace cairn::testing
