#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/io_queue_engines.h"
#include "base/mailbox.h"

namespace cairn {
namespace {

constexpr unsigned kThreadsMax = 8;

class InlineQueue final : public IoQueue {
 public:
  explicit InlineQueue(unsigned depth) : depth_(depth) {}

  unsigned depth() const override { return depth_; }

  unsigned in_flight() const override { return static_cast<unsigned>(done_.size()); }

  IoEngine engine() const override { return IoEngine::kInline; }

  void submit(const ReadRequest& request) override {
    CAIRN_CHECK(in_flight() < depth_, "more reads than the queue is deep");
    done_.push_back({request.tag, request.file->read_at(request.offset, request.out)});
  }

  ReadCompletion wait() override {
    CAIRN_CHECK(!done_.empty(), "no read is in flight");
    ReadCompletion first = std::move(done_.front());
    done_.pop_front();
    return first;
  }

 private:
  const unsigned depth_;
  std::deque<ReadCompletion> done_;
};

class ThreadQueue final : public IoQueue {
 public:
  explicit ThreadQueue(unsigned depth) : depth_(depth), requests_(depth), done_(depth) {
    for (unsigned i = 0; i < std::min(depth, kThreadsMax); ++i) {
      threads_.emplace_back([this] { read_until_closed(); });
    }
  }

  ThreadQueue(const ThreadQueue&) = delete;
  ThreadQueue& operator=(const ThreadQueue&) = delete;
  ThreadQueue(ThreadQueue&&) = delete;
  ThreadQueue& operator=(ThreadQueue&&) = delete;

  // Waits for reads in flight: they write into memory that the caller may free next.
  ~ThreadQueue() override {
    requests_.close();
    threads_.clear();
  }

  unsigned depth() const override { return depth_; }

  unsigned in_flight() const override { return n_in_flight_; }

  IoEngine engine() const override { return IoEngine::kThreads; }

  void submit(const ReadRequest& request) override {
    CAIRN_CHECK(n_in_flight_ < depth_, "more reads than the queue is deep");
    ++n_in_flight_;
    if (request.file->native_fd() < 0) {
      done_.push_reply({request.tag, request.file->read_at(request.offset, request.out)});
      return;
    }
    CAIRN_CHECK(requests_.push(request));
  }

  ReadCompletion wait() override {
    CAIRN_CHECK(n_in_flight_ > 0, "no read is in flight");
    std::optional<ReadCompletion> first = done_.pop();
    --n_in_flight_;
    return std::move(*first);
  }

 private:
  void read_until_closed() {
    while (const auto request = requests_.pop()) {
      done_.push_reply({request->tag, request->file->read_at(request->offset, request->out)});
    }
  }

  const unsigned depth_;
  unsigned n_in_flight_ = 0;  // owner's thread only
  Mailbox<ReadRequest> requests_;
  Mailbox<ReadCompletion> done_;
  std::vector<std::jthread> threads_;
};

}  // namespace

Result<std::unique_ptr<IoQueue>> open_inline_queue(unsigned depth) {
  return std::unique_ptr<IoQueue>(std::make_unique<InlineQueue>(depth));
}

Result<std::unique_ptr<IoQueue>> open_thread_queue(unsigned depth) {
  return std::unique_ptr<IoQueue>(std::make_unique<ThreadQueue>(depth));
}

}  // namespace cairn
