#include "hub/fake_hub.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/check.h"
#include "base/coding.h"
#include "base/hash.h"
#include "base/json.h"

namespace cairn::testing {
namespace {

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// One request's head off the connection; nullopt when it ended. `buffer` keeps what came after.
std::optional<HubRequest> read_request(int fd, std::string* buffer) {
  size_t end = 0;
  while ((end = buffer->find("\r\n\r\n")) == std::string::npos) {
    char piece[4096];
    const ssize_t n = ::recv(fd, piece, sizeof piece, 0);
    if (n <= 0) return std::nullopt;
    buffer->append(piece, static_cast<size_t>(n));
  }
  const std::string head = buffer->substr(0, end + 2);
  buffer->erase(0, end + 4);
  HubRequest request;
  const size_t first = head.find(' ');
  request.target = head.substr(first + 1, head.find(' ', first + 1) - first - 1);
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t line_end = head.find("\r\n", at);
    const size_t colon = head.find(':', at);
    std::string name = head.substr(at, colon - at);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    request.headers[name] = head.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  return request;
}

// False when the connection is to be closed.
bool send_reply(int fd, const HubReply& reply) {
  std::string head = fmt::format("HTTP/1.1 {} Test\r\n", reply.status);
  for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
  head += reply.is_chunked
              ? "Transfer-Encoding: chunked\r\n"
              : fmt::format("Content-Length: {}\r\n", reply.announced.value_or(reply.body.size()));
  const std::string body = reply.body.substr(
      0, std::min(reply.cut_after.value_or(reply.body.size()), reply.body.size()));
  if (!send_all(fd, head + "\r\n")) return false;
  if (reply.is_chunked && !body.empty()) send_all(fd, fmt::format("{:x}\r\n", body.size()));
  if (!send_all(fd, body)) return false;
  if (reply.before_cut) reply.before_cut();
  if (reply.cut_after || reply.announced) return false;
  return !reply.is_chunked || send_all(fd, body.empty() ? "0\r\n\r\n" : "\r\n0\r\n\r\n");
}

std::optional<uint64_t> begin_asked(const HubRequest& request) {
  const auto range = request.headers.find("range");
  if (range == request.headers.end()) return std::nullopt;
  uint64_t begin = 0;
  const char* const digits = range->second.data() + std::strlen("bytes=");
  std::from_chars(digits, range->second.data() + range->second.size(), begin);
  return begin;
}

std::string unescaped(std::string_view path) {
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    unsigned value = 0;
    if (path[i] == '%' && i + 2 < path.size()) {
      std::from_chars(path.data() + i + 1, path.data() + i + 3, value, 16);
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += path[i];
    }
  }
  return out;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  return to_hex(sha256(as_bytes(bytes)));
}

std::string git_blob_hex(std::string_view bytes) {
  std::string head = fmt::format("blob {}", bytes.size());
  head.push_back('\0');
  return Sha1().update(as_bytes(head)).update(as_bytes(bytes)).finish_hex();
}

std::string test_bytes(size_t n, uint32_t seed) {
  std::string bytes(n, '\0');
  uint32_t state = seed * 2654435761U + 1;
  for (char& c : bytes) {
    state = state * 1664525U + 1013904223U;
    c = static_cast<char>(state >> 24);
  }
  return bytes;
}

FakeHub::FakeHub() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  CAIRN_CHECK(::bind(listener_.get(), raw, size) == 0 && ::listen(listener_.get(), 64) == 0 &&
                  ::getsockname(listener_.get(), raw, &size) == 0,
              "no local port can be opened");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this] { accept_loop(); });
}

FakeHub::~FakeHub() {
  {
    const MutexLock lock(mutex_);
    is_closing_ = true;
    for (const int fd : connections_) ::shutdown(fd, SHUT_RDWR);
  }
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  threads_.clear();
}

std::string FakeHub::url() const {
  return fmt::format("http://127.0.0.1:{}", port_);
}

void FakeHub::put(const std::string& name, std::string bytes, bool is_lfs) {
  const MutexLock lock(mutex_);
  files_[name] = {std::move(bytes), is_lfs};
}

void FakeHub::erase(const std::string& name) {
  const MutexLock lock(mutex_);
  files_.erase(name);
}

void FakeHub::intercept(Handler handler) {
  const MutexLock lock(mutex_);
  handler_ = std::move(handler);
}

void FakeHub::redirect_lfs_to(const std::string& other_url) {
  const MutexLock lock(mutex_);
  lfs_url_ = other_url;
}

void FakeHub::list_names_only() {
  const MutexLock lock(mutex_);
  names_only_ = true;
}

std::vector<HubRequest> FakeHub::requests() const {
  const MutexLock lock(mutex_);
  return requests_;
}

std::vector<HubRequest> FakeHub::file_requests() const {
  std::vector<HubRequest> all = requests();
  std::erase_if(all, [](const HubRequest& r) { return r.target.starts_with("/api/"); });
  return all;
}

void FakeHub::forget_requests() {
  const MutexLock lock(mutex_);
  requests_.clear();
}

std::string FakeHub::commit() const {
  const MutexLock lock(mutex_);
  return commit_locked();
}

// Another content is another commit.
std::string FakeHub::commit_locked() const {
  std::string all;
  for (const auto& [name, file] : files_) all += name + sha256_hex(file.bytes);
  return sha256_hex(all).substr(0, 40);
}

void FakeHub::accept_loop() {
  for (;;) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;  // heads and bodies are sent apart, and would wait for each other
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    {
      const MutexLock lock(mutex_);
      if (is_closing_) ::shutdown(fd, SHUT_RDWR);
      connections_.push_back(fd);
    }
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void FakeHub::serve(int fd) {
  std::string buffer;
  for (auto request = read_request(fd, &buffer); request; request = read_request(fd, &buffer)) {
    if (!send_reply(fd, answer(*request))) break;
  }
  const MutexLock lock(mutex_);
  std::erase(connections_, fd);
  ::shutdown(fd, SHUT_RDWR);
  ::close(fd);
}

HubReply FakeHub::answer(const HubRequest& request) {
  Handler handler;
  {
    const MutexLock lock(mutex_);
    requests_.push_back(request);
    handler = handler_;
  }
  if (handler) {
    if (auto reply = handler(request)) return *reply;
  }
  return usual(request);
}

HubReply FakeHub::list_reply() const {
  Json siblings = Json::array();
  for (const auto& [name, file] : files_) {
    Json entry = {{"rfilename", name}};
    if (!names_only_) {
      entry["size"] = file.bytes.size();
      entry["blobId"] = git_blob_hex(file.is_lfs ? "a pointer to " + name : file.bytes);
      if (file.is_lfs) {
        entry["lfs"] = {{"sha256", sha256_hex(file.bytes)}, {"size", file.bytes.size()}};
      }
    }
    siblings.push_back(std::move(entry));
  }
  HubReply reply;
  reply.body = dump_json({{"id", "org/repo"}, {"sha", commit_locked()}, {"siblings", siblings}});
  return reply;
}

HubReply FakeHub::file_reply(const HubRequest& request, const HubFile& file) const {
  HubReply reply;
  const std::string tag =
      "\"" + (file.is_lfs ? sha256_hex(file.bytes) : git_blob_hex(file.bytes)) + "\"";
  reply.headers = {{"ETag", tag}};
  const auto condition = request.headers.find("if-range");
  const bool is_same = condition == request.headers.end() || condition->second == tag;
  const auto begin = is_same ? begin_asked(request) : std::nullopt;
  if (!begin) {
    reply.body = file.bytes;
  } else if (*begin >= file.bytes.size()) {
    reply.status = 416;
  } else {
    reply.status = 206;
    reply.body = file.bytes.substr(*begin);
    reply.headers.emplace_back(
        "Content-Range",
        fmt::format("bytes {}-{}/{}", *begin, file.bytes.size() - 1, file.bytes.size()));
  }
  return reply;
}

HubReply FakeHub::usual(const HubRequest& request) const {
  const MutexLock lock(mutex_);
  if (request.target.starts_with("/api/models/")) return list_reply();
  constexpr std::string_view kResolve = "/resolve/";
  const std::string path = request.target.substr(0, request.target.find('?'));
  const size_t resolve = path.find(kResolve);
  const size_t name_begin = path.find('/', resolve + kResolve.size());
  const auto found = resolve == std::string::npos || name_begin == std::string::npos
                         ? files_.end()
                         : files_.find(unescaped(path.substr(name_begin + 1)));
  if (found == files_.end()) {
    HubReply missing;
    missing.status = 404;
    missing.headers = {{"X-Error-Code", "EntryNotFound"}};
    missing.body = "Entry not found";
    return missing;
  }
  const HubFile& file = found->second;
  if (!file.is_lfs || lfs_url_.empty()) return file_reply(request, file);
  HubReply redirect;
  redirect.status = 302;
  redirect.headers = {{"Location", lfs_url_ + request.target + "?signature=secret"},
                      {"X-Linked-Etag", "\"" + sha256_hex(file.bytes) + "\""},
                      {"X-Linked-Size", std::to_string(file.bytes.size())}};
  redirect.body = "Found. Redirecting";
  return redirect;
}

}  // namespace cairn::testing
