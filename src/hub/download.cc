#include "hub/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/options.h"
#include "hub/part_file.h"
#include "hub/retry.h"

namespace cairn {
namespace {

// Puts the body of one answer behind what is there, after checking that it belongs there.
class PartSink final : public HttpSink {
 public:
  PartSink(PartFile& part, const DownloadTask& task, const HubSettings& settings, PullObserver& o)
      : part_(part), task_(task), settings_(settings), observer_(o), n_asked_(part.n_bytes()) {}

  Status on_head(const HttpHead& head) override;
  Status on_body(std::span<const std::byte> bytes) override;

  uint64_t n_received() const { return n_received_; }

 private:
  Result<ContentId> content_of(const HttpHead& head) const;
  Result<std::optional<uint64_t>> size_of(const HttpHead& head, uint64_t begin) const;
  Result<uint64_t> begin_of(const HttpHead& head) const;

  PartFile& part_;
  const DownloadTask& task_;
  const HubSettings& settings_;
  PullObserver& observer_;
  uint64_t n_asked_;  // bytes that the request said are here
  uint64_t n_received_ = 0;
};

// What the bytes must be. The answer's link header is about a large file itself, so it goes before
// a blob id of the list, which may be that of the pointer.
Result<ContentId> PartSink::content_of(const HttpHead& head) const {
  const ContentId& promised = task_.file.content;
  const ContentId linked = content_id_from_etag(head.linked_etag);
  if (linked.kind == ContentKind::kSha256) {
    if (promised.kind == ContentKind::kSha256 && promised != linked) {
      return Status::corruption(fmt::format(
          "the hub's list says {}, its answer {}; pull again", promised.text(), linked.text()));
    }
    return linked;
  }
  if (promised.is_known()) return promised;
  if (linked.is_known()) return linked;
  // Elsewhere an entity tag may be any hash.
  return is_same_origin(head.url, settings_.endpoint) ? content_id_from_etag(head.etag)
                                                      : ContentId();
}

// Where in the file the body begins.
Result<uint64_t> PartSink::begin_of(const HttpHead& head) const {
  if (head.status == 200) return uint64_t{0};  // all of it, whatever was asked for
  if (head.status != 206 || n_asked_ == 0) {
    return Status::corruption(fmt::format(
        "the server answered {}, wanted 200{}", head.status, n_asked_ == 0 ? "" : " or 206"));
  }
  if (head.range_begin != n_asked_) {
    return Status::corruption(
        fmt::format("the server sends bytes from {}, wanted {}",
                    head.range_begin ? std::to_string(*head.range_begin) : "somewhere",
                    n_asked_));
  }
  return n_asked_;
}

// Of the whole file. Everyone who tells a size must tell the same one.
Result<std::optional<uint64_t>> PartSink::size_of(const HttpHead& head, uint64_t begin) const {
  std::optional<uint64_t> size = task_.file.size_bytes;
  const auto agree = [&](const std::optional<uint64_t>& said) {
    if (!size) size = said;
    return !said || *said == *size;
  };
  std::optional<uint64_t> by_length = head.content_length;
  if (by_length && *by_length <= kRepoFileBytesMax) *by_length += begin;
  const bool all_agree = agree(head.linked_size) && agree(head.range_total) && agree(by_length);
  if (!all_agree || (size && *size > kRepoFileBytesMax)) {
    return Status::corruption(
        fmt::format("the server announces {} bytes, the hub's list says {}; pull again",
                    by_length ? std::to_string(*by_length) : "other",
                    size ? std::to_string(*size) : "nothing"));
  }
  return size;
}

Status PartSink::on_head(const HttpHead& head) {
  CAIRN_ASSIGN_OR_RETURN(const uint64_t begin, begin_of(head));
  PartSource source;
  CAIRN_ASSIGN_OR_RETURN(source.content, content_of(head));
  CAIRN_ASSIGN_OR_RETURN(source.size_bytes, size_of(head, begin));
  source.etag = head.etag;
  if (begin == 0) CAIRN_RETURN_IF_ERROR(part_.start_anew());
  CAIRN_RETURN_IF_ERROR(part_.begin(source));
  if (part_.n_bytes() == begin) return Status::ok();
  // The server went on in the middle of another file: from the start, next time.
  return Status::overloaded("the file has changed on the hub");
}

Status PartSink::on_body(std::span<const std::byte> bytes) {
  const std::optional<uint64_t>& size = part_.source()->size_bytes;
  if (bytes.size() > size.value_or(kUnsizedBytesMax) - part_.n_bytes()) {
    part_.remove();
    return Status::corruption(
        size ? fmt::format("the server sends more than the {} bytes announced", *size)
             : fmt::format("the server sends more than {} bytes without saying how many",
                           kUnsizedBytesMax));
  }
  n_received_ += bytes.size();
  CAIRN_RETURN_IF_ERROR(part_.append(bytes));
  observer_.on_progress(part_.n_bytes());
  return Status::ok();
}

// What one try came to.
Attempt try_once(HttpClient& client,
                 const HubSettings& settings,
                 const DownloadTask& task,
                 PartFile& part,
                 PullObserver& observer,
                 uint64_t* n_received) {
  Attempt attempt;
  if (!part.can_resume()) attempt.status = part.start_anew();
  if (!attempt.status.is_ok()) return attempt;
  HttpGet request;
  request.url = task.url;
  request.begin_byte = part.n_bytes();
  request.if_range = part.resume_tag();
  PartSink sink(part, task, settings, observer);
  const auto head = client.get(request, sink);
  *n_received += sink.n_received();
  attempt.has_progressed = sink.n_received() > 0;
  if (!head.is_ok()) {
    attempt.status = head.status().with_prefix(task.what);
    return attempt;
  }
  attempt.asked_pause = head->retry_after;
  attempt.status = status_of(*head, task.what, !settings.http.token.empty());
  if (head->status == 416 && request.begin_byte > 0) {  // what is here is no part of what is there
    attempt.status = part.start_anew();
    if (!attempt.status.is_ok()) return attempt;
    attempt.status = Status::overloaded(fmt::format("{}: it is another file now", task.what));
  }
  if (attempt.status.is_ok() && part.source()->size_bytes && !part.is_complete()) {
    attempt.status = Status::overloaded(fmt::format("{}: the server stopped after {} of {} bytes",
                                                    task.what,
                                                    part.n_bytes(),
                                                    *part.source()->size_bytes));
  }
  return attempt;
}

class TextSink final : public HttpSink {
 public:
  TextSink(std::string what, size_t max_bytes) : what_(std::move(what)), max_bytes_(max_bytes) {}

  Status on_head(const HttpHead&) override {
    text_.clear();
    return Status::ok();
  }

  Status on_body(std::span<const std::byte> bytes) override {
    if (bytes.size() > max_bytes_ - text_.size()) {
      return Status::corruption(
          fmt::format("{}: the answer is longer than {}", what_, format_size(max_bytes_)));
    }
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Status::ok();
  }

  std::string take() { return std::move(text_); }

 private:
  std::string what_;
  size_t max_bytes_;
  std::string text_;
};

}  // namespace

Result<Downloaded> download(HttpClient& client,
                            const HubSettings& settings,
                            const DownloadTask& task,
                            PullObserver& observer) {
  CAIRN_ASSIGN_OR_RETURN(PartFile part, PartFile::open(task.path, task.file));
  observer.on_file_begin(task.file.name, task.file.size_bytes, part.n_bytes());
  Downloaded done;
  // A whole file is only as new as its note, unless the hub's list names the same bytes.
  const bool is_here = part.is_complete() && task.file.content.is_known() &&
                       part.source()->content == task.file.content;
  if (!is_here) {
    CAIRN_RETURN_IF_ERROR(with_retries(settings.retry, observer, [&] {
      return try_once(client, settings, task, part, observer, &done.n_received);
    }));
  }
  done.size_bytes = part.n_bytes();
  CAIRN_ASSIGN_OR_RETURN(done.content, part.finish());
  observer.on_file_end();
  return done;
}

Result<std::string> fetch_text(HttpClient& client,
                               const HubSettings& settings,
                               const std::string& url,
                               const std::string& what,
                               size_t max_bytes,
                               PullObserver& observer) {
  TextSink sink(what, max_bytes);
  CAIRN_RETURN_IF_ERROR(with_retries(settings.retry, observer, [&] {
    Attempt attempt;
    HttpGet request;
    request.url = url;
    const auto head = client.get(request, sink);
    attempt.status = head.is_ok() ? status_of(*head, what, !settings.http.token.empty())
                                  : head.status().with_prefix(what);
    if (head.is_ok()) attempt.asked_pause = head->retry_after;
    return attempt;
  }));
  return sink.take();
}

}  // namespace cairn
