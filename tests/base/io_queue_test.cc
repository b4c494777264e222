#include "base/io_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "base/coding.h"
#include "support/memory_file_system.h"
#include "support/recording_file_system.h"
#include "support/temp_folder.h"

namespace cairn {
namespace {

constexpr size_t kFileBytes = 256 * 1024;

std::vector<std::byte> pattern(size_t n) {
  std::vector<std::byte> bytes(n);
  std::mt19937 random(7);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

struct AlignedBuffer {
  explicit AlignedBuffer(size_t n_bytes) : storage(n_bytes + 4096) {
    const size_t misfit = reinterpret_cast<uintptr_t>(storage.data()) % 4096;
    bytes = std::span(storage).subspan((4096 - misfit) % 4096, n_bytes);
  }

  std::vector<std::byte> storage;
  std::span<std::byte> bytes;
};

class IoQueueEngines : public testing::TestWithParam<IoEngine> {
 protected:
  void SetUp() override {
    path_ = folder_.file("data");
    ASSERT_TRUE(write_file_atomically(posix_file_system(), path_, bytes_).is_ok());
    ASSERT_TRUE(
        memory_.open("/data", {.mode = FileMode::kWrite}).value()->write_at(0, bytes_).is_ok());
  }

  // Null, and the test skipped, where the system has no such engine.
  std::unique_ptr<IoQueue> open_queue(unsigned depth) {
    auto queue = IoQueue::open(GetParam(), depth);
    if (!queue.is_ok()) {
      EXPECT_EQ(GetParam(), IoEngine::kUring) << "only io_uring may be missing";
      EXPECT_EQ(queue.status().code(), StatusCode::kUnsupported);
      return nullptr;
    }
    return std::move(*queue);
  }

  std::unique_ptr<File> open_file(bool direct = false) {
    return posix_file_system().open(path_, {.direct = direct}).value();
  }

  TempFolder folder_;
  std::string path_;
  std::vector<std::byte> bytes_ = pattern(kFileBytes);
  MemoryFileSystem memory_;
};

TEST_P(IoQueueEngines, KeepsManyReadsInFlight) {
  const auto queue = open_queue(16);
  if (queue == nullptr) GTEST_SKIP() << "io_uring is refused here";
  const auto file = open_file();
  constexpr size_t kReads = 500;
  std::vector<std::vector<std::byte>> out(kReads);
  std::vector<uint64_t> offsets(kReads);
  std::vector<int> n_completions(kReads, 0);
  std::mt19937 random(3);
  const auto take_one = [&] {
    const ReadCompletion done = queue->wait();
    EXPECT_TRUE(done.status.is_ok()) << done.status.to_string();
    ++n_completions[done.tag];
  };
  for (size_t i = 0; i < kReads; ++i) {
    out[i].resize(random() % 20'000);
    offsets[i] = random() % (kFileBytes - out[i].size());
    if (queue->in_flight() == queue->depth()) take_one();
    queue->submit({file.get(), offsets[i], out[i], i});
  }
  EXPECT_EQ(queue->in_flight(), 16U);
  while (queue->in_flight() > 0) take_one();
  for (size_t i = 0; i < kReads; ++i) {
    ASSERT_EQ(n_completions[i], 1);
    ASSERT_TRUE(std::equal(
        out[i].begin(), out[i].end(), bytes_.begin() + static_cast<ptrdiff_t>(offsets[i])));
  }
}

TEST_P(IoQueueEngines, ReadsPastTheEndAreCorruption) {
  const auto queue = open_queue(4);
  if (queue == nullptr) GTEST_SKIP() << "io_uring is refused here";
  for (const bool direct : {false, true}) {
    const auto file = open_file(direct);
    AlignedBuffer out(8192);
    for (const uint64_t offset :
         {uint64_t{kFileBytes - 4096}, uint64_t{kFileBytes}, uint64_t{1} << 40}) {
      queue->submit({file.get(), offset, out.bytes, offset});
      const ReadCompletion done = queue->wait();
      EXPECT_EQ(done.tag, offset);
      EXPECT_EQ(done.status.code(), StatusCode::kCorruption) << done.status.to_string();
      EXPECT_NE(done.status.message().find(path_), std::string::npos) << done.status.to_string();
    }
  }
}

TEST_P(IoQueueEngines, DirectReadsGiveTheSameBytes) {
  const auto queue = open_queue(2);
  if (queue == nullptr) GTEST_SKIP() << "io_uring is refused here";
  const auto file = open_file(true);
  AlignedBuffer first(65536);
  AlignedBuffer second(4096);
  queue->submit({file.get(), 0, first.bytes, 1});
  queue->submit({file.get(), 131072, second.bytes, 2});
  EXPECT_TRUE(queue->wait().status.is_ok());
  EXPECT_TRUE(queue->wait().status.is_ok());
  EXPECT_TRUE(std::equal(first.bytes.begin(), first.bytes.end(), bytes_.begin()));
  EXPECT_TRUE(std::equal(second.bytes.begin(), second.bytes.end(), bytes_.begin() + 131072));
}

TEST_P(IoQueueEngines, FilesInMemoryAreReadAtOnce) {
  const auto queue = open_queue(3);
  if (queue == nullptr) GTEST_SKIP() << "io_uring is refused here";
  const auto in_memory = memory_.open("/data", {}).value();
  const auto on_disk = open_file();
  std::vector<std::byte> a(1000);
  std::vector<std::byte> b(1000);
  std::vector<std::byte> beyond(kFileBytes + 1);
  queue->submit({in_memory.get(), 50, a, 1});
  EXPECT_TRUE(std::equal(a.begin(), a.end(), bytes_.begin() + 50)) << "read inside submit()";
  queue->submit({on_disk.get(), 60, b, 2});
  queue->submit({in_memory.get(), 0, beyond, 3});
  std::map<uint64_t, StatusCode> codes;
  while (queue->in_flight() > 0) {
    const ReadCompletion done = queue->wait();
    codes[done.tag] = done.status.code();
  }
  EXPECT_EQ(codes[1], StatusCode::kOk);
  EXPECT_EQ(codes[2], StatusCode::kOk);
  EXPECT_EQ(codes[3], StatusCode::kCorruption);
  EXPECT_TRUE(std::equal(b.begin(), b.end(), bytes_.begin() + 60));
}

TEST_P(IoQueueEngines, InjectedErrorsReachTheCompletion) {
  const auto queue = open_queue(2);
  if (queue == nullptr) GTEST_SKIP() << "io_uring is refused here";
  RecordingFileSystem fs(memory_);
  const auto file = fs.open("/data", {}).value();
  fs.inject({.kind = OperationKind::kRead, .nth = 2});
  std::vector<std::byte> out(100);
  queue->submit({file.get(), 0, out, 1});
  queue->submit({file.get(), 0, out, 2});
  EXPECT_TRUE(queue->wait().status.is_ok());
  EXPECT_EQ(queue->wait().status.code(), StatusCode::kIo);
}

TEST_P(IoQueueEngines, ClosingWaitsForReadsInFlight) {
  const auto file = open_file();
  std::vector<std::byte> out(kFileBytes);
  auto queue = open_queue(8);
  if (queue == nullptr) GTEST_SKIP() << "io_uring is refused here";
  for (uint64_t i = 0; i < 8; ++i) {
    queue->submit({file.get(), 0, std::span(out).subspan(i * 1000, 1000), i});
  }
  queue.reset();
  out.assign(out.size(),
             std::byte{9});  // nothing writes here any more (asan and tsan would see it)
  EXPECT_EQ(std::ranges::count(out, std::byte{9}), static_cast<ptrdiff_t>(out.size()));
}

std::string engine_name(const testing::TestParamInfo<IoEngine>& param) {
  switch (param.param) {
    case IoEngine::kAuto:
      return "Auto";
    case IoEngine::kUring:
      return "Uring";
    case IoEngine::kThreads:
      return "Threads";
    case IoEngine::kInline:
      break;
  }
  return "Inline";
}

INSTANTIATE_TEST_SUITE_P(
    All,
    IoQueueEngines,
    testing::Values(IoEngine::kAuto, IoEngine::kUring, IoEngine::kThreads, IoEngine::kInline),
    engine_name);

TEST(IoQueue, DepthIsBounded) {
  EXPECT_EQ(IoQueue::open(IoEngine::kInline, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(IoQueue::open(IoEngine::kInline, 257).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(IoQueue::open(IoEngine::kInline, 256).value()->depth(), 256U);
}

TEST(IoQueue, AutoSaysWhatItChose) {
  const auto queue = IoQueue::open(IoEngine::kAuto, 4).value();
  const bool has_uring = IoQueue::open(IoEngine::kUring, 4).is_ok();
  EXPECT_EQ(queue->engine(), has_uring ? IoEngine::kUring : IoEngine::kThreads);
}

TEST(IoQueueDeathTest, RefusesMoreThanItsDepth) {
  MemoryFileSystem fs;
  fs.write_bytes("/a", as_bytes("x"));
  const auto file = fs.open("/a", {}).value();
  const auto queue = IoQueue::open(IoEngine::kInline, 1).value();
  std::vector<std::byte> out(1);
  queue->submit({file.get(), 0, out, 0});
  EXPECT_DEATH(queue->submit({file.get(), 0, out, 0}), "more reads than the queue is deep");
}

}  // namespace
}  // namespace cairn
