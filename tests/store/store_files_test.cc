#include "store/store_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/coding.h"
#include "base/log.h"
#include "store/folder_contents.h"
#include "store/index_log.h"
#include "store/root_description.h"
#include "store/store_fixture.h"
#include "support/recording_file_system.h"
#include "support/temp_folder.h"

namespace cairn {
namespace {

using test::aligned_layout;
using test::find_entry;
using test::kStore;
using test::layouts_of;
using test::make_leaf;
using test::make_root;
using test::make_run;
using test::odd_layout;
using test::open_store;
using test::read_and_compare;
using test::TestObject;

const std::string kIndexPath = std::string(kStore) + "/index.log";

// A store in memory with a chain of two runs and a leaf; the warnings that damage causes are not
// shown.
class StoreFilesTest : public ::testing::Test {
 protected:
  StoreFilesTest() {
    set_log_level(LogLevel::kError);
    root_ = make_root(1, {aligned_layout(), odd_layout()});
    layouts_ = layouts_of(root_);
    objects_.push_back(make_run(root_, root_key(root_), 3, 1));
    objects_.push_back(make_run(root_, objects_[0].key(), 1, 2));
    objects_.push_back(make_leaf(root_, objects_[1].key(), 21, 3));
  }

  ~StoreFilesTest() override { set_log_level(LogLevel::kInfo); }

  std::string path_of(const TestObject& object) const {
    return files_->object_path(object.source.root, object.source.kind, object.key());
  }

  void open(StoreOptions options = {}) {
    files_.reset();
    files_ = open_store(fs_, clock_, &report_, options);
  }

  void write_all() {
    for (const TestObject& object : objects_) {
      const auto written = files_->write_object(object.source);
      ASSERT_TRUE(written.is_ok()) << written.status().to_string();
      ASSERT_EQ(*written, object.entry.file_bytes);
    }
  }

  void expect_readable(const TestObject& object) {
    const ObjectEntry* entry = find_entry(report_, object.key());
    ASSERT_NE(entry, nullptr);
    const Status status = read_and_compare(*files_, *entry, layouts_);
    EXPECT_TRUE(status.is_ok()) << status.to_string();
  }

  uint64_t bytes_in_store() { return fs_.live().total_bytes(); }

  RecordingFileSystem fs_;
  FakeClock clock_;
  RootSpec root_;
  std::vector<PageLayout> layouts_;
  std::vector<TestObject> objects_;
  OpenReport report_;
  std::unique_ptr<StoreFiles> files_;
};

TEST_F(StoreFilesTest, WhatIsWrittenIsReadBackAndSurvivesReopening) {
  open();
  EXPECT_TRUE(report_.objects.empty());
  write_all();
  for (const TestObject& object : objects_) {
    EXPECT_TRUE(read_and_compare(*files_, object.entry, layouts_).is_ok());
  }
  open();
  ASSERT_EQ(report_.objects.size(), 3U);
  EXPECT_EQ(report_.n_missing_files + report_.n_bad_records + report_.n_quarantined, 0U);
  EXPECT_FALSE(report_.index_was_rebuilt);
  EXPECT_EQ(report_.total_bytes, bytes_in_store());
  for (size_t i = 0; i < objects_.size(); ++i) {
    EXPECT_EQ(report_.objects[i].key(), objects_[i].key());
    EXPECT_EQ(report_.objects[i].parent, objects_[i].entry.parent);
    expect_readable(objects_[i]);
  }
}

TEST_F(StoreFilesTest, SomePagesOfARunInAnyOrder) {
  open();
  write_all();
  EXPECT_TRUE(read_and_compare(*files_, objects_[0].entry, layouts_, {2}).is_ok());
  EXPECT_TRUE(read_and_compare(*files_, objects_[0].entry, layouts_, {1, 0}).is_ok());
}

// Direct I/O for aligned pages: the file system in memory refuses anything misaligned.
TEST_F(StoreFilesTest, AlignedPagesTravelDirectAndOthersBuffered) {
  const RootSpec aligned = make_root(2, {aligned_layout(3), aligned_layout(1)});
  const TestObject run = make_run(aligned, root_key(aligned), 4, 9);
  const TestObject leaf = make_leaf(aligned, run.key(), 33, 10);
  for (const bool direct_io : {true, false}) {
    StoreOptions options;
    options.direct_io = direct_io;
    open(options);
    for (const TestObject* object : {&run, &leaf}) {
      ASSERT_TRUE(files_->write_object(object->source).is_ok());
      EXPECT_TRUE(read_and_compare(*files_, object->entry, layouts_of(aligned)).is_ok());
    }
  }
}

TEST_F(StoreFilesTest, ReadOfManyObjectsGoesThroughOneQueue) {
  open();
  write_all();
  std::vector<std::vector<AlignedBytes>> memory(objects_.size());
  std::vector<std::vector<PageTarget>> targets(objects_.size());
  std::vector<ReadJob> jobs;
  for (size_t i = 0; i < objects_.size(); ++i) {
    for (uint32_t p = 0; p < objects_[i].entry.pages.size(); ++p) {
      targets[i].push_back({p, {}});
      for (const PageLayout& layout : layouts_) {
        memory[i].emplace_back(layout.page_bytes());
        targets[i].back().bytes.push_back(memory[i].back().data());
      }
    }
    jobs.push_back({&objects_[i].entry, layouts_, targets[i]});
  }
  fs_.live().flip_bits(path_of(objects_[1]), objects_[1].entry.file_bytes - 1);
  size_t n_given = 0;
  std::vector<StatusCode> codes(jobs.size(), StatusCode::kInternal);
  files_->read_objects([&]() { return n_given < jobs.size() ? &jobs[n_given++] : nullptr; },
                       [&](const ReadJob& job, const Status& status) {
                         codes[static_cast<size_t>(&job - jobs.data())] = status.code();
                       });
  EXPECT_EQ(codes, (std::vector{StatusCode::kOk, StatusCode::kCorruption, StatusCode::kOk}));
}

TEST_F(StoreFilesTest, TheRecordGoesBeforeTheName) {
  open();
  const size_t before = fs_.n_operations();
  ASSERT_TRUE(files_->write_object(objects_[0].source).is_ok());
  size_t append_at = 0;
  size_t rename_at = 0;
  const std::vector<Operation> operations = fs_.operations();
  for (size_t i = before; i < operations.size(); ++i) {
    if (operations[i].kind == OperationKind::kAppend) append_at = i;
    if (operations[i].kind == OperationKind::kRename) rename_at = i;
    EXPECT_NE(operations[i].kind, OperationKind::kSyncFile) << "publishing needs no sync";
  }
  EXPECT_LT(before, append_at);
  EXPECT_LT(append_at, rename_at);
}

TEST_F(StoreFilesTest, NamesAreAsTheDesignSays) {
  open();
  write_all();
  const std::string root = to_hex(root_key(root_));
  const std::string key = to_hex(objects_[0].key());
  EXPECT_EQ(path_of(objects_[0]), fmt::format("/store/{}/{}/{}.run", root, key.substr(0, 2), key));
  EXPECT_TRUE(path_of(objects_[2]).ends_with(".leaf"));
  EXPECT_TRUE(fs_.live().exists(path_of(objects_[0])));
}

TEST_F(StoreFilesTest, ASecondOwnerIsRefusedAReaderIsNot) {
  open();
  write_all();
  OpenReport other;
  const auto second = StoreFiles::open(fs_, clock_, {.directory = kStore}, &other);
  EXPECT_EQ(second.status().code(), StatusCode::kOverloaded);
  const std::vector<std::byte> log_before = fs_.live().read_bytes(kIndexPath);
  const size_t n_before = fs_.n_operations();
  auto reader = StoreFiles::open(fs_, clock_, {.directory = kStore, .read_only = true}, &other);
  ASSERT_TRUE(reader.is_ok());
  EXPECT_EQ(other.objects.size(), 3U);
  EXPECT_EQ(other.total_bytes, bytes_in_store());
  EXPECT_TRUE(read_and_compare(**reader, other.objects[0], layouts_).is_ok());
  EXPECT_EQ((*reader)->write_object(objects_[0].source).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_FALSE((*reader)->sync().is_ok());
  EXPECT_FALSE((*reader)->remove_object(objects_[0].entry).is_ok());
  EXPECT_FALSE((*reader)->quarantine(objects_[0].entry, "x").is_ok());
  EXPECT_FALSE((*reader)->record_use({}, 0).is_ok());
  EXPECT_FALSE((*reader)->describe_root(root_).is_ok());
  EXPECT_EQ(fs_.n_operations(), n_before);
  EXPECT_EQ(fs_.live().read_bytes(kIndexPath), log_before);
}

TEST_F(StoreFilesTest, ReadingAMissingStoreIsAnError) {
  const auto reader =
      StoreFiles::open(fs_, clock_, {.directory = "/nowhere", .read_only = true}, &report_);
  EXPECT_EQ(reader.status().code(), StatusCode::kNotFound);
}

TEST_F(StoreFilesTest, LeftoversOfACrashAreRemoved) {
  open();
  write_all();
  files_.reset();
  const std::string temp = "/store/tmp/17." + to_hex(objects_[0].key());
  fs_.live().write_bytes(temp, as_bytes("half an object"));
  fs_.live().write_bytes("/store/index.log.0123456789abcdef.tmp", as_bytes("half a log"));
  open();
  EXPECT_EQ(report_.n_temp_removed, 2U);
  EXPECT_FALSE(fs_.live().exists(temp));
  EXPECT_EQ(report_.total_bytes, bytes_in_store());
}

TEST_F(StoreFilesTest, ALostLogIsRebuiltFromHeaders) {
  open();
  write_all();
  files_.reset();
  ASSERT_TRUE(fs_.remove(kIndexPath).is_ok());
  open();
  EXPECT_TRUE(report_.index_was_rebuilt);
  ASSERT_EQ(report_.objects.size(), 3U);
  for (const TestObject& object : objects_) expect_readable(object);
  open();
  EXPECT_FALSE(report_.index_was_rebuilt);
  EXPECT_EQ(report_.objects.size(), 3U);
}

TEST_F(StoreFilesTest, ALogOfAnotherVersionIsSetAside) {
  open();
  write_all();
  files_.reset();
  std::vector<std::byte> log = fs_.live().read_bytes(kIndexPath);
  store_le<uint32_t>(log.data() + 8, 2);
  store_le<uint64_t>(log.data() + 16, xxh3_64(std::span(log).first(16)));
  fs_.live().write_bytes(kIndexPath, log);
  open();
  EXPECT_TRUE(report_.index_was_rebuilt);
  EXPECT_EQ(report_.objects.size(), 3U);
  EXPECT_EQ(fs_.live().read_bytes("/store/quarantine/index.log.unreadable"), log);
}

TEST_F(StoreFilesTest, ADamagedRecordCostsNoObject) {
  open();
  write_all();
  files_.reset();
  fs_.live().flip_bits(kIndexPath, kIndexHeaderBytes + 40);
  open();
  EXPECT_EQ(report_.n_bad_records, 1U);
  EXPECT_FALSE(report_.index_was_rebuilt);
  EXPECT_EQ(report_.objects.size(), 3U);
  open();
  EXPECT_EQ(report_.n_bad_records, 0U);
  EXPECT_EQ(report_.objects.size(), 3U);
}

TEST_F(StoreFilesTest, ARecordWithoutAFileIsACountedMiss) {
  open();
  write_all();
  ASSERT_TRUE(fs_.remove(path_of(objects_[1])).is_ok());
  EXPECT_EQ(read_and_compare(*files_, objects_[1].entry, layouts_).code(), StatusCode::kNotFound);
  open();
  EXPECT_EQ(report_.n_missing_files, 1U);
  EXPECT_EQ(report_.objects.size(), 2U);
  open();
  EXPECT_EQ(report_.n_missing_files, 0U);
}

TEST_F(StoreFilesTest, AFileOfTheWrongSizeIsSetAside) {
  open();
  write_all();
  const std::string path = path_of(objects_[1]);
  std::vector<std::byte> bytes = fs_.live().read_bytes(path);
  bytes.resize(bytes.size() - 512);
  fs_.live().write_bytes(path, bytes);
  open();
  EXPECT_EQ(report_.n_quarantined, 1U);
  EXPECT_EQ(report_.objects.size(), 2U);
  EXPECT_FALSE(fs_.live().exists(path));
  EXPECT_EQ(report_.total_bytes, bytes_in_store()) << "quarantined bytes count";
}

TEST_F(StoreFilesTest, UnknownVersionsAreLeftAloneAndCounted) {
  open();
  write_all();
  const std::string path = path_of(objects_[1]);
  std::vector<std::byte> bytes = fs_.live().read_bytes(path);
  store_le<uint32_t>(bytes.data() + 8, 2);
  fs_.live().write_bytes(path, bytes);
  EXPECT_EQ(read_and_compare(*files_, objects_[1].entry, layouts_).code(),
            StatusCode::kUnsupported);
  files_.reset();
  ASSERT_TRUE(fs_.remove(kIndexPath).is_ok());
  open();
  EXPECT_EQ(report_.n_unknown_version, 1U);
  EXPECT_EQ(report_.n_quarantined, 0U);
  EXPECT_EQ(report_.objects.size(), 2U);
  EXPECT_EQ(fs_.live().read_bytes(path), bytes);
}

TEST_F(StoreFilesTest, ForeignFilesAreOnlyWeighed) {
  open();
  fs_.live().write_bytes("/store/notes.txt", as_bytes("mine"));
  fs_.live().write_bytes("/store/other/deep/file", as_bytes("also mine"));
  fs_.live().write_bytes("/store/" + to_hex(root_key(root_)) + "/00/readme", as_bytes("hm"));
  write_all();
  open();
  EXPECT_EQ(report_.objects.size(), 3U);
  EXPECT_EQ(report_.n_quarantined, 0U);
  EXPECT_EQ(report_.total_bytes, bytes_in_store());
}

// --- Damage -------------------------------------------------------------------------------------

TEST_F(StoreFilesTest, EveryFlippedHeaderByteIsRefusedAtReading) {
  open();
  write_all();
  for (const TestObject& object : objects_) {
    const std::string path = path_of(object);
    for (uint64_t at = 0; at < object.entry.file_bytes; at = at < 2048 ? at + 1 : at + 397) {
      if (at >= 4096) break;
      fs_.live().flip_bits(path, at, std::byte{0x20});
      const Status status = read_and_compare(*files_, object.entry, layouts_);
      EXPECT_TRUE(status.code() == StatusCode::kCorruption ||
                  status.code() == StatusCode::kUnsupported)
          << at << ": " << status.to_string();
      fs_.live().flip_bits(path, at, std::byte{0x20});
    }
    EXPECT_TRUE(read_and_compare(*files_, object.entry, layouts_).is_ok());
  }
}

// Every byte of a small object's payload; every layer of every page is hit.
TEST_F(StoreFilesTest, EveryFlippedPayloadByteIsRefused) {
  open();
  const RootSpec root = make_root(5, {odd_layout(2, 16)});
  const TestObject run = make_run(root, root_key(root), 2, 1);
  const TestObject leaf = make_leaf(root, run.key(), 3, 2);
  for (const TestObject* object : {&run, &leaf}) {
    ASSERT_TRUE(files_->write_object(object->source).is_ok());
    const std::string path = path_of(*object);
    for (uint64_t at = 4096; at < object->entry.file_bytes; ++at) {
      const auto mask = static_cast<std::byte>(1U << (at % 8));
      fs_.live().flip_bits(path, at, mask);
      EXPECT_EQ(read_and_compare(*files_, object->entry, layouts_of(root)).code(),
                StatusCode::kCorruption)
          << at;
      fs_.live().flip_bits(path, at, mask);
    }
  }
}

TEST_F(StoreFilesTest, EveryTruncationIsRefused) {
  open();
  write_all();
  for (const TestObject& object : objects_) {
    const std::string path = path_of(object);
    const std::vector<std::byte> bytes = fs_.live().read_bytes(path);
    for (size_t n = 0; n < bytes.size(); n += 512) {
      fs_.live().write_bytes(path, std::span(bytes).first(n));
      EXPECT_EQ(read_and_compare(*files_, object.entry, layouts_).code(), StatusCode::kCorruption)
          << n;
    }
    fs_.live().write_bytes(path, bytes);
  }
}

TEST_F(StoreFilesTest, SwappedFilesAreRefused) {
  const TestObject a = make_run(root_, root_key(root_), 2, 11);
  const TestObject b = make_run(root_, root_key(root_), 2, 12);
  open();
  ASSERT_TRUE(files_->write_object(a.source).is_ok());
  ASSERT_TRUE(files_->write_object(b.source).is_ok());
  const std::vector<std::byte> a_bytes = fs_.live().read_bytes(path_of(a));
  fs_.live().write_bytes(path_of(a), fs_.live().read_bytes(path_of(b)));
  fs_.live().write_bytes(path_of(b), a_bytes);
  for (const TestObject* object : {&a, &b}) {
    const Status status = read_and_compare(*files_, object->entry, layouts_);
    EXPECT_EQ(status.code(), StatusCode::kCorruption);
    EXPECT_NE(status.message().find("another object under this name"), std::string::npos)
        << status.message();
  }
  files_.reset();
  ASSERT_TRUE(fs_.remove(kIndexPath).is_ok());
  open();
  EXPECT_EQ(report_.n_quarantined, 2U);
  EXPECT_TRUE(report_.objects.empty());
}

// An undamaged object of another root, or of other layouts, under a name that is not its own.
TEST_F(StoreFilesTest, AForeignRootIsRefused) {
  open();
  const RootSpec other = make_root(99, layouts_);
  const TestObject foreign = make_run(other, root_key(other), 3, 1);
  ASSERT_TRUE(files_->write_object(foreign.source).is_ok());
  ASSERT_TRUE(files_->write_object(objects_[0].source).is_ok());
  fs_.live().write_bytes(path_of(objects_[0]), fs_.live().read_bytes(path_of(foreign)));
  EXPECT_EQ(read_and_compare(*files_, objects_[0].entry, layouts_).code(), StatusCode::kCorruption);
  std::vector<PageLayout> wrong = layouts_;
  wrong[0].n_kv_heads = 1;
  wrong[0].head_dim *= 2;  // the same sizes
  EXPECT_EQ(read_and_compare(*files_, foreign.entry, wrong).code(), StatusCode::kCorruption);
}

// --- Quarantine, removal, recency ---------------------------------------------------------------

TEST_F(StoreFilesTest, QuarantineKeepsTheBytesAndTheReason) {
  open();
  write_all();
  const std::vector<std::byte> bytes = fs_.live().read_bytes(path_of(objects_[2]));
  ASSERT_TRUE(files_->quarantine(objects_[2].entry, "XXH3 0123, want 4567").is_ok());
  const std::string target =
      fmt::format("/store/quarantine/{}.leaf.XXH3-0123-want-4567", to_hex(objects_[2].key()));
  EXPECT_EQ(fs_.live().read_bytes(target), bytes);
  open();
  EXPECT_EQ(report_.objects.size(), 2U);
  EXPECT_EQ(report_.n_missing_files, 0U);
  EXPECT_EQ(report_.total_bytes, bytes_in_store());
}

TEST_F(StoreFilesTest, QuarantineIsThinnedAtOpen) {
  open();
  const auto name = [](unsigned i) {
    PageKey key;
    key.bytes[0] = static_cast<std::byte>(i);
    return fmt::format("/store/quarantine/{}.run.x", to_hex(key));
  };
  for (unsigned i = 0; i < 70; ++i) fs_.live().write_bytes(name(i), as_bytes("damaged"));
  open();
  size_t n_left = 0;
  for (const std::string& path : fs_.live().all_files())
    n_left += path.starts_with("/store/quarantine/") ? 1 : 0;
  EXPECT_EQ(n_left, 64U);
  EXPECT_FALSE(fs_.live().exists(name(0)));
  EXPECT_EQ(report_.total_bytes, bytes_in_store());
}

TEST_F(StoreFilesTest, RemovedObjectsStayRemoved) {
  open();
  write_all();
  ASSERT_TRUE(files_->remove_object(objects_[0].entry).is_ok());
  EXPECT_EQ(files_->remove_object(objects_[0].entry).code(), StatusCode::kNotFound);
  open();
  EXPECT_EQ(report_.objects.size(), 2U);
  EXPECT_EQ(find_entry(report_, objects_[0].key()), nullptr);
  EXPECT_EQ(report_.n_missing_files, 0U);
}

TEST_F(StoreFilesTest, RecencySurvivesAndEditsNoObject) {
  open();
  write_all();
  const std::vector<std::byte> before = fs_.live().read_bytes(path_of(objects_[0]));
  const PageKey used[] = {objects_[0].key()};
  ASSERT_TRUE(files_->record_use(used, 2'000'000'000).is_ok());
  open();
  EXPECT_EQ(find_entry(report_, objects_[0].key())->last_use_unix, 2'000'000'000);
  EXPECT_EQ(find_entry(report_, objects_[1].key())->last_use_unix, clock_.unix_seconds());
  EXPECT_EQ(fs_.live().read_bytes(path_of(objects_[0])), before);
}

TEST_F(StoreFilesTest, CompactionDropsTheDeadAndKeepsTheRest) {
  open();
  write_all();
  const PageKey used[] = {objects_[0].key()};
  std::vector<ObjectEntry> live;
  for (size_t i = 0; i < 2; ++i) live.push_back(objects_[i].entry);  // the third is only in the log
  ASSERT_TRUE(files_->compact_if_needed(live).is_ok());
  const uint64_t small = fs_.live().read_bytes(kIndexPath).size();
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(files_->record_use(used, 2'000'000'000 + i).is_ok());
  live[0].last_use_unix = 2'000'001'999;
  ASSERT_TRUE(files_->compact_if_needed(live).is_ok());
  EXPECT_LT(fs_.live().read_bytes(kIndexPath).size(), small + 64);
  open();
  ASSERT_EQ(report_.objects.size(), 3U);
  EXPECT_EQ(find_entry(report_, objects_[0].key())->last_use_unix, 2'000'001'999);
  EXPECT_EQ(report_.n_bad_records + report_.n_missing_files, 0U);
}

// --- Faults -------------------------------------------------------------------------------------

// Whatever call fails while an object is written: an error comes back or the object is whole,
// nothing half is left, and the next write succeeds.
TEST_F(StoreFilesTest, AnyFailingCallCostsOneObject) {
  for (const OperationKind kind : {OperationKind::kOpen,
                                   OperationKind::kWrite,
                                   OperationKind::kAppend,
                                   OperationKind::kRename,
                                   OperationKind::kMakeDirectory}) {
    for (const int error_number : {ENOSPC, EIO}) {
      for (size_t nth = 1; nth <= 3; ++nth) {
        RecordingFileSystem fs;
        OpenReport report;
        auto files = open_store(fs, clock_, &report);
        fs.inject({.kind = kind, .nth = nth, .error_number = error_number, .partial = true});
        for (const TestObject& object : objects_) {
          const auto written = files->write_object(object.source);
          const StatusCode want = error_number == ENOSPC ? StatusCode::kNoSpace : StatusCode::kIo;
          if (!written.is_ok()) {
            EXPECT_EQ(written.status().code(), want);
          }
        }
        fs.clear_faults();
        for (const TestObject& object : objects_)
          EXPECT_TRUE(files->write_object(object.source).is_ok());
        EXPECT_TRUE(files->sync().is_ok());
        files.reset();
        files = open_store(fs, clock_, &report);
        EXPECT_EQ(report.objects.size(), 3U);
        EXPECT_EQ(report.n_missing_files + report.n_bad_records + report.n_temp_removed, 0U);
        for (const ObjectEntry& entry : report.objects) {
          EXPECT_TRUE(read_and_compare(*files, entry, layouts_).is_ok());
        }
      }
    }
  }
}

TEST_F(StoreFilesTest, AFullDiskCostsOnlyWhatDoesNotFit) {
  open();
  ASSERT_TRUE(files_->write_object(objects_[0].source).is_ok());
  fs_.set_total_bytes_max(bytes_in_store() + 1000);
  EXPECT_EQ(files_->write_object(objects_[1].source).status().code(), StatusCode::kNoSpace);
  EXPECT_TRUE(read_and_compare(*files_, objects_[0].entry, layouts_).is_ok());
  EXPECT_TRUE(files_->remove_object(objects_[0].entry).is_ok());
  fs_.set_total_bytes_max(std::nullopt);
  EXPECT_TRUE(files_->write_object(objects_[1].source).is_ok());
  open();
  EXPECT_EQ(report_.objects.size(), 1U);
}

TEST_F(StoreFilesTest, FailingReadsAreErrorsAndNothingElse) {
  open();
  write_all();
  for (size_t nth = 1; nth <= 6; ++nth) {
    fs_.inject({.kind = OperationKind::kRead, .nth = nth, .error_number = EIO});
    EXPECT_EQ(read_and_compare(*files_, objects_[0].entry, layouts_).code(), StatusCode::kIo)
        << nth;
    fs_.clear_faults();
    fs_.inject({.kind = OperationKind::kRead, .nth = nth, .error_number = 0});
    EXPECT_EQ(read_and_compare(*files_, objects_[0].entry, layouts_).code(),
              StatusCode::kCorruption)
        << nth;
    fs_.clear_faults();
  }
  EXPECT_TRUE(read_and_compare(*files_, objects_[0].entry, layouts_).is_ok());
}

// A folder that cannot be listed must not look like a folder without objects.
TEST_F(StoreFilesTest, AFailingListFailsOpenAndLosesNothing) {
  open();
  write_all();
  files_.reset();
  for (size_t nth = 1; nth <= 4; ++nth) {
    fs_.inject({.kind = OperationKind::kList, .nth = nth});
    EXPECT_FALSE(StoreFiles::open(fs_, clock_, {.directory = kStore}, &report_).is_ok()) << nth;
    fs_.clear_faults();
  }
  open();
  EXPECT_EQ(report_.objects.size(), 3U);
  EXPECT_EQ(report_.n_missing_files, 0U);
}

// After a failed fdatasync the kernel may believe the bytes clean; the next sync must not believe
// it.
TEST_F(StoreFilesTest, AfterAFailedSyncTheBytesAreWrittenAnew) {
  open();
  write_all();
  fs_.inject({.kind = OperationKind::kSyncFile, .nth = 2});
  EXPECT_EQ(files_->sync().code(), StatusCode::kIo);
  fs_.clear_faults();
  const size_t before = fs_.n_operations();
  EXPECT_TRUE(files_->sync().is_ok());
  const std::vector<Operation> operations = fs_.operations();
  std::set<std::string> renamed;
  for (size_t i = before; i < operations.size(); ++i) {
    if (operations[i].kind == OperationKind::kRename) renamed.insert(operations[i].path_to);
  }
  EXPECT_EQ(renamed.size(), 1U);
  const auto disk = fs_.crash_state(fs_.n_operations(), CrashMode::kDropUnsynced, 0);
  files_ = open_store(*disk, clock_, &report_);
  EXPECT_EQ(report_.objects.size(), 3U);
  for (const TestObject& object : objects_) expect_readable(object);
}

TEST_F(StoreFilesTest, FailingFolderSyncsAreTriedAgain) {
  open();
  write_all();
  fs_.inject({.kind = OperationKind::kSyncDirectory, .nth = 2});
  EXPECT_FALSE(files_->sync().is_ok());
  fs_.clear_faults();
  EXPECT_TRUE(files_->sync().is_ok());
  const auto disk = fs_.crash_state(fs_.n_operations(), CrashMode::kDropUnsynced, 0);
  files_ = open_store(*disk, clock_, &report_);
  EXPECT_EQ(report_.objects.size(), 3U);
}

// Objects of a killed process are published, not durable: the next process's sync must cover them.
TEST_F(StoreFilesTest, SyncCoversWhatAKilledProcessPublished) {
  open();
  write_all();
  open();
  ASSERT_TRUE(files_->sync().is_ok());
  const auto disk = fs_.crash_state(fs_.n_operations(), CrashMode::kDropUnsynced, 0);
  files_ = open_store(*disk, clock_, &report_);
  EXPECT_EQ(report_.objects.size(), 3U);
  for (const TestObject& object : objects_) expect_readable(object);
}

TEST_F(StoreFilesTest, ManyUnsyncedObjectsKeepFewFilesOpen) {
  open();
  const RootSpec root = make_root(3, {odd_layout(1, 16)});
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(files_->write_object(make_leaf(root, root_key(root), 5, i).source).is_ok());
  }
  EXPECT_EQ(fs_.n_tried(OperationKind::kSyncFile), 300U - 256U);
  ASSERT_TRUE(files_->sync().is_ok());
  EXPECT_EQ(fs_.n_tried(OperationKind::kSyncFile), 300U + 1U);  // each once, and the log
}

// --- Tools --------------------------------------------------------------------------------------

TEST_F(StoreFilesTest, VerifyAllNamesTheDamagedOnly) {
  open();
  write_all();
  fs_.live().flip_bits(path_of(objects_[0]), objects_[0].entry.file_bytes - 5);
  std::set<std::string> damaged;
  size_t n_visited = 0;
  ASSERT_TRUE(files_
                  ->verify_all([&](const std::string& path, const Status& status) {
                    ++n_visited;
                    if (!status.is_ok()) damaged.insert(path);
                  })
                  .is_ok());
  EXPECT_EQ(n_visited, 3U);
  EXPECT_EQ(damaged, std::set<std::string>{path_of(objects_[0])});
}

TEST_F(StoreFilesTest, RootsAreDescribedOnceForTools) {
  open();
  root_.key_namespace = "tenant \"a\"";
  ASSERT_TRUE(files_->describe_root(root_).is_ok());
  const size_t n = fs_.n_operations();
  ASSERT_TRUE(files_->describe_root(root_).is_ok());
  EXPECT_EQ(fs_.n_operations(), n);
  const std::string path = fmt::format("/store/{}/root.cairn", to_hex(root_key(root_)));
  const auto description = read_root_description(fs_, path);
  ASSERT_TRUE(description.is_ok()) << description.status().to_string();
  EXPECT_EQ(description->key, root_key(root_));
  EXPECT_EQ(description->spec.model_label, "model 1");
  EXPECT_EQ(description->spec.key_namespace, root_.key_namespace);
  EXPECT_EQ(layouts_of(description->spec), layouts_);
}

TEST_F(StoreFilesTest, DamagedDescriptionsAreRefused) {
  const std::string text = encode_root_description(root_);
  const auto read = [&](std::string damaged) {
    fs_.live().write_bytes("/root.cairn", as_bytes(damaged));
    return read_root_description(fs_, "/root.cairn").status().code();
  };
  EXPECT_EQ(read(text), StatusCode::kOk);
  EXPECT_EQ(read(text.substr(0, text.size() / 2)), StatusCode::kCorruption);
  EXPECT_EQ(read("[]"), StatusCode::kCorruption);
  EXPECT_EQ(read("{}"), StatusCode::kCorruption);
  EXPECT_EQ(read("{\"version\":2}"), StatusCode::kUnsupported);
  std::string other = text;
  other.replace(other.find("test-1"), 6, "test-2");
  EXPECT_EQ(read(other), StatusCode::kCorruption);
  other = text;
  other.replace(other.find("\"full\""), 6, "\"half\"");
  EXPECT_EQ(read(other), StatusCode::kUnsupported);
}

// --- The machine's own file system --------------------------------------------------------------

class PosixStoreTest : public StoreFilesTest {
 protected:
  PosixStoreTest() {
    char name[] = "/tmp/cairn-store-XXXXXX";
    folder_ = ::mkdtemp(name);
  }

  ~PosixStoreTest() override {
    files_.reset();
    std::filesystem::remove_all(folder_);
  }

  static mode_t mode_of(const std::string& path) {
    struct stat st {};

    EXPECT_EQ(::stat(path.c_str(), &st), 0) << path;
    return st.st_mode & 0777U;
  }

  std::string folder_;
};

TEST_F(PosixStoreTest, EveryEngineReadsWhatWasWritten) {
  const RootSpec aligned = make_root(2, {aligned_layout(4)});
  const TestObject run = make_run(aligned, root_key(aligned), 8, 1);
  int n_store = 0;
  for (const IoEngine engine :
       {IoEngine::kInline, IoEngine::kThreads, IoEngine::kUring, IoEngine::kAuto}) {
    for (const bool direct_io : {true, false}) {
      const StoreOptions options{.directory = fmt::format("{}/{}", folder_, ++n_store),
                                 .io_engine = engine,
                                 .direct_io = direct_io};
      files_.reset();
      auto opened = StoreFiles::open(posix_file_system(), clock_, options, &report_);
      if (opened.status().code() == StatusCode::kUnsupported) continue;  // no io_uring here
      ASSERT_TRUE(opened.is_ok()) << opened.status().to_string();
      files_ = std::move(opened).value();
      write_all();
      ASSERT_TRUE(files_->write_object(run.source).is_ok());
      ASSERT_TRUE(files_->sync().is_ok());
      for (const TestObject& object : objects_) {
        EXPECT_TRUE(read_and_compare(*files_, object.entry, layouts_).is_ok());
      }
      EXPECT_TRUE(read_and_compare(*files_, run.entry, layouts_of(aligned)).is_ok());
    }
  }
}

TEST_F(PosixStoreTest, OnlyTheOwnerMayLook) {
  files_ = open_store(posix_file_system(), clock_, &report_, {.directory = folder_ + "/s"});
  write_all();
  ASSERT_TRUE(files_->describe_root(root_).is_ok());
  ASSERT_TRUE(files_->quarantine(objects_[2].entry, "test").is_ok());
  size_t n_seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ + "/s")) {
    EXPECT_EQ(mode_of(entry.path()), entry.is_directory() ? 0700U : 0600U) << entry.path();
    ++n_seen;
  }
  EXPECT_GT(n_seen, 8U);
  EXPECT_EQ(mode_of(folder_ + "/s"), 0700U);
}

TEST_F(PosixStoreTest, AnUnusableFolderIsAnErrorNotACrash) {
  std::filesystem::create_directories(folder_ + "/x");
  const std::string file = folder_ + "/x/file";
  ASSERT_TRUE(write_file_atomically(posix_file_system(), file, as_bytes("no folder")).is_ok());
  EXPECT_FALSE(
      StoreFiles::open(posix_file_system(), clock_, {.directory = file}, &report_).is_ok());
  EXPECT_FALSE(
      StoreFiles::open(posix_file_system(), clock_, {.directory = "/proc/no/such"}, &report_)
          .is_ok());
}

// A store's folder may be one that people use for other things as well.
TEST(StoreFilesOnDisk, NeverRemovesFilesThatAreNotItsOwn) {
  const TempFolder folder;
  const FakeClock clock;
  const auto put = [&](const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path(folder.file(name)).parent_path());
    std::ofstream(folder.file(name)) << "keep";
    return folder.file(name);
  };
  const std::vector<std::string> foreign = {
      put("tmp/thesis.odt"), put("paper.tmp"), put("tmp/1.txt")};
  const std::string ours = put("tmp/7." + std::string(64, 'a'));
  StoreOptions options;
  options.directory = folder.path();
  OpenReport report;
  const auto files = StoreFiles::open(posix_file_system(), clock, options, &report);
  ASSERT_TRUE(files.is_ok()) << files.status().to_string();
  for (const std::string& path : foreign) EXPECT_TRUE(std::filesystem::exists(path)) << path;
  EXPECT_FALSE(std::filesystem::exists(ours));
  EXPECT_EQ(report.n_temp_removed, 1U);
}

TEST(StoreFilesOnDisk, RefusesATempFolderThatIsALink) {
  const TempFolder folder;
  const TempFolder victim;
  const FakeClock clock;
  std::ofstream(victim.file("7." + std::string(64, 'a'))) << "keep";
  std::filesystem::create_directory_symlink(victim.path(), folder.file("tmp"));
  StoreOptions options;
  options.directory = folder.path();
  OpenReport report;
  const auto files = StoreFiles::open(posix_file_system(), clock, options, &report);
  ASSERT_FALSE(files.is_ok());
  EXPECT_EQ(files.status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::exists(victim.file("7." + std::string(64, 'a'))));
}

}  // namespace
}  // namespace cairn
