#include "store/index_log.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/coding.h"
#include "base/log.h"
#include "store/store_fixture.h"
#include "support/recording_file_system.h"

namespace cairn {
namespace {

using test::make_leaf;
using test::make_root;
using test::make_run;
using test::odd_layout;

constexpr char kPath[] = "/index.log";

std::vector<ObjectEntry> make_entries(size_t n) {
  const RootSpec root = make_root(1, {odd_layout(1, 16)});
  std::vector<ObjectEntry> entries;
  PageKey parent = root_key(root);
  for (size_t i = 0; i < n; ++i) {
    entries.push_back(i % 3 == 2 ? make_leaf(root, parent, 5, i).entry
                                 : make_run(root, parent, 1 + i % 2, i).entry);
    entries.back().last_use_unix = static_cast<int64_t>(100 + i);
    if (i % 3 != 2) parent = entries.back().key();
  }
  return entries;
}

void add(std::vector<std::byte>* log, const std::vector<std::byte>& record) {
  log->insert(log->end(), record.begin(), record.end());
}

bool same(const ObjectEntry& a, const ObjectEntry& b) {
  return encode_add_record(a) == encode_add_record(b);
}

TEST(IndexLog, ReplaysAddUseRemoveAndSync) {
  const std::vector<ObjectEntry> entries = make_entries(5);
  std::vector<std::byte> log = encode_index_header();
  for (size_t i = 0; i < 3; ++i) add(&log, encode_add_record(entries[i]));
  add(&log, encode_synced_record());
  add(&log, encode_add_record(entries[3]));
  add(&log, encode_remove_record(entries[1].key()));
  const PageKey used[] = {entries[0].key(), entries[4].key()};
  add(&log, encode_use_record(used, 999));
  add(&log, encode_add_record(entries[4]));

  const IndexScan scan = scan_index_log(log);
  EXPECT_TRUE(scan.has_header);
  EXPECT_FALSE(scan.has_torn_tail);
  EXPECT_EQ(scan.n_bad_records, 0U);
  EXPECT_EQ(scan.n_records, 8U);
  EXPECT_EQ(scan.good_bytes, log.size());
  ASSERT_EQ(scan.objects.size(), 4U);
  EXPECT_EQ(scan.objects[0].entry.last_use_unix, 999);
  EXPECT_TRUE(scan.objects[0].is_synced);
  EXPECT_TRUE(same(scan.objects[1].entry, entries[2]));
  EXPECT_TRUE(scan.objects[1].is_synced);
  EXPECT_FALSE(scan.objects[2].is_synced);
  EXPECT_EQ(scan.objects[3].entry.last_use_unix, 104);  // used before it was added: not this one
}

TEST(IndexLog, AddedAgainIsUnsyncedAgain) {
  const std::vector<ObjectEntry> entries = make_entries(2);
  std::vector<std::byte> log = encode_index_header();
  add(&log, encode_add_record(entries[0]));
  add(&log, encode_add_record(entries[1]));
  add(&log, encode_synced_record());
  add(&log, encode_add_record(entries[0]));
  const IndexScan scan = scan_index_log(log);
  ASSERT_EQ(scan.objects.size(), 2U);
  EXPECT_TRUE(same(scan.objects[0].entry, entries[1]));
  EXPECT_TRUE(scan.objects[0].is_synced);
  EXPECT_FALSE(scan.objects[1].is_synced);
}

TEST(IndexLog, TornTailIsCutAtEveryByte) {
  const std::vector<ObjectEntry> entries = make_entries(3);
  std::vector<std::byte> log = encode_index_header();
  std::vector<size_t> ends;
  for (const ObjectEntry& entry : entries) {
    add(&log, encode_add_record(entry));
    ends.push_back(log.size());
  }
  for (size_t n = kIndexHeaderBytes; n <= log.size(); ++n) {
    const IndexScan scan = scan_index_log(std::span(log).first(n));
    size_t n_whole = 0;
    while (n_whole < ends.size() && ends[n_whole] <= n) ++n_whole;
    EXPECT_EQ(scan.objects.size(), n_whole) << n;
    EXPECT_EQ(scan.n_bad_records, 0U);
    EXPECT_EQ(scan.good_bytes, n_whole == 0 ? kIndexHeaderBytes : ends[n_whole - 1]);
    EXPECT_EQ(scan.has_torn_tail, scan.good_bytes != n);
  }
}

// A flipped byte costs the record it is in and no other; in the last one it reads as a torn tail.
TEST(IndexLog, AFlippedByteCostsOneRecord) {
  const std::vector<ObjectEntry> entries = make_entries(4);
  std::vector<std::byte> log = encode_index_header();
  std::vector<size_t> ends;
  for (const ObjectEntry& entry : entries) {
    add(&log, encode_add_record(entry));
    ends.push_back(log.size());
  }
  for (size_t i = kIndexHeaderBytes; i < log.size(); ++i) {
    log[i] ^= std::byte{0x10};
    const IndexScan scan = scan_index_log(log);
    const bool in_last = i >= ends[2];
    EXPECT_EQ(scan.objects.size(), 3U) << i;
    EXPECT_EQ(scan.n_bad_records, in_last ? 0U : 1U) << i;
    EXPECT_EQ(scan.has_torn_tail, in_last) << i;
    log[i] ^= std::byte{0x10};
  }
}

TEST(IndexLog, NothingIsReadWithoutItsHeader) {
  std::vector<std::byte> log = encode_index_header();
  add(&log, encode_add_record(make_entries(1)[0]));
  for (size_t i = 0; i < kIndexHeaderBytes; ++i) {
    log[i] ^= std::byte{1};
    const IndexScan scan = scan_index_log(log);
    EXPECT_FALSE(scan.has_header) << i;
    EXPECT_TRUE(scan.objects.empty());
    EXPECT_EQ(scan.unknown_version, 0U);
    log[i] ^= std::byte{1};
  }
  EXPECT_FALSE(scan_index_log({}).has_header);
  store_le<uint32_t>(log.data() + 8, 7);
  store_le<uint64_t>(log.data() + 16, xxh3_64(std::span(log).first(16)));
  EXPECT_EQ(scan_index_log(log).unknown_version, 7U);
}

TEST(IndexLog, UnknownRecordTypesAreSkippedAndCounted) {
  std::vector<std::byte> log = encode_index_header();
  std::vector<std::byte> record = encode_remove_record({});
  record[kRecordHeaderBytes] = std::byte{77};
  store_le<uint64_t>(record.data() + 4, xxh3_64(std::span(record).subspan(12)));
  add(&log, record);
  const ObjectEntry entry = make_entries(1)[0];
  add(&log, encode_add_record(entry));
  const IndexScan scan = scan_index_log(log);
  EXPECT_EQ(scan.n_bad_records, 1U);
  ASSERT_EQ(scan.objects.size(), 1U);
  EXPECT_TRUE(same(scan.objects[0].entry, entry));
}

TEST(IndexLog, HalfAnAppendIsCutOffAgain) {
  set_log_level(LogLevel::kOff);  // the warning is wanted, not its line
  RecordingFileSystem fs;
  const std::vector<ObjectEntry> entries = make_entries(2);
  auto log = IndexLog::open(fs, kPath);
  ASSERT_TRUE(log.is_ok());
  fs.inject({.kind = OperationKind::kAppend, .error_number = ENOSPC, .partial = true});
  EXPECT_EQ((*log)->append(encode_add_record(entries[0])).code(), StatusCode::kNoSpace);
  EXPECT_EQ(fs.live().read_bytes(kPath).size(), kIndexHeaderBytes);
  EXPECT_TRUE((*log)->append(encode_add_record(entries[1])).is_ok());
  EXPECT_EQ((*log)->size_bytes(), fs.live().read_bytes(kPath).size());

  // When even the cut fails, the half record is skipped by the next scan.
  fs.inject({.kind = OperationKind::kAppend, .error_number = EIO, .partial = true});
  fs.inject({.kind = OperationKind::kTruncate});
  EXPECT_EQ((*log)->append(encode_add_record(entries[0])).code(), StatusCode::kIo);
  EXPECT_TRUE((*log)->append(encode_add_record(entries[0])).is_ok());
  const IndexScan scan = scan_index_log(fs.live().read_bytes(kPath));
  EXPECT_EQ(scan.objects.size(), 2U);
  EXPECT_EQ(scan.n_bad_records, 1U);
  set_log_level(LogLevel::kInfo);
}

TEST(IndexLog, ReplaceKeepsTheOldLogWhenItFails) {
  RecordingFileSystem fs;
  const std::vector<ObjectEntry> entries = make_entries(2);
  auto log = IndexLog::open(fs, kPath);
  ASSERT_TRUE(log.is_ok());
  ASSERT_TRUE((*log)->append(encode_add_record(entries[0])).is_ok());
  fs.inject({.kind = OperationKind::kRename});
  EXPECT_FALSE((*log)->replace(encode_add_record(entries[1])).is_ok());
  ASSERT_TRUE((*log)->append(encode_remove_record(entries[1].key())).is_ok());
  EXPECT_EQ(scan_index_log(fs.live().read_bytes(kPath)).objects.size(), 1U);

  ASSERT_TRUE((*log)->replace(encode_add_record(entries[1])).is_ok());
  ASSERT_TRUE((*log)->append(encode_add_record(entries[0])).is_ok());
  const IndexScan scan = scan_index_log(fs.live().read_bytes(kPath));
  ASSERT_EQ(scan.objects.size(), 2U);
  EXPECT_TRUE(same(scan.objects[0].entry, entries[1]));
}

}  // namespace
}  // namespace cairn
