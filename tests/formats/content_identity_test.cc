#include "formats/content_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/log.h"
#include "formats/test_files.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

// The machine's files, an hour older than they are (so that they count as settled), and a count of
// the reads of weight files.
class AgedFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options) override {
    CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file, real_.open(path, options));
    if (path.ends_with(".bin")) ++n_weight_opens;
    return std::unique_ptr<File>(std::make_unique<AgedFile>(std::move(file), *this));
  }

  Status rename(const std::string& from, const std::string& to) override {
    return real_.rename(from, to);
  }

  Status remove(const std::string& path) override { return real_.remove(path); }

  Status make_directories(const std::string& path, int permissions) override {
    return real_.make_directories(path, permissions);
  }

  Result<std::vector<DirEntry>> list(const std::string& path) override { return real_.list(path); }

  Result<FileStat> stat(const std::string& path) override { return aged(real_.stat(path)); }

  Status sync_directory(const std::string& path) override { return real_.sync_directory(path); }

  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    return real_.lock(path);
  }

  int n_weight_opens = 0;
  int64_t age_ns = 3'600'000'000'000;
  bool touch_after_open = false;  // an open file shows another mtime than its path did

 private:
  class AgedFile final : public File {
   public:
    AgedFile(std::unique_ptr<File> file, AgedFileSystem& owner)
        : file_(std::move(file)), owner_(owner) {}

    Status read_at(uint64_t offset, std::span<std::byte> out) override {
      return file_->read_at(offset, out);
    }

    Status write_at(uint64_t offset, std::span<const std::span<const std::byte>> parts) override {
      return file_->write_at(offset, parts);
    }

    Status append(std::span<const std::byte> bytes) override { return file_->append(bytes); }

    Status truncate(uint64_t size_bytes) override { return file_->truncate(size_bytes); }

    Status sync() override { return file_->sync(); }

    Result<FileStat> stat() const override {
      CAIRN_ASSIGN_OR_RETURN(FileStat stat, owner_.aged(file_->stat()));
      if (owner_.touch_after_open) ++stat.mtime_ns;
      return stat;
    }

    bool is_direct() const override { return file_->is_direct(); }

    int native_fd() const override { return file_->native_fd(); }

   private:
    std::unique_ptr<File> file_;
    AgedFileSystem& owner_;
  };

  Result<FileStat> aged(Result<FileStat> stat) const {
    if (!stat.is_ok()) return stat;
    stat->mtime_ns -= age_ns;
    stat->ctime_ns -= age_ns;
    return stat;
  }

  FileSystem& real_ = posix_file_system();
};

Digest identity(FileSystem& fs,
                const std::vector<std::string>& files,
                const std::string& cache_dir = "",
                unsigned n_threads = 0) {
  const auto digest = content_identity(fs, files, cache_dir, n_threads);
  EXPECT_TRUE(digest.is_ok()) << digest.status().to_string();
  return digest.is_ok() ? *digest : Digest{};
}

// Three blocks, the last one short.
std::string weights() {
  std::string bytes(2 * kIdentityBlockBytes + 1000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i ^ (i >> 9) ^ (i >> 22));
  return bytes;
}

TEST(ContentIdentity, AnyChangedByteChangesIt) {
  const TempFolder folder;
  const std::string path = folder / "w.bin";
  const std::string bytes = weights();
  write_text(path, bytes);
  const Digest before = identity(posix_file_system(), {path});
  for (const uint64_t at :
       {uint64_t{0}, kIdentityBlockBytes - 1, kIdentityBlockBytes, uint64_t{bytes.size() - 1}}) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    write_text(path, changed);
    EXPECT_NE(identity(posix_file_system(), {path}), before) << at;
  }
  write_text(path, bytes.substr(0, bytes.size() - 1));
  EXPECT_NE(identity(posix_file_system(), {path}), before);
  write_text(path, bytes);
  EXPECT_EQ(identity(posix_file_system(), {path}), before);
}

TEST(ContentIdentity, BlocksMayNotTradePlaces) {
  const TempFolder folder;
  const std::string path = folder / "w.bin";
  const std::string bytes = weights();
  write_text(path, bytes);
  const Digest before = identity(posix_file_system(), {path});
  const std::string a = bytes.substr(0, kIdentityBlockBytes);
  const std::string b = bytes.substr(kIdentityBlockBytes, kIdentityBlockBytes);
  ASSERT_TRUE(a != b);
  write_text(path, b + a + bytes.substr(2 * kIdentityBlockBytes));
  EXPECT_NE(identity(posix_file_system(), {path}), before);
}

TEST(ContentIdentity, ThreadsAndFoldersAndTheOrderOfFilesDoNotMatter) {
  const TempFolder one;
  const TempFolder two;
  for (const TempFolder* folder : {&one, &two}) {
    write_text(*folder / "w.bin", weights());
    write_text(*folder / "x.bin", "second shard");
  }
  const Digest digest = identity(posix_file_system(), {one / "w.bin", one / "x.bin"}, "", 1);
  EXPECT_EQ(identity(posix_file_system(), {two / "x.bin", two / "w.bin"}, "", 3), digest);
}

TEST(ContentIdentity, NamesAndBoundariesCount) {
  const TempFolder folder;
  write_text(folder / "a.bin", "12");
  write_text(folder / "b.bin", "3");
  write_text(folder / "c.bin", "1");
  write_text(folder / "d.bin", "23");
  write_text(folder / "e.bin", "12");
  FileSystem& fs = posix_file_system();
  EXPECT_NE(identity(fs, {folder / "a.bin", folder / "b.bin"}),
            identity(fs, {folder / "c.bin", folder / "d.bin"}));
  EXPECT_NE(identity(fs, {folder / "a.bin"}), identity(fs, {folder / "e.bin"}));
}

TEST(ContentIdentity, IsRememberedAndForgottenWithAnyDifference) {
  const TempFolder folder;
  const TempFolder cache;
  const std::string path = folder / "w.bin";
  write_text(path, "weights");
  AgedFileSystem fs;
  const std::string cache_dir = cache / "identities";
  const Digest digest = identity(fs, {path}, cache_dir);
  EXPECT_EQ(fs.n_weight_opens, 1);
  EXPECT_EQ(identity(fs, {path}, cache_dir), digest);
  EXPECT_EQ(fs.n_weight_opens, 1);  // not read again
  ++fs.age_ns;                      // other times: hashed again
  EXPECT_EQ(identity(fs, {path}, cache_dir), digest);
  EXPECT_EQ(fs.n_weight_opens, 2);
  write_text(path, "Weights");  // same size and inode; times and content differ
  EXPECT_NE(identity(fs, {path}, cache_dir), digest);
  EXPECT_EQ(fs.n_weight_opens, 3);
}

TEST(ContentIdentity, ADamagedRecordIsHashedAgain) {
  const TempFolder folder;
  const TempFolder cache;
  const std::string path = folder / "w.bin";
  write_text(path, "weights");
  AgedFileSystem fs;
  const Digest digest = identity(fs, {path}, cache.path());
  std::string record;
  for (const auto& entry : std::filesystem::directory_iterator(cache.path())) {
    record = entry.path().string();
  }
  const std::string good = read_all(record);
  for (const std::string& bad :
       {std::string(), good.substr(0, good.size() - 1), good + "x", "x" + good}) {
    write_text(record, bad);
    const int n_before = fs.n_weight_opens;
    EXPECT_EQ(identity(fs, {path}, cache.path()), digest);
    EXPECT_EQ(fs.n_weight_opens, n_before + 1);
    EXPECT_EQ(read_all(record), good);  // written anew
  }
}

TEST(ContentIdentity, AFreshFileIsNotRemembered) {
  const TempFolder folder;
  const TempFolder cache;
  const std::string path = folder / "w.bin";
  write_text(path, "weights");
  AgedFileSystem fs;
  fs.age_ns = 0;
  identity(fs, {path}, cache.path());
  identity(fs, {path}, cache.path());
  EXPECT_EQ(fs.n_weight_opens, 2);
}

TEST(ContentIdentity, AnUnusableMemoryCostsOnlyTime) {
  const TempFolder folder;
  const std::string path = folder / "w.bin";
  write_text(path, "weights");
  write_text(folder / "file", "in the way");
  AgedFileSystem fs;
  set_log_level(LogLevel::kOff);  // the warning is meant, and tests are silent
  EXPECT_EQ(identity(fs, {path}, folder / "file/cache"), identity(fs, {path}));
  set_log_level(LogLevel::kInfo);
  EXPECT_EQ(fs.n_weight_opens, 2);
}

TEST(ContentIdentity, AFileThatChangesMeanwhileIsRefused) {
  const TempFolder folder;
  write_text(folder / "w.bin", "weights");
  AgedFileSystem fs;
  fs.touch_after_open = true;
  const auto digest = content_identity(fs, {folder / "w.bin"}, "");
  EXPECT_EQ(digest.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(digest.status().message(), HasSubstr("changed"));
}

TEST(ContentIdentity, RefusesNoFilesMissingFilesAndEqualNames) {
  const TempFolder folder;
  FileSystem& fs = posix_file_system();
  EXPECT_EQ(content_identity(fs, {}, "").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(content_identity(fs, {folder / "no"}, "").status().code(), StatusCode::kNotFound);
  std::filesystem::create_directories(folder / "sub");
  write_text(folder / "w.bin", "1");
  write_text(folder / "sub/w.bin", "2");
  EXPECT_EQ(content_identity(fs, {folder / "w.bin", folder / "sub/w.bin"}, "").status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ContentIdentity, AnEmptyFileHasOne) {
  const TempFolder folder;
  write_text(folder / "w.bin", "");
  EXPECT_NE(identity(posix_file_system(), {folder / "w.bin"}), Digest{});
}

TEST(ContentIdentity, RecordsReadBackOnlyForTheSameState) {
  const FileStat stat{.size_bytes = 5, .device = 1, .inode = 2, .mtime_ns = 3, .ctime_ns = 4};
  const Digest digest = sha256(as_bytes("x"));
  const std::string record = format_identity_record(stat, digest);
  EXPECT_EQ(parse_identity_record(record, stat), digest);
  for (int field = 0; field < 5; ++field) {
    FileStat other = stat;
    other.size_bytes += field == 0 ? 1 : 0;
    other.device += field == 1 ? 1 : 0;
    other.inode += field == 2 ? 1 : 0;
    other.mtime_ns += field == 3 ? 1 : 0;
    other.ctime_ns += field == 4 ? 1 : 0;
    EXPECT_FALSE(parse_identity_record(record, other).has_value()) << field;
  }
}

}  // namespace
}  // namespace cairn
