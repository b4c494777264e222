// Sealed stores: what is written under a key says nothing without it, and every changed byte shows.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "base/coding.h"
#include "base/log.h"
#include "store/cache_fixture.h"
#include "store/index_log.h"
#include "store/store_fixture.h"
#include "store/store_key.h"
#include "support/memory_file_system.h"
#include "support/temp_folder.h"

namespace cairn::test {
namespace {

std::shared_ptr<const StoreKey> key_of(std::string_view secret) {
  return std::make_shared<const StoreKey>(sha256(as_bytes(secret)));
}

// A run of aligned pages, one of odd ones, and a leaf behind it.
class SealTest : public ::testing::Test {
 protected:
  SealTest() {
    set_log_level(LogLevel::kOff);
    objects_.push_back(make_run(aligned_, root_key(aligned_), 3, 1));
    objects_.push_back(make_run(odd_, root_key(odd_), 2, 2));
    objects_.push_back(make_leaf(odd_, objects_[1].key(), 21, 3));
  }

  ~SealTest() override { set_log_level(LogLevel::kInfo); }

  SealTest(const SealTest&) = delete;
  SealTest& operator=(const SealTest&) = delete;
  SealTest(SealTest&&) = delete;
  SealTest& operator=(SealTest&&) = delete;

  std::vector<PageLayout> layouts(size_t object_idx) const {
    return layouts_of(object_idx == 0 ? aligned_ : odd_);
  }

  void open(FileSystem& fs, std::shared_ptr<const StoreKey> key, const std::string& dir = kStore) {
    files_.reset();
    files_ = open_store(fs, clock_, &report_, {.directory = dir, .key = std::move(key)});
  }

  void write_all() {
    for (const RootSpec* root : {&aligned_, &odd_}) {
      ASSERT_TRUE(files_->describe_root(*root).is_ok());
    }
    for (const TestObject& object : objects_) {
      ASSERT_TRUE(files_->write_object(object.source).is_ok());
    }
    ASSERT_TRUE(files_->sync().is_ok());
  }

  void expect_all_readable() {
    ASSERT_EQ(report_.objects.size(), objects_.size());
    for (size_t i = 0; i < objects_.size(); ++i) {
      const ObjectEntry* entry = find_entry(report_, objects_[i].key());
      ASSERT_NE(entry, nullptr);
      const Status status = read_and_compare(*files_, *entry, layouts(i));
      EXPECT_TRUE(status.is_ok()) << status.to_string();
    }
  }

  FakeClock clock_;
  const RootSpec aligned_ = make_root(1, {aligned_layout(2)});
  const RootSpec odd_ = make_root(2, {odd_layout(3), odd_layout(1)});
  std::vector<TestObject> objects_;
  OpenReport report_;
  std::unique_ptr<StoreFiles> files_;
};

TEST_F(SealTest, WhatIsSealedIsReadBackAndSurvivesReopening) {
  MemoryFileSystem fs;
  open(fs, key_of("a"));
  write_all();
  open(fs, key_of("a"));
  EXPECT_FALSE(report_.index_was_rebuilt);
  EXPECT_EQ(report_.n_bad_records, 0U);
  expect_all_readable();
  EXPECT_TRUE(files_
                  ->verify_all([](const std::string& path, const Status& status) {
                    EXPECT_TRUE(status.is_ok()) << path << ": " << status.to_string();
                  })
                  .is_ok());
}

TEST_F(SealTest, OnARealDiskDirectAndBuffered) {
  const TempFolder folder;
  for (const bool direct_io : {true, false}) {
    files_.reset();
    files_ = open_store(posix_file_system(),
                        clock_,
                        &report_,
                        {.directory = folder.file(direct_io ? "d" : "b"),
                         .direct_io = direct_io,
                         .key = key_of("a")});
    write_all();
    for (size_t i = 0; i < objects_.size(); ++i)
      EXPECT_TRUE(read_and_compare(*files_, objects_[i].entry, layouts(i)).is_ok());
  }
}

TEST_F(SealTest, ALostLogIsRebuiltFromSealedHeaders) {
  MemoryFileSystem fs;
  open(fs, key_of("a"));
  write_all();
  files_.reset();
  for (const std::string& path : fs.all_files()) {
    if (!path.ends_with(".log")) continue;
    ASSERT_TRUE(fs.remove(path).is_ok());
  }
  open(fs, key_of("a"));
  EXPECT_TRUE(report_.index_was_rebuilt);
  expect_all_readable();
}

TEST_F(SealTest, NothingInTheFolderTellsWhatIsInIt) {
  MemoryFileSystem fs;
  open(fs, key_of("a"));
  write_all();
  ASSERT_TRUE(files_->record_use(std::vector<PageKey>{objects_[0].key()}, 5).is_ok());
  std::vector<std::vector<std::byte>> secrets;
  const auto add = [&](std::span<const std::byte> bytes) {
    secrets.emplace_back(bytes.begin(), bytes.end());
  };
  for (const TestObject& object : objects_) {
    for (const PageRecord& page : object.source.pages) {
      add(page.key.bytes);
      add(std::as_bytes(std::span(page.tokens)).first(16));
    }
    add(object.source.root.bytes);
    add(std::span(object.source.bytes[0][0], 16));  // rows
  }
  for (const std::string& path : fs.all_files()) {
    const std::vector<std::byte> bytes = fs.read_bytes(path);
    for (const auto& secret : secrets) {
      EXPECT_EQ(std::search(bytes.begin(), bytes.end(), secret.begin(), secret.end()), bytes.end())
          << path;
      Digest as_key;
      std::copy_n(
          secret.begin(), std::min(secret.size(), as_key.bytes.size()), as_key.bytes.begin());
      EXPECT_EQ(path.find(to_hex(as_key).substr(0, 32)), std::string::npos) << path;
    }
    EXPECT_EQ(path.find("root.cairn"), std::string::npos);
  }
}

TEST_F(SealTest, TheSameBytesAreSealedDifferentlyEachTime) {
  MemoryFileSystem fs;
  open(fs, key_of("a"));
  write_all();
  const std::string path =
      files_->object_path(objects_[0].entry.root, ObjectKind::kRun, objects_[0].key());
  const std::vector<std::byte> first = fs.read_bytes(path);
  ASSERT_TRUE(files_->write_object(objects_[0].source).is_ok());
  const std::vector<std::byte> second = fs.read_bytes(path);
  ASSERT_EQ(first.size(), second.size());
  size_t n_equal = 0;
  for (size_t i = kHeaderBlockBytes; i < first.size(); ++i)
    n_equal += first[i] == second[i] ? 1 : 0;
  EXPECT_LT(n_equal, first.size() / 64);  // by chance 1 in 256
}

TEST_F(SealTest, EveryFlippedByteIsRefused) {
  MemoryFileSystem fs;
  open(fs, key_of("a"));
  const RootSpec tiny = make_root(3, {odd_layout(1, 16)});
  const TestObject leaf = make_leaf(tiny, root_key(tiny), 5, 9);
  ASSERT_TRUE(files_->write_object(leaf.source).is_ok());
  const std::string path = files_->object_path(leaf.entry.root, ObjectKind::kLeaf, leaf.key());
  const size_t n = fs.read_bytes(path).size();
  ASSERT_TRUE(read_and_compare(*files_, leaf.entry, layouts_of(tiny)).is_ok());
  for (size_t i = 0; i < n; ++i) {
    fs.flip_bits(path, i, std::byte{0x10});
    const StatusCode code = read_and_compare(*files_, leaf.entry, layouts_of(tiny)).code();
    // Another format version is left alone, as in a store without a key.
    ASSERT_TRUE(code == StatusCode::kCorruption || (code == StatusCode::kUnsupported && i < 12))
        << "byte " << i << " of " << n;
    fs.flip_bits(path, i, std::byte{0x10});
  }
}

TEST_F(SealTest, LayersCannotChangePlaces) {
  MemoryFileSystem fs;
  open(fs, key_of("a"));
  write_all();
  const std::string path =
      files_->object_path(objects_[0].entry.root, ObjectKind::kRun, objects_[0].key());
  std::vector<std::byte> bytes = fs.read_bytes(path);
  const size_t layer_bytes = aligned_layout(2).layer_bytes();
  const size_t at = bytes.size() - 2 * layer_bytes;
  std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                   bytes.begin() + static_cast<std::ptrdiff_t>(at + layer_bytes),
                   bytes.begin() + static_cast<std::ptrdiff_t>(at + layer_bytes));
  fs.write_bytes(path, bytes);
  EXPECT_EQ(read_and_compare(*files_, objects_[0].entry, layouts(0)).code(),
            StatusCode::kCorruption);
}

// Left alone, counted, not served; and there again for who has the key.
TEST_F(SealTest, AnotherKeysObjectsAreLeftAlone) {
  const std::shared_ptr<const StoreKey> keys[] = {nullptr, key_of("a"), key_of("b")};
  for (const auto& writer : keys) {
    for (const auto& reader : keys) {
      if (writer == reader) continue;
      MemoryFileSystem fs;
      open(fs, writer);
      write_all();
      const uint64_t total_bytes = fs.total_bytes();
      open(fs, reader);
      EXPECT_TRUE(report_.objects.empty());
      EXPECT_EQ(report_.n_unknown_version, objects_.size());
      EXPECT_EQ(report_.n_quarantined, 0U);
      EXPECT_FALSE(report_.index_was_rebuilt);
      EXPECT_GE(report_.total_bytes, total_bytes);
      EXPECT_FALSE(read_and_compare(*files_, objects_[0].entry, layouts(0)).is_ok());
      // Both live beside each other.
      ASSERT_TRUE(files_->write_object(objects_[0].source).is_ok());
      open(fs, writer);
      EXPECT_FALSE(report_.index_was_rebuilt);
      expect_all_readable();
      open(fs, reader);
      ASSERT_EQ(report_.objects.size(), 1U);
      EXPECT_TRUE(read_and_compare(*files_, report_.objects[0], layouts(0)).is_ok());
    }
  }
}

TEST_F(SealTest, ADamagedRecordOfASealedLogCostsNoObject) {
  MemoryFileSystem fs;
  open(fs, key_of("a"));
  write_all();
  files_.reset();
  for (const std::string& path : fs.all_files()) {
    if (path.ends_with(".log")) fs.flip_bits(path, 100, std::byte{1});
  }
  open(fs, key_of("a"));
  EXPECT_EQ(report_.n_bad_records, 1U);
  expect_all_readable();
  open(fs, key_of("a"));  // written anew, sealed again
  EXPECT_EQ(report_.n_bad_records, 0U);
  expect_all_readable();
}

TEST_F(SealTest, RecordsOpenOnlyUnderTheirKey) {
  MemoryFileSystem fs;
  const auto key = key_of("a");
  auto log = IndexLog::open(fs, "/log", key.get());
  ASSERT_TRUE(log.is_ok());
  ASSERT_TRUE((*log)->append(encode_add_record(objects_[0].entry)).is_ok());
  ASSERT_TRUE((*log)->append(encode_synced_record()).is_ok());
  const std::vector<std::byte> bytes = fs.read_bytes("/log");
  EXPECT_EQ(bytes.size(), (*log)->size_bytes());
  EXPECT_EQ(scan_index_log(bytes, key.get()).objects.size(), 1U);
  EXPECT_TRUE(scan_index_log(bytes, key.get()).objects[0].is_synced);
  EXPECT_EQ(scan_index_log(bytes, key_of("b").get()).n_bad_records, 2U);
  EXPECT_TRUE(scan_index_log(bytes).objects.empty());
  // A record that was not sealed is not believed.
  fs.write_bytes("/plain", encode_index_header());
  auto plain = IndexLog::open(fs, "/plain");
  ASSERT_TRUE((*plain)->append(encode_add_record(objects_[0].entry)).is_ok());
  EXPECT_TRUE(scan_index_log(fs.read_bytes("/plain"), key.get()).objects.empty());
}

TEST(StoreKeyFile, IsReadAndChecked) {
  const TempFolder folder;
  const auto write = [&](const std::string& name, const std::string& text, mode_t mode) {
    std::ofstream(folder.file(name)) << text;
    EXPECT_EQ(::chmod(folder.file(name).c_str(), mode), 0);
    return StoreKey::read(folder.file(name));
  };
  const std::string raw(32, 'k');
  const auto binary = write("binary", raw, 0600);
  ASSERT_TRUE(binary.is_ok()) << binary.status().to_string();
  std::string hex;
  for (int i = 0; i < 32; ++i) hex += "6b";
  EXPECT_EQ(write("hex", hex + "\n", 0400).value().id(), binary->id());
  EXPECT_NE(write("other", std::string(32, 'l'), 0600).value().id(), binary->id());
  for (const mode_t mode : {0640U, 0604U, 0660U})
    EXPECT_EQ(write("open", raw, mode).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(write("short", "short", 0600).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(StoreKey::read(folder.file("absent")).status().code(), StatusCode::kNotFound);
}

TEST(StoreKeyFile, NamesAndIdsTellNothingOfTheKeyAndDiffer) {
  const StoreKey a(sha256(as_bytes("a")));
  const StoreKey b(sha256(as_bytes("b")));
  std::set<Digest> names;
  for (const char* text : {"x", "y"}) {
    const Digest key = sha256(as_bytes(text));
    names.insert({key, a.disk_name(key), b.disk_name(key)});
    EXPECT_EQ(a.disk_name(key), StoreKey(sha256(as_bytes("a"))).disk_name(key));
  }
  EXPECT_EQ(names.size(), 6U);
  EXPECT_NE(a.id(), b.id());
}

// The whole cache over a sealed store.
TEST(TieredCacheSealed, RestoresForgetsAndRecomputesWhatIsDamaged) {
  MemoryFileSystem fs;
  testing::CacheFixture f;
  f.set_key(key_of("a"));
  f.attach(fs);
  const testing::Ids ids = testing::ids_from(1, 75);
  f.run(ids);
  EXPECT_TRUE(f.flush().status.is_ok());
  f.restart(fs);
  EXPECT_EQ(f.run(ids), 74U);
  f.set_key(nullptr);
  f.restart(fs);
  EXPECT_EQ(f.run(ids, {.persist = false}), 0U);
  EXPECT_EQ(f.stats().quarantined, 0U);
  EXPECT_EQ(f.stats().left_alone, 2U);
  f.set_key(key_of("a"));
  for (const std::string& path : fs.all_files()) {
    if (path.ends_with(".leaf")) fs.flip_bits(path, fs.read_bytes(path).size() - 1, std::byte{1});
  }
  f.restart(fs);
  EXPECT_EQ(f.run(ids), 64U);
  EXPECT_EQ(f.stats().quarantined, 1U);
  std::optional<ForgetReport> report;
  f.cache().forget(f.root(), {}, [&](ForgetReport r) { report = std::move(r); });
  f.settle();
  f.cache().poll();
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->status.is_ok()) << report->status.message();
  for (const std::string& path : fs.all_files())
    EXPECT_TRUE(path.ends_with(".log") || path.ends_with("/lock")) << path;
}

}  // namespace
}  // namespace cairn::test
