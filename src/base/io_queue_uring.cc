#include <fmt/format.h>
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <system_error>
#include <utility>
#include <vector>

#include "base/io_queue_engines.h"

namespace cairn {
namespace {

// A submission's length field has 32 bits, and a read moves less than 2 GiB anyway.
constexpr size_t kReadBytesMax = size_t{1} << 30;

class UringQueue final : public IoQueue {
 public:
  explicit UringQueue(unsigned depth) : depth_(depth), slots_(depth) {
    for (unsigned i = 0; i < depth; ++i) free_.push_back(i);
  }

  UringQueue(const UringQueue&) = delete;
  UringQueue& operator=(const UringQueue&) = delete;
  UringQueue(UringQueue&&) = delete;
  UringQueue& operator=(UringQueue&&) = delete;

  // Waits for reads in flight: they write into memory that the caller may free next.
  ~UringQueue() override {
    if (!is_open_) return;
    while (free_.size() < depth_) reap_one();
    io_uring_queue_exit(&ring_);
  }

  Status start();

  unsigned depth() const override { return depth_; }

  unsigned in_flight() const override {
    return static_cast<unsigned>(depth_ - free_.size() + done_.size());
  }

  IoEngine engine() const override { return IoEngine::kUring; }

  void submit(const ReadRequest& request) override;
  ReadCompletion wait() override;

 private:
  struct Slot {
    ReadRequest request;
    size_t n_done = 0;
  };

  void prepare(unsigned slot_idx);
  void reap_one();
  void complete(unsigned slot_idx, Status status);
  void take_result(unsigned slot_idx, int result);

  const unsigned depth_;
  io_uring ring_{};
  bool is_open_ = false;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_;
  std::deque<ReadCompletion> done_;
};

Status UringQueue::start() {
  const int result = io_uring_queue_init(depth_, &ring_, 0);
  if (result < 0) {
    const std::error_code error(-result, std::generic_category());
    return Status::unsupported(fmt::format(
        "io_uring is refused here: {} (errno {}); use reader threads", error.message(), -result));
  }
  is_open_ = true;
  return Status::ok();
}

void UringQueue::prepare(unsigned slot_idx) {
  const Slot& slot = slots_[slot_idx];
  io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
  // One entry for each slot, so there is always room.
  CAIRN_CHECK(sqe != nullptr, "the submission ring is full");
  const auto rest = slot.request.out.subspan(slot.n_done);
  io_uring_prep_read(sqe,
                     slot.request.file->native_fd(),
                     rest.data(),
                     static_cast<unsigned>(std::min(rest.size(), kReadBytesMax)),
                     slot.request.offset + slot.n_done);
  io_uring_sqe_set_data64(sqe, slot_idx);
}

void UringQueue::submit(const ReadRequest& request) {
  CAIRN_CHECK(in_flight() < depth_, "more reads than the queue is deep");
  if (request.file->native_fd() < 0 || request.out.empty()) {
    done_.push_back({request.tag, request.file->read_at(request.offset, request.out)});
    return;
  }
  const unsigned slot_idx = free_.back();
  free_.pop_back();
  slots_[slot_idx] = {request, 0};
  prepare(slot_idx);
  // A refusal (EAGAIN, EINTR) is no loss: the entry stays in the ring and wait() submits it again.
  io_uring_submit(&ring_);
}

ReadCompletion UringQueue::wait() {
  CAIRN_CHECK(in_flight() > 0, "no read is in flight");
  while (done_.empty()) reap_one();
  ReadCompletion first = std::move(done_.front());
  done_.pop_front();
  return first;
}

void UringQueue::reap_one() {
  io_uring_cqe* cqe = nullptr;
  while (io_uring_peek_cqe(&ring_, &cqe) != 0) {
    const int result = io_uring_submit_and_wait(&ring_, 1);
    // Short of something for the moment; anything else is a misuse of the ring.
    const bool passing =
        result == -EINTR || result == -EAGAIN || result == -EBUSY || result == -ENOMEM;
    CAIRN_CHECK(result >= 0 || passing, "io_uring_enter failed");
  }
  const auto slot_idx = static_cast<unsigned>(io_uring_cqe_get_data64(cqe));
  const int result = cqe->res;
  io_uring_cqe_seen(&ring_, cqe);
  take_result(slot_idx, result);
}

void UringQueue::take_result(unsigned slot_idx, int result) {
  Slot& slot = slots_[slot_idx];
  if (result == -EINTR || result == -EAGAIN) {
    prepare(slot_idx);
    return;
  }
  if (result < 0) {
    // Once more the plain way: it knows how to leave O_DIRECT, and its message has the path.
    const auto rest = slot.request.out.subspan(slot.n_done);
    complete(slot_idx, slot.request.file->read_at(slot.request.offset + slot.n_done, rest));
    return;
  }
  slot.n_done += static_cast<size_t>(result);
  if (slot.n_done == slot.request.out.size()) {
    complete(slot_idx, Status::ok());
  } else if (result == 0 || (slot.request.file->is_direct() && slot.n_done % 512 != 0)) {
    // The plain read meets the same end and says so with the path.
    complete(slot_idx, slot.request.file->read_at(slot.request.offset, slot.request.out));
  } else {
    prepare(slot_idx);
  }
}

void UringQueue::complete(unsigned slot_idx, Status status) {
  done_.push_back({slots_[slot_idx].request.tag, std::move(status)});
  slots_[slot_idx] = {};
  free_.push_back(slot_idx);
}

}  // namespace

Result<std::unique_ptr<IoQueue>> open_uring_queue(unsigned depth) {
  auto queue = std::make_unique<UringQueue>(depth);
  CAIRN_RETURN_IF_ERROR(queue->start());
  return std::unique_ptr<IoQueue>(std::move(queue));
}

}  // namespace cairn
