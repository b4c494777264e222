#include "support/recording_file_system.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/coding.h"

namespace cairn {
namespace {

std::string text_of(const MemoryFileSystem& disk, const std::string& path) {
  if (!disk.exists(path)) return "(missing)";
  const auto bytes = disk.read_bytes(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Recording : public testing::Test {
 protected:
  Recording() {
    EXPECT_TRUE(prepared_.make_directories("/s").is_ok());
    prepared_.write_bytes("/s/old", as_bytes("old bytes"));
    fs_ = std::make_unique<RecordingFileSystem>(prepared_);
  }

  std::unique_ptr<File> open(const std::string& path, FileMode mode = FileMode::kWrite) {
    return fs_->open(path, {.mode = mode}).value();
  }

  std::unique_ptr<MemoryFileSystem> crash(CrashMode mode, uint64_t seed = 1) const {
    return fs_->crash_state(fs_->n_operations(), mode, seed);
  }

  MemoryFileSystem prepared_;
  std::unique_ptr<RecordingFileSystem> fs_;
};

TEST_F(Recording, WhatWasThereAtTheStartIsSafe) {
  const auto disk = crash(CrashMode::kDropUnsynced);
  EXPECT_EQ(text_of(*disk, "/s/old"), "old bytes");
  EXPECT_EQ(fs_->n_operations(), 0U);
}

TEST_F(Recording, UnsyncedDataAndNamesAreLost) {
  const auto file = open("/s/new");
  ASSERT_TRUE(file->write_at(0, as_bytes("data")).is_ok());
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/new"), "(missing)");
  EXPECT_EQ(text_of(*crash(CrashMode::kKeepAll), "/s/new"), "data");
  EXPECT_EQ(text_of(*crash(CrashMode::kNamesWithoutData), "/s/new"), "");
  EXPECT_EQ(text_of(*crash(CrashMode::kDataWithoutNames), "/s/new"), "(missing)");
}

TEST_F(Recording, SyncingAFileDoesNotSaveItsName) {
  const auto file = open("/s/new");
  ASSERT_TRUE(file->write_at(0, as_bytes("data")).is_ok());
  ASSERT_TRUE(file->sync().is_ok());
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/new"), "(missing)");
  EXPECT_EQ(text_of(*crash(CrashMode::kNamesWithoutData), "/s/new"), "data");
  ASSERT_TRUE(fs_->sync_directory("/s").is_ok());
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/new"), "data");
}

TEST_F(Recording, SyncingTheFolderDoesNotSaveTheData) {
  const auto file = open("/s/new");
  ASSERT_TRUE(file->write_at(0, as_bytes("data")).is_ok());
  ASSERT_TRUE(fs_->sync_directory("/s").is_ok());
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/new"), "");
}

TEST_F(Recording, OnlyDataBeforeTheSyncIsSafe) {
  const auto file = open("/s/log", FileMode::kAppend);
  ASSERT_TRUE(fs_->sync_directory("/s").is_ok());
  ASSERT_TRUE(file->append(as_bytes("one")).is_ok());
  ASSERT_TRUE(file->sync().is_ok());
  ASSERT_TRUE(file->append(as_bytes("two")).is_ok());
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/log"), "one");
  EXPECT_EQ(text_of(*crash(CrashMode::kKeepAll), "/s/log"), "onetwo");
}

TEST_F(Recording, AnUnsyncedRenameMayLeaveEitherName) {
  const auto file = open("/s/tmp");
  ASSERT_TRUE(file->write_at(0, as_bytes("new")).is_ok());
  ASSERT_TRUE(file->sync().is_ok());
  ASSERT_TRUE(fs_->sync_directory("/s").is_ok());
  ASSERT_TRUE(fs_->rename("/s/tmp", "/s/old").is_ok());
  auto dropped = crash(CrashMode::kDropUnsynced);
  EXPECT_EQ(text_of(*dropped, "/s/old"), "old bytes");
  EXPECT_EQ(text_of(*dropped, "/s/tmp"), "new");
  auto kept = crash(CrashMode::kNamesWithoutData);
  EXPECT_EQ(text_of(*kept, "/s/old"), "new");
  EXPECT_EQ(text_of(*kept, "/s/tmp"), "(missing)");
  ASSERT_TRUE(fs_->sync_directory("/s").is_ok());
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/old"), "new");
}

TEST_F(Recording, ARenameOfUnsyncedDataShowsTheClassicMistake) {
  const auto file = open("/s/tmp");
  ASSERT_TRUE(file->write_at(0, as_bytes("new")).is_ok());
  ASSERT_TRUE(fs_->rename("/s/tmp", "/s/old").is_ok());
  ASSERT_TRUE(fs_->sync_directory("/s").is_ok());
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/old"), "") << "a name without its bytes";
}

TEST_F(Recording, AnUnsyncedRemovalMayComeBack) {
  ASSERT_TRUE(fs_->remove("/s/old").is_ok());
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/old"), "old bytes");
  EXPECT_EQ(text_of(*crash(CrashMode::kKeepAll), "/s/old"), "(missing)");
  ASSERT_TRUE(fs_->sync_directory("/s").is_ok());
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/old"), "(missing)");
}

TEST_F(Recording, AFileInALostFolderIsLost) {
  ASSERT_TRUE(fs_->make_directories("/s/a/b").is_ok());
  const auto file = open("/s/a/b/f");
  ASSERT_TRUE(file->sync().is_ok());
  ASSERT_TRUE(fs_->sync_directory("/s/a/b").is_ok());
  ASSERT_TRUE(fs_->sync_directory("/s/a").is_ok());
  EXPECT_FALSE(crash(CrashMode::kDropUnsynced)->exists("/s/a")) << "its own name was never synced";
  ASSERT_TRUE(fs_->sync_directory("/s").is_ok());
  EXPECT_TRUE(crash(CrashMode::kDropUnsynced)->exists("/s/a/b/f"));
}

TEST_F(Recording, TruncationIsDataToo) {
  open("/s/old");  // empties it
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/old"), "old bytes");
  EXPECT_EQ(text_of(*crash(CrashMode::kKeepAll), "/s/old"), "");
}

TEST_F(Recording, EveryPrefixOfTheLogCanBeRebuilt) {
  ASSERT_TRUE(write_file_atomically(*fs_, "/s/old", as_bytes("new")).is_ok());
  std::set<std::string> seen;
  for (size_t n = 0; n <= fs_->n_operations(); ++n) {
    for (const auto mode : {CrashMode::kDropUnsynced,
                            CrashMode::kKeepAll,
                            CrashMode::kNamesWithoutData,
                            CrashMode::kDataWithoutNames,
                            CrashMode::kRandom,
                            CrashMode::kTorn}) {
      for (uint64_t seed = 0; seed < 8; ++seed) {
        seen.insert(text_of(*fs_->crash_state(n, mode, seed), "/s/old"));
      }
    }
  }
  // The one thing an atomic write promises.
  EXPECT_EQ(seen, (std::set<std::string>{"new", "old bytes"}));
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/old"), "new");
}

TEST_F(Recording, TornWritesKeepWholeSectors) {
  const auto file = open("/s/f");
  ASSERT_TRUE(fs_->sync_directory("/s").is_ok());
  const std::vector<std::byte> before(4096, std::byte{1});
  const std::vector<std::byte> after(4096 - 100, std::byte{2});
  ASSERT_TRUE(file->write_at(0, before).is_ok());
  ASSERT_TRUE(file->sync().is_ok());
  ASSERT_TRUE(file->write_at(100, after).is_ok());
  size_t n_mixed = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto bytes = crash(CrashMode::kTorn, seed)->read_bytes("/s/f");
    ASSERT_EQ(bytes.size(), 4096U);
    for (size_t sector = 0; sector < 4096; sector += 512) {
      const size_t begin = std::max<size_t>(sector, 100);
      for (size_t i = begin; i < sector + 512; ++i) ASSERT_EQ(bytes[i], bytes[begin]) << i;
    }
    EXPECT_EQ(bytes[99], std::byte{1});
    const auto n_new = std::ranges::count(bytes, std::byte{2});
    if (n_new > 0 && n_new < 4096 - 100) ++n_mixed;
  }
  EXPECT_GT(n_mixed, 10U);
}

TEST_F(Recording, ASeedGivesTheSameDiskAgain) {
  const auto file = open("/s/f");
  std::vector<std::byte> bytes(5000, std::byte{3});
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(file->write_at(i * 3000, bytes).is_ok());
  bool differs = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::string first = text_of(*crash(CrashMode::kTorn, seed), "/s/f");
    EXPECT_EQ(first, text_of(*crash(CrashMode::kTorn, seed), "/s/f"));
    differs = differs || first != text_of(*crash(CrashMode::kTorn, seed + 100), "/s/f");
  }
  EXPECT_TRUE(differs);
}

TEST_F(Recording, SyncedDataSurvivesEveryMode) {
  const auto file = open("/s/f");
  ASSERT_TRUE(file->write_at(0, as_bytes("safe")).is_ok());
  ASSERT_TRUE(file->sync().is_ok());
  ASSERT_TRUE(fs_->sync_directory("/s").is_ok());
  ASSERT_TRUE(file->write_at(4, as_bytes(std::string(3000, 'x'))).is_ok());
  for (const auto mode : {CrashMode::kDropUnsynced,
                          CrashMode::kKeepAll,
                          CrashMode::kNamesWithoutData,
                          CrashMode::kDataWithoutNames,
                          CrashMode::kRandom,
                          CrashMode::kTorn}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      EXPECT_EQ(text_of(*crash(mode, seed), "/s/f").substr(0, 4), "safe");
    }
  }
}

TEST_F(Recording, ACrashedDiskCanBeRecordedAgain) {
  const auto file = open("/s/f");
  ASSERT_TRUE(file->write_at(0, as_bytes("x")).is_ok());
  const auto disk = crash(CrashMode::kKeepAll);
  const RecordingFileSystem again(*disk);
  EXPECT_EQ(text_of(*again.crash_state(0, CrashMode::kDropUnsynced, 0), "/s/f"), "x");
}

TEST_F(Recording, TheNthOperationOfAKindFails) {
  const auto file = open("/s/f");
  fs_->inject({.kind = OperationKind::kWrite, .nth = 2, .error_number = ENOSPC});
  EXPECT_TRUE(file->write_at(0, as_bytes("a")).is_ok());
  EXPECT_EQ(file->write_at(1, as_bytes("b")).code(), StatusCode::kNoSpace);
  EXPECT_TRUE(file->write_at(1, as_bytes("c")).is_ok());
  EXPECT_EQ(text_of(fs_->live(), "/s/f"), "ac");
  EXPECT_EQ(fs_->n_tried(OperationKind::kWrite), 3U);
}

TEST_F(Recording, APersistentFaultStaysUntilCleared) {
  const auto file = open("/s/f");
  fs_->inject({.kind = OperationKind::kSyncFile, .nth = 2, .persistent = true});
  EXPECT_TRUE(file->sync().is_ok());
  EXPECT_EQ(file->sync().code(), StatusCode::kIo);
  EXPECT_EQ(file->sync().code(), StatusCode::kIo);
  fs_->clear_faults();
  EXPECT_TRUE(file->sync().is_ok());
}

TEST_F(Recording, AFailedSyncSavesNothing) {
  const auto file = open("/s/f");
  ASSERT_TRUE(fs_->sync_directory("/s").is_ok());
  ASSERT_TRUE(file->write_at(0, as_bytes("data")).is_ok());
  fs_->inject({.kind = OperationKind::kSyncFile});
  EXPECT_FALSE(file->sync().is_ok());
  EXPECT_EQ(text_of(*crash(CrashMode::kDropUnsynced), "/s/f"), "");
}

TEST_F(Recording, APartialWriteLeavesItsFront) {
  const auto file = open("/s/log", FileMode::kAppend);
  fs_->inject({.kind = OperationKind::kAppend, .partial = true});
  EXPECT_EQ(file->append(as_bytes("12345678")).code(), StatusCode::kIo);
  EXPECT_EQ(text_of(fs_->live(), "/s/log"), "1234");
  EXPECT_EQ(text_of(*crash(CrashMode::kKeepAll), "/s/log"), "1234");
}

TEST_F(Recording, EveryKindCanFail) {
  const auto file = open("/s/f");
  std::byte one{};
  const auto struck = [&](OperationKind kind, const auto& act) {
    fs_->inject({.kind = kind});
    EXPECT_EQ(act().code(), StatusCode::kIo) << static_cast<int>(kind);
  };
  struck(OperationKind::kOpen, [&] { return fs_->open("/s/f", {}).status(); });
  struck(OperationKind::kCreate,
         [&] { return fs_->open("/s/g", {.mode = FileMode::kWrite}).status(); });
  struck(OperationKind::kRead, [&] { return file->read_at(0, {&one, 1}); });
  struck(OperationKind::kTruncate, [&] { return file->truncate(0); });
  struck(OperationKind::kRename, [&] { return fs_->rename("/s/f", "/s/h"); });
  struck(OperationKind::kRemove, [&] { return fs_->remove("/s/f"); });
  struck(OperationKind::kMakeDirectory, [&] { return fs_->make_directories("/s/d"); });
  struck(OperationKind::kList, [&] { return fs_->list("/s").status(); });
  struck(OperationKind::kStat, [&] { return fs_->stat("/s").status(); });
  struck(OperationKind::kSyncDirectory, [&] { return fs_->sync_directory("/s"); });
  struck(OperationKind::kLock, [&] { return fs_->lock("/s/lock").status(); });
  EXPECT_EQ(fs_->n_operations(), 1U)
      << "failed operations are not logged: only the first create is";
}

TEST_F(Recording, AFileCanSeemToEndEarly) {
  const auto file = open("/s/old", FileMode::kRead);
  std::vector<std::byte> out(3);
  fs_->inject({.kind = OperationKind::kRead, .error_number = 0});
  EXPECT_EQ(file->read_at(0, out).code(), StatusCode::kCorruption);
  EXPECT_TRUE(file->read_at(0, out).is_ok());
}

TEST_F(Recording, TheDiskCanFillUp) {
  fs_->set_total_bytes_max(15);  // "old bytes" takes 9
  const auto file = open("/s/f");
  EXPECT_EQ(file->write_at(0, as_bytes("1234567890")).code(), StatusCode::kNoSpace);
  EXPECT_EQ(text_of(fs_->live(), "/s/f"), "123456") << "what fitted is there";
  EXPECT_TRUE(file->write_at(0, as_bytes("abc")).is_ok()) << "old bytes may be overwritten";
  EXPECT_FALSE(file->write_at(6, as_bytes("x")).is_ok());
  ASSERT_TRUE(fs_->remove("/s/old").is_ok());
  EXPECT_TRUE(file->write_at(6, as_bytes("x")).is_ok()) << "room was made";
}

}  // namespace
}  // namespace cairn
