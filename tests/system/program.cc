#include "system/program.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace cairn::testing {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollPause{2};

// Everything the child needs, made before fork(): afterwards only system calls are safe.
struct Launch {
  Launch(const Words& arguments, const RunOptions& options, const std::string& cache) {
    program = options.program.empty() ? CAIRN_PROGRAM : options.program;
    words = {program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (text.starts_with("XDG_CACHE_HOME=")) continue;
      if (options.environment.contains(text.substr(0, text.find('=')))) continue;
      variables.push_back(text);
    }
    if (!options.environment.contains("XDG_CACHE_HOME"))
      variables.push_back("XDG_CACHE_HOME=" + cache);
    for (const auto& [name, value] : options.environment) variables.push_back(name + "=" + value);
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& variable : variables) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
  }

  std::string program;
  Words words, variables;
  std::vector<char*> argv, envp;
};

void redirect(int fd, const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags, 0600);
  if (file < 0 || ::dup2(file, fd) < 0) ::_exit(126);
  ::close(file);
}

// Streams go through files: no pipe fills up, and a log can be read while the program runs.
pid_t start(const Words& arguments, const RunOptions& options, const std::string& folder) {
  Launch launch(arguments, options, folder + "/cache");
  const std::string in = folder + "/in";
  const std::string out = folder + "/out";
  const std::string err = folder + "/err";
  write_file(in, options.input);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no server outlives a test that was cut short
  redirect(STDIN_FILENO, in, O_RDONLY);
  redirect(STDOUT_FILENO, out, O_WRONLY | O_CREAT | O_TRUNC);
  redirect(STDERR_FILENO, err, O_WRONLY | O_CREAT | O_TRUNC);
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(126);
  if (options.in_child) options.in_child();
  ::execve(launch.program.c_str(), launch.argv.data(), launch.envp.data());
  ::_exit(127);
}

int status_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

int wait_for(pid_t pid, std::chrono::seconds limit) {
  const auto end = steady_clock::now() + limit;
  int wait_status = 0;
  while (::waitpid(pid, &wait_status, WNOHANG) == 0) {
    if (steady_clock::now() > end) {
      ADD_FAILURE() << "process " << pid << " did not end in time";
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &wait_status, 0);
      break;
    }
    std::this_thread::sleep_for(kPollPause);
  }
  return status_of(wait_status);
}

std::string joined_chunks(const std::string& raw) {
  std::string body;
  for (size_t pos = 0; pos < raw.size();) {
    size_t length = 0;
    const auto [end, error] =
        std::from_chars(raw.data() + pos, raw.data() + raw.size(), length, 16);
    const size_t begin = raw.find("\r\n", pos);
    if (error != std::errc{} || begin == std::string::npos || length == 0) break;
    body += raw.substr(begin + 2, length);
    pos = begin + 2 + length + 2;
  }
  return body;
}

std::string http_request(const std::string& method,
                         const std::string& path,
                         const std::string& body) {
  return method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" +
         "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

void send_all(int fd, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;  // the answer, or its absence, tells
    sent += static_cast<size_t>(n);
  }
}

}  // namespace

Outcome run_cairn(const Words& arguments, const RunOptions& options) {
  const TempFolder folder;
  Outcome outcome;
  outcome.status = wait_for(start(arguments, options, folder.path()), options.limit);
  outcome.out = read_file(folder.file("out"));
  outcome.err = read_file(folder.file("err"));
  return outcome;
}

Json run_json(const Words& arguments, const RunOptions& options) {
  const Outcome outcome = run_cairn(arguments, options);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  auto parsed = parse_json(outcome.out, "standard output");
  EXPECT_TRUE(parsed.is_ok()) << outcome.out;
  return parsed.is_ok() ? *parsed : Json();
}

Json HttpReply::json() const {
  auto parsed = parse_json(body, "reply");
  EXPECT_TRUE(parsed.is_ok()) << status << " " << body;
  return parsed.is_ok() ? *parsed : Json();
}

std::vector<Json> HttpReply::events() const {
  std::vector<Json> events;
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: ") || line.starts_with("data: [DONE]")) continue;
    auto parsed = parse_json(line.substr(6), "event");
    EXPECT_TRUE(parsed.is_ok()) << line;
    if (parsed.is_ok()) events.push_back(*parsed);
  }
  return events;
}

ServerProcess::ServerProcess(const Words& arguments, const RunOptions& options) {
  Words all = {"serve", "--port", "0"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  pid_ = start(all, options, folder_.path());
  constexpr std::string_view kListening = "listening on http://127.0.0.1:";
  const auto end = steady_clock::now() + options.limit;
  while (steady_clock::now() < end) {
    const std::string text = log();
    const size_t found = text.find(kListening);
    if (found != std::string::npos && text.find('\n', found) != std::string::npos) {
      const char* digits = text.data() + found + kListening.size();
      std::from_chars(digits, text.data() + text.size(), port_);
      return;
    }
    int wait_status = 0;
    if (::waitpid(pid_, &wait_status, WNOHANG) == pid_) {
      pid_ = -1;
      ADD_FAILURE() << "the server ended with " << status_of(wait_status) << ": " << log();
      return;
    }
    std::this_thread::sleep_for(kPollPause);
  }
  ADD_FAILURE() << "the server does not listen: " << log();
}

ServerProcess::~ServerProcess() {
  kill_now();
}

int ServerProcess::connect_to() const {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{60, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): how sockets take addresses
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

HttpReply ServerProcess::read_reply(int fd) {
  std::string raw;
  std::vector<char> piece(size_t{64} << 10);
  for (ssize_t n = 0; (n = ::recv(fd, piece.data(), piece.size(), 0)) > 0;) {
    raw.append(piece.data(), static_cast<size_t>(n));
  }
  ::close(fd);
  HttpReply reply;
  const size_t head_end = raw.find("\r\n\r\n");
  if (!raw.starts_with("HTTP/1.1 ") || head_end == std::string::npos) return reply;
  std::from_chars(raw.data() + 9, raw.data() + 12, reply.status);
  const std::string head = raw.substr(0, head_end);
  reply.body = raw.substr(head_end + 4);
  if (head.find("chunked") != std::string::npos) reply.body = joined_chunks(reply.body);
  return reply;
}

HttpReply ServerProcess::get(const std::string& path) const {
  const int fd = connect_to();
  send_all(fd, http_request("GET", path, ""));
  return read_reply(fd);
}

HttpReply ServerProcess::post(const std::string& path, const Json& body) const {
  return read_reply(post_only(path, body));
}

int ServerProcess::post_only(const std::string& path, const Json& body) const {
  const int fd = connect_to();
  send_all(fd, http_request("POST", path, dump_json(body)));
  return fd;
}

void ServerProcess::send_signal(int signal) const {
  ASSERT_GT(pid_, 0);
  ::kill(pid_, signal);
}

int ServerProcess::wait_ended() {
  if (pid_ <= 0) return -1;
  const int status = wait_for(pid_, std::chrono::seconds(60));
  pid_ = -1;
  return status;
}

void ServerProcess::kill_now() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string ServerProcess::log() const {
  return read_file(folder_.file("err"));
}

std::string oracle_folder(const std::string& name) {
  return std::string(CAIRN_SOURCE_DIR) + "/tests/data/oracles/" + name;
}

std::string demo_folder() {
  return std::string(CAIRN_SOURCE_DIR) + "/models/cairn-demo";
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  EXPECT_TRUE(file.flush()) << path;
}

Json read_json_file(const std::string& path) {
  auto parsed = parse_json(read_file(path), path);
  EXPECT_TRUE(parsed.is_ok()) << path;
  return parsed.is_ok() ? *parsed : Json();
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t pos = 0; (pos = text.find(part, pos)) != std::string::npos; pos += part.size()) ++n;
  return n;
}

}  // namespace cairn::testing
