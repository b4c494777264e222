// A model hub for tests: lists and sends files as huggingface.co does, and does wrong on purpose.
//
// Listens on 127.0.0.1 at a free port, a thread a connection. Thread: its methods may be called
// from any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"

namespace cairn::testing {

struct HubRequest {
  std::string target;                          // path and query
  std::map<std::string, std::string> headers;  // names in lower case

  bool has(const std::string& name) const { return headers.contains(name); }
};

struct HubReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  std::optional<uint64_t> announced = {};  // Content-Length in place of the body's
  bool is_chunked = false;                 // without any length
  std::optional<size_t> cut_after = {};    // the connection breaks after so many bytes of the body
  std::function<void()> before_cut = {};   // called when those were sent
};

struct HubFile {
  std::string bytes;
  bool is_lfs = false;
};

class FakeHub {
 public:
  using Handler = std::function<std::optional<HubReply>(const HubRequest&)>;

  FakeHub();
  FakeHub(const FakeHub&) = delete;
  FakeHub& operator=(const FakeHub&) = delete;
  FakeHub(FakeHub&&) = delete;
  FakeHub& operator=(FakeHub&&) = delete;
  ~FakeHub();

  std::string url() const;

  // Files of the one repository that it has, under whatever name it is asked for.
  void put(const std::string& name, std::string bytes, bool is_lfs = false);
  void erase(const std::string& name);
  // Asked before the usual answer is made; nullopt leaves it at that.
  void intercept(Handler handler);
  // Large files are sent from there, by a redirect.
  void redirect_lfs_to(const std::string& other_url);
  // As mirrors do: file names and nothing else.
  void list_names_only();

  std::vector<HubRequest> requests() const;
  // Of those for files, not for the list.
  std::vector<HubRequest> file_requests() const;
  void forget_requests();

  // The usual answer, for handlers that change a part of it.
  HubReply usual(const HubRequest& request) const;
  std::string commit() const;

 private:
  void accept_loop();
  void serve(int fd);
  HubReply answer(const HubRequest& request);
  HubReply list_reply() const CAIRN_REQUIRES(mutex_);
  HubReply file_reply(const HubRequest& request, const HubFile& file) const;
  std::string commit_locked() const CAIRN_REQUIRES(mutex_);

  UniqueFd listener_;
  uint16_t port_ = 0;
  mutable Mutex mutex_;
  std::map<std::string, HubFile> files_ CAIRN_GUARDED_BY(mutex_);
  Handler handler_ CAIRN_GUARDED_BY(mutex_);
  std::string lfs_url_ CAIRN_GUARDED_BY(mutex_);
  bool names_only_ CAIRN_GUARDED_BY(mutex_) = false;
  std::vector<HubRequest> requests_ CAIRN_GUARDED_BY(mutex_);
  std::vector<int> connections_ CAIRN_GUARDED_BY(mutex_);
  bool is_closing_ CAIRN_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;  // of the acceptor, after itself
  std::jthread acceptor_;
};

std::string sha256_hex(std::string_view bytes);
std::string git_blob_hex(std::string_view bytes);
// Bytes that differ from place to place, so that a piece in the wrong place shows.
std::string test_bytes(size_t n, uint32_t seed = 1);

}  // namespace cairn::testing
