#include "server/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace cairn {
namespace {

constexpr timeval kPatience{30, 0};

// No connection: an invalid descriptor.
UniqueFd connected(int family, const sockaddr* address, socklen_t size) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  if (::connect(fd.get(), address, size) != 0) return UniqueFd();
  return fd;
}

}  // namespace

HttpClient HttpClient::tcp(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return HttpClient(
      connected(AF_INET, reinterpret_cast<const sockaddr*>(&address), sizeof address));
}

HttpClient HttpClient::unix_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  return HttpClient(
      connected(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address));
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool HttpClient::request(std::string_view method,
                         std::string_view path,
                         std::string_view body,
                         std::string_view extra_headers) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: test\r\n{}", method, path, extra_headers);
  if (!body.empty() || method == "POST") text += fmt::format("Content-Length: {}\r\n", body.size());
  return send(text + "\r\n" + std::string(body));
}

bool HttpClient::fill() {
  char bytes[65536];
  const ssize_t n = ::recv(fd_.get(), bytes, sizeof bytes, 0);
  if (n <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(n));
  return true;
}

std::string HttpClient::take(size_t n) {
  while (buffer_.size() < n && fill()) {
  }
  std::string out = buffer_.substr(0, n);
  buffer_.erase(0, out.size());
  return out;
}

// Without its end; empty when there is none.
std::string HttpClient::take_line() {
  size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill()) return "";
  }
  std::string line = take(end);
  take(2);
  return line;
}

HttpAnswer HttpClient::read_head() {
  HttpAnswer answer;
  const std::string line = take_line();
  if (line.size() < 12) return answer;
  answer.version = line.substr(0, 8);
  answer.status = std::stoi(line.substr(9, 3));
  for (std::string header = take_line(); !header.empty(); header = take_line()) {
    const size_t colon = header.find(':');
    if (colon == std::string::npos) return {};
    std::string name = header.substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    answer.headers[name] = header.substr(header.find_first_not_of(' ', colon + 1));
  }
  return answer;
}

std::optional<std::string> HttpClient::read_chunk() {
  const std::string size = take_line();
  if (size.empty()) return std::nullopt;
  std::string chunk = take(std::stoul(size, nullptr, 16));
  take(2);
  if (chunk.empty()) return std::nullopt;
  return chunk;
}

HttpAnswer HttpClient::read_answer(bool is_head) {
  HttpAnswer answer = read_head();
  if (is_head || answer.status == 0 || answer.status == 100) return answer;
  if (answer.headers.contains("transfer-encoding")) {  // chunked: no other is used
    while (const auto chunk = read_chunk()) answer.body += *chunk;
  } else if (const auto length = answer.headers.find("content-length");
             length != answer.headers.end()) {
    answer.body = take(std::stoul(length->second));
  } else {
    while (fill()) {
    }
    answer.body = std::exchange(buffer_, {});
  }
  return answer;
}

bool HttpClient::is_at_end() {
  if (!buffer_.empty()) return false;
  char byte = 0;
  const ssize_t n = ::recv(fd_.get(), &byte, 1, 0);
  return n == 0 || (n < 0 && errno == ECONNRESET);
}

HttpAnswer HttpClient::get(std::string_view path, std::string_view extra_headers) {
  request("GET", path, {}, extra_headers);
  return read_answer();
}

HttpAnswer HttpClient::post(std::string_view path,
                            std::string_view body,
                            std::string_view headers) {
  request("POST", path, body, headers);
  return read_answer();
}

}  // namespace cairn
