#include "base/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/coding.h"
#include "base/mapping.h"
#include "support/memory_file_system.h"
#include "support/recording_file_system.h"
#include "support/temp_folder.h"

namespace cairn {
namespace {

// What every file system must do alike, the ones made for tests included.
enum class Which { kPosix, kMemory, kRecording };

class FileSystems : public testing::TestWithParam<Which> {
 protected:
  FileSystems() {
    if (GetParam() == Which::kMemory) owned_ = std::make_unique<MemoryFileSystem>();
    if (GetParam() == Which::kRecording) owned_ = std::make_unique<RecordingFileSystem>();
    if (owned_ != nullptr) CAIRN_CHECK(owned_->make_directories(folder_.path()).is_ok());
  }

  FileSystem& fs() { return owned_ != nullptr ? *owned_ : posix_file_system(); }

  std::string at(const std::string& name) const { return folder_.file(name); }

  std::unique_ptr<File> open(const std::string& name, FileMode mode) {
    auto file = fs().open(at(name), {.mode = mode});
    EXPECT_TRUE(file.is_ok()) << file.status().to_string();
    return std::move(*file);
  }

  std::string text_of(const std::string& name) {
    const auto text = read_text_file(fs(), at(name), 1 << 20);
    return text.is_ok() ? *text : text.status().to_string();
  }

  TempFolder folder_;
  std::unique_ptr<FileSystem> owned_;
};

TEST_P(FileSystems, WritesPartsAndReadsThemBack) {
  const auto file = open("a", FileMode::kWrite);
  std::vector<std::string> texts;
  std::string all;
  for (int i = 0; i < 1500; ++i) {  // more than one pwritev takes, some of them empty
    texts.push_back(i % 5 == 0 ? "" : std::to_string(i));
    all += texts.back();
  }
  std::vector<std::span<const std::byte>> parts;
  for (const auto& text : texts) parts.push_back(as_bytes(text));
  ASSERT_TRUE(file->write_at(3, parts).is_ok());
  std::vector<std::byte> back(all.size());
  ASSERT_TRUE(file->read_at(3, back).is_ok());
  EXPECT_TRUE(std::ranges::equal(back, as_bytes(all)));
  EXPECT_EQ(file->stat()->size_bytes, all.size() + 3);
  std::byte first{1};
  ASSERT_TRUE(file->read_at(0, {&first, 1}).is_ok());
  EXPECT_EQ(first, std::byte{0}) << "a hole reads as zeros";
  EXPECT_TRUE(file->sync().is_ok());
}

TEST_P(FileSystems, AShortReadIsCorruption) {
  const auto file = open("a", FileMode::kWrite);
  ASSERT_TRUE(file->write_at(0, as_bytes("12345")).is_ok());
  std::vector<std::byte> out(6);
  EXPECT_EQ(file->read_at(0, out).code(), StatusCode::kCorruption);
  EXPECT_EQ(file->read_at(5, std::span(out).first(1)).code(), StatusCode::kCorruption);
  EXPECT_TRUE(file->read_at(5, {}).is_ok());
}

TEST_P(FileSystems, WriteModeTruncatesAndAppendModeKeeps) {
  ASSERT_TRUE(open("a", FileMode::kAppend)->append(as_bytes("one")).is_ok());
  ASSERT_TRUE(open("a", FileMode::kAppend)->append(as_bytes("two")).is_ok());
  EXPECT_EQ(text_of("a"), "onetwo");
  ASSERT_TRUE(open("a", FileMode::kAppend)->truncate(4).is_ok());
  EXPECT_EQ(text_of("a"), "onet");
  open("a", FileMode::kWrite);
  EXPECT_EQ(text_of("a"), "");
}

TEST_P(FileSystems, AReadOnlyFileCannotBeWritten) {
  open("a", FileMode::kWrite);
  EXPECT_EQ(open("a", FileMode::kRead)->write_at(0, as_bytes("x")).code(), StatusCode::kIo);
  EXPECT_FALSE(open("a", FileMode::kRead)->truncate(0).is_ok());
}

TEST_P(FileSystems, MissingThingsAreNotFound) {
  EXPECT_EQ(fs().open(at("none"), {}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(fs().open(at("no/folder"), {.mode = FileMode::kWrite}).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(fs().remove(at("none")).code(), StatusCode::kNotFound);
  EXPECT_EQ(fs().rename(at("none"), at("b")).code(), StatusCode::kNotFound);
  EXPECT_EQ(fs().stat(at("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(fs().list(at("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(fs().sync_directory(at("none")).code(), StatusCode::kNotFound);
  EXPECT_NE(fs().remove(at("none")).message().find(at("none")), std::string::npos);
}

TEST_P(FileSystems, RenameReplacesInOneStep) {
  ASSERT_TRUE(open("new", FileMode::kWrite)->write_at(0, as_bytes("new")).is_ok());
  ASSERT_TRUE(open("old", FileMode::kWrite)->write_at(0, as_bytes("old")).is_ok());
  const auto reader = open("old", FileMode::kRead);
  const uint64_t inode = fs().stat(at("new"))->inode;
  ASSERT_TRUE(fs().rename(at("new"), at("old")).is_ok());
  EXPECT_EQ(text_of("old"), "new");
  EXPECT_EQ(fs().stat(at("old"))->inode, inode);
  EXPECT_EQ(fs().stat(at("new")).status().code(), StatusCode::kNotFound);
  std::vector<std::byte> bytes(3);
  ASSERT_TRUE(reader->read_at(0, bytes).is_ok());
  EXPECT_TRUE(std::ranges::equal(bytes, as_bytes("old"))) << "an open file outlives its name";
}

TEST_P(FileSystems, FoldersAreMadeListedAndRemoved) {
  ASSERT_TRUE(fs().make_directories(at("x/y/z")).is_ok());
  ASSERT_TRUE(fs().make_directories(at("x/y/z")).is_ok()) << "again is no error";
  open("x/f", FileMode::kWrite);
  auto entries = fs().list(at("x")).value();
  std::ranges::sort(entries, {}, &DirEntry::name);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, "f");
  EXPECT_FALSE(entries[0].is_directory);
  EXPECT_EQ(entries[1].name, "y");
  EXPECT_TRUE(entries[1].is_directory);
  EXPECT_TRUE(fs().stat(at("x"))->is_directory);
  EXPECT_TRUE(fs().sync_directory(at("x")).is_ok());
  EXPECT_EQ(fs().remove(at("x")).code(), StatusCode::kIo) << "not empty";
  EXPECT_TRUE(fs().remove(at("x/y/z")).is_ok());
  EXPECT_TRUE(fs().list(at("x/y"))->empty());
}

TEST_P(FileSystems, AFileInTheWayOfAFolderIsAnError) {
  open("f", FileMode::kWrite);
  EXPECT_EQ(fs().make_directories(at("f")).code(), StatusCode::kIo);
  EXPECT_EQ(fs().make_directories(at("f/g")).code(), StatusCode::kIo);
  EXPECT_FALSE(fs().list(at("f")).is_ok());
  EXPECT_FALSE(fs().open(folder_.path(), {.mode = FileMode::kWrite}).is_ok());
}

TEST_P(FileSystems, ALockHasOneHolder) {
  auto first = fs().lock(at("lock"));
  ASSERT_TRUE(first.is_ok()) << first.status().to_string();
  EXPECT_EQ(fs().lock(at("lock")).status().code(), StatusCode::kOverloaded);
  first->reset();
  EXPECT_TRUE(fs().lock(at("lock")).is_ok());
}

TEST_P(FileSystems, AtomicWritesReplaceAndLeaveNoTrace) {
  ASSERT_TRUE(write_file_atomically(fs(), at("conf"), as_bytes("one")).is_ok());
  ASSERT_TRUE(write_file_atomically(fs(), at("conf"), as_bytes("two")).is_ok());
  EXPECT_EQ(text_of("conf"), "two");
  EXPECT_EQ(fs().list(folder_.path())->size(), 1U);
  EXPECT_EQ(write_file_atomically(fs(), at("no/conf"), as_bytes("x")).code(),
            StatusCode::kNotFound);
}

TEST_P(FileSystems, TextFilesAreBounded) {
  ASSERT_TRUE(write_file_atomically(fs(), at("t"), as_bytes("12345")).is_ok());
  EXPECT_EQ(*read_text_file(fs(), at("t"), 5), "12345");
  EXPECT_EQ(read_text_file(fs(), at("t"), 4).status().code(), StatusCode::kInvalidArgument);
}

TEST_P(FileSystems, DirectFilesWorkInWholePages) {
  auto opened = fs().open(at("d"), {.mode = FileMode::kWrite, .direct = true});
  ASSERT_TRUE(opened.is_ok()) << opened.status().to_string();
  File& file = **opened;

  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };

  const std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, 12288)));
  std::fill_n(memory.get(), 12288, std::byte{5});
  const std::span<const std::byte> page(memory.get(), 4096);
  const std::vector<std::span<const std::byte>> parts = {page, page};
  ASSERT_TRUE(file.write_at(4096, parts).is_ok());
  std::fill_n(memory.get(), 12288, std::byte{6});
  ASSERT_TRUE(file.read_at(0, {memory.get(), 12288}).is_ok());
  EXPECT_EQ(memory.get()[4095], std::byte{0});
  EXPECT_EQ(memory.get()[4096], std::byte{5});
  EXPECT_EQ(memory.get()[12287], std::byte{5});
  if (file.is_direct() && GetParam() != Which::kPosix) {
    EXPECT_FALSE(file.read_at(1, {memory.get(), 4096}).is_ok()) << "misaligned callers are found";
  }
}

std::string which_name(const testing::TestParamInfo<Which>& param) {
  if (param.param == Which::kPosix) return "Posix";
  return param.param == Which::kMemory ? "Memory" : "Recording";
}

INSTANTIATE_TEST_SUITE_P(All,
                         FileSystems,
                         testing::Values(Which::kPosix, Which::kMemory, Which::kRecording),
                         which_name);

TEST(PosixFileSystem, FilesAndFoldersAreForTheirOwnerOnly) {
  const TempFolder folder;
  FileSystem& fs = posix_file_system();
  ASSERT_TRUE(fs.make_directories(folder.file("a/b")).is_ok());
  ASSERT_TRUE(fs.open(folder.file("f"), {.mode = FileMode::kWrite}).is_ok());

  struct stat st {};

  ASSERT_EQ(::stat(folder.file("a").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777U, 0700U);
  ASSERT_EQ(::stat(folder.file("f").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777U, 0600U);
}

TEST(PosixFileSystem, ALockNamesItsHolder) {
  const TempFolder folder;
  const auto held = posix_file_system().lock(folder.file("lock"));
  ASSERT_TRUE(held.is_ok());
  EXPECT_THAT(posix_file_system().lock(folder.file("lock")).status().message(),
              testing::HasSubstr("process " + std::to_string(::getpid()) + " holds it"));
}

TEST(PosixFileSystem, StatTellsWhenAFileChanged) {
  const TempFolder folder;
  ASSERT_TRUE(write_file_atomically(posix_file_system(), folder.file("a"), as_bytes("x")).is_ok());
  const auto st = posix_file_system().stat(folder.file("a"));
  ASSERT_TRUE(st.is_ok());
  EXPECT_EQ(st->size_bytes, 1U);
  EXPECT_GT(st->mtime_ns, 1'600'000'000LL * 1'000'000'000);
  EXPECT_GT(st->inode, 0U);
}

TEST(PosixFileSystem, ReadsKernelFilesThatClaimToBeEmpty) {
  const auto text = read_text_file(posix_file_system(), "/proc/self/status", 1 << 16);
  ASSERT_TRUE(text.is_ok());
  EXPECT_THAT(*text, testing::HasSubstr("Pid:"));
  EXPECT_EQ(read_text_file(posix_file_system(), "/proc/self/status", 10).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(PosixFileSystemDeathTest, AppendAndWriteNeedTheirMode) {
  const TempFolder folder;
  const auto writer =
      posix_file_system().open(folder.file("w"), {.mode = FileMode::kWrite}).value();
  const auto appender =
      posix_file_system().open(folder.file("a"), {.mode = FileMode::kAppend}).value();
  EXPECT_DEATH(static_cast<void>(writer->append(as_bytes("x")).is_ok()),
               "not opened for appending");
  EXPECT_DEATH(static_cast<void>(appender->write_at(0, as_bytes("x")).is_ok()),
               "opened for appending");
}

TEST(PosixFileSystem, AFifoIsRefusedAndDoesNotHang) {
  const TempFolder folder;
  const std::string path = folder.file("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto file = posix_file_system().open(path, {});
  ASSERT_FALSE(file.is_ok());
  EXPECT_EQ(file.status().code(), StatusCode::kIo);
  EXPECT_FALSE(Mapping::open(path).is_ok());
}

TEST(PosixFileSystem, FreeSpaceIsThatOfTheFileSystemThatHoldsThePath) {
  const TempFolder folder;
  const auto free = free_space_bytes(folder.path());
  ASSERT_TRUE(free.is_ok());
  EXPECT_LE(*free, std::filesystem::space(folder.path()).capacity);
  EXPECT_EQ(*free_space_bytes("/proc"), 0U);
  EXPECT_EQ(free_space_bytes(folder.file("none")).status().code(), StatusCode::kNotFound);
}

TEST(PosixFileSystem, ALinkToAFolderIsNotListedAsAFolder) {
  const TempFolder folder;
  const TempFolder other;
  std::filesystem::create_directory_symlink(other.path(), folder.file("link"));
  const auto entries = posix_file_system().list(folder.path());
  ASSERT_TRUE(entries.is_ok());
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_FALSE(entries->front().is_directory);
}

}  // namespace
}  // namespace cairn
