// A hostile file never makes the program take more memory than the file's own size (and what the
// program takes anyway), nor minutes of time, nor end in anything but an answer or an error.
//
// The limit is on anonymous memory that is asked for (RLIMIT_DATA), used or not; the file itself is
// mapped. A refused allocation would end the program with a signal.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>

#include "support/test_size.h"
#include "system/hostile_files.h"
#include "system/program.h"

namespace cairn {
namespace {

using namespace ::cairn::testing;  // NOLINT(google-build-using-namespace)

namespace fs = std::filesystem;

// What the program, its threads and the memory allocator take besides.
constexpr uint64_t kOwnBytes = uint64_t{96} << 20;
constexpr rlim_t kCpuSeconds = 60;
constexpr size_t kErrorBytesMax = 4096;

uint64_t folder_bytes(const std::string& folder) {
  uint64_t n = 0;
  for (const auto& entry : fs::directory_iterator(folder)) n += entry.file_size();
  return n;
}

Words with_folder(const Words& command, const std::string& folder) {
  Words words;
  for (const std::string& word : command) {
    words.push_back(word.starts_with('@') ? folder + word.substr(1) : word);
  }
  return words;
}

void expect_bounded(const HostileCase& hostile, uint64_t n_bytes) {
  const TempFolder folder;
  hostile.write(folder.path(), n_bytes);
  const uint64_t n_file = folder_bytes(folder.path());
  write_file(folder.file("messages.json"), R"([{"role":"user","content":"hi"}])");
  write_file(folder.file("ids.json"), R"({"ids":[0,1]})");
  RunOptions options;
  options.in_child = [n_file] {
    const rlimit memory{n_file + kOwnBytes, n_file + kOwnBytes};
    const rlimit time{kCpuSeconds, kCpuSeconds};
    ::setrlimit(RLIMIT_DATA, &memory);
    ::setrlimit(RLIMIT_CPU, &time);
  };
  for (const Words& command : hostile.commands) {
    const Outcome outcome = run_cairn(with_folder(command, folder.path()), options);
    const std::string shown = hostile.name + ", " + command.front() + ", a file of " +
                              std::to_string(n_file) + " bytes: " + outcome.err.substr(0, 500);
    EXPECT_TRUE(outcome.status == 0 || outcome.status == 1) << outcome.status << ": " << shown;
    EXPECT_LE(outcome.err.size(), kErrorBytesMax) << shown;
    EXPECT_EQ(outcome.err.find("bad_alloc"), std::string::npos) << shown;
    EXPECT_EQ(outcome.status == 1, outcome.err.starts_with("error: ")) << shown;
  }
}

void expect_all_bounded(const std::vector<HostileCase>& cases, uint64_t n_bytes) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
  for (const HostileCase& hostile : cases) expect_bounded(hostile, n_bytes);
}

constexpr uint64_t kSmall = 2'000'000;
constexpr uint64_t kReadable = 60'000'000;  // below the limits on whole files
constexpr uint64_t kLarge = 200'000'000;

TEST(Hostile, GgufFiles) {
  expect_all_bounded(hostile_gguf_files(), kSmall);
}

TEST(Hostile, Tokenizers) {
  expect_all_bounded(hostile_tokenizers(), kSmall);
}

TEST(Hostile, Templates) {
  expect_all_bounded(hostile_templates(), 200'000);
}

TEST(Hostile, SmallTemplates) {
  expect_all_bounded(hostile_small_templates(), 0);
}

TEST(Hostile, Safetensors) {
  expect_all_bounded(hostile_safetensors(), kSmall);
}

TEST(HostileSoak, GgufFiles) {
  for (const uint64_t n : {kReadable, kLarge}) expect_all_bounded(hostile_gguf_files(), n);
}

TEST(HostileSoak, Tokenizers) {
  for (const uint64_t n : {kReadable / 2, kReadable, kLarge}) {
    expect_all_bounded(hostile_tokenizers(), n);
  }
}

TEST(HostileSoak, Templates) {
  for (const uint64_t n : {uint64_t{260'000}, kReadable, kLarge}) {
    expect_all_bounded(hostile_templates(), n);
  }
}

TEST(HostileSoak, Safetensors) {
  for (const uint64_t n : {kReadable, kLarge}) expect_all_bounded(hostile_safetensors(), n);
}

}  // namespace
}  // namespace cairn
