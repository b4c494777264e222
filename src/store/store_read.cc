// Restores: many objects' reads in one queue.
#include <algorithm>
#include <deque>
#include <utility>

#include "store/object_read.h"
#include "store/store_files_impl.h"

namespace cairn {
namespace {

// Objects open at a time: enough to keep the queue full when each is a leaf of one or two reads.
constexpr size_t kActiveMax = 16;
constexpr unsigned kReadIdBits = 32;

struct ActiveRead {
  uint64_t id = 0;
  const ReadJob* job = nullptr;
  std::unique_ptr<ObjectRead> read;
  bool is_all_out = false;
};

class ReadPipeline {
 public:
  ReadPipeline(StoreFiles::Impl& impl,
               const std::function<const ReadJob*()>& next,
               const std::function<void(const ReadJob&, const Status&)>& done)
      : impl_(impl), next_(next), done_(done) {}

  void run() {
    while (true) {
      fill();
      if (impl_.queue->in_flight() == 0) return;
      const ReadCompletion completion = impl_.queue->wait();
      const uint64_t id = completion.tag >> kReadIdBits;
      const auto it = std::find_if(
          active_.begin(), active_.end(), [&](const ActiveRead& a) { return a.id == id; });
      CAIRN_CHECK(it != active_.end(), "a read came back that nobody asked for");
      it->read->complete(completion.tag & ((uint64_t{1} << kReadIdBits) - 1), completion.status);
      if (it->read->is_finished()) {
        const ReadJob* job = it->job;
        const Status status = it->read->finish();
        active_.erase(it);
        done_(*job, status);
      }
    }
  }

 private:
  void fill() {
    IoQueue& queue = *impl_.queue;
    while (queue.in_flight() < depth_) {
      if (!submit_one() && !start_next()) return;
    }
  }

  // Submits the next read of the oldest object that has one.
  bool submit_one() {
    for (ActiveRead& active : active_) {
      if (active.is_all_out) continue;
      std::optional<ReadRequest> request = active.read->next_request();
      if (!request) {
        active.is_all_out = true;
        continue;
      }
      request->tag |= active.id << kReadIdBits;
      impl_.queue->submit(*request);
      return true;
    }
    return false;
  }

  // False when there is no job or no room for one. A job that cannot start is done at once.
  bool start_next() {
    if (active_.size() >= kActiveMax) return false;
    const ReadJob* job = next_();
    if (job == nullptr) return false;
    const ObjectEntry& entry = *job->entry;
    if (entry.pages.empty()) {
      done_(*job, Status::invalid_argument("an entry without pages"));
      return true;
    }
    auto read = ObjectRead::start(impl_.fs,
                                  impl_.object_path(entry.root, entry.kind, entry.key()),
                                  entry,
                                  job->layouts,
                                  job->targets,
                                  impl_.options.direct_io,
                                  impl_.options.key.get());
    if (!read.is_ok()) {
      done_(*job, read.status());
      return true;
    }
    // Reads of files in memory happen inside submit(): more than one at a time would only cool the
    // cache.
    depth_ = (*read)->has_native_file() ? impl_.queue->depth() : 1;
    active_.push_back({++n_started_, job, std::move(read).value()});
    return true;
  }

  StoreFiles::Impl& impl_;
  const std::function<const ReadJob*()>& next_;
  const std::function<void(const ReadJob&, const Status&)>& done_;
  std::deque<ActiveRead> active_;
  uint64_t n_started_ = 0;
  unsigned depth_ = 1;
};

}  // namespace

void StoreFiles::read_objects(const std::function<const ReadJob*()>& next,
                              const std::function<void(const ReadJob&, const Status&)>& done) {
  ReadPipeline(*impl_, next, done).run();
}

Status StoreFiles::read_object(const ObjectEntry& entry,
                               std::span<const PageLayout> layouts,
                               std::span<const PageTarget> targets) {
  const ReadJob job{&entry, layouts, targets};
  bool is_taken = false;
  Status result;
  read_objects([&]() -> const ReadJob* { return std::exchange(is_taken, true) ? nullptr : &job; },
               [&](const ReadJob&, const Status& status) { result = status; });
  return result;
}

}  // namespace cairn
