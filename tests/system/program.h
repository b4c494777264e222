// Drives the built program as people do: arguments, environment, standard streams, signals, HTTP.
//
// Everything is bounded in time, so a program that hangs fails a test instead of the run. Each
// program started here gets a cache folder of its own (XDG_CACHE_HOME) unless told otherwise.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "support/temp_folder.h"

namespace cairn::testing {

using Words = std::vector<std::string>;

struct RunOptions {
  std::string input = {};                               // standard input
  std::map<std::string, std::string> environment = {};  // on top of the test's own
  std::string folder = {};                              // to run in; empty: the test's own
  std::function<void()> in_child = {};  // between fork and exec: async-signal-safe calls only
  std::string program = {};             // empty: the one that was built
  std::chrono::seconds limit{100};
};

struct Outcome {
  int status = -1;  // exit status; 128 + signal when one ended it
  std::string out;
  std::string err;
};

// Runs `cairn ARGUMENTS` to its end.
Outcome run_cairn(const Words& arguments, const RunOptions& options = {});
// The same, for a command that must succeed and print one JSON value: fails the test otherwise.
Json run_json(const Words& arguments, const RunOptions& options = {});

struct HttpReply {
  int status = 0;    // 0: the connection broke before a status line came
  std::string body;  // chunks joined

  Json json() const;
  // The `data:` payloads of an event stream, "[DONE]" left out.
  std::vector<Json> events() const;
};

// `cairn serve --port 0` with a folder for its log; killed with the object.
class ServerProcess {
 public:
  // Waits until it listens; fails the test when it does not.
  explicit ServerProcess(const Words& arguments, const RunOptions& options = {});
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ServerProcess(ServerProcess&&) = delete;
  ServerProcess& operator=(ServerProcess&&) = delete;
  ~ServerProcess();

  HttpReply get(const std::string& path) const;
  HttpReply post(const std::string& path, const Json& body) const;
  // Sends a request and leaves the answer unread; the caller closes the descriptor.
  int post_only(const std::string& path, const Json& body) const;
  // Reads what is left of an answer. Closes the descriptor.
  static HttpReply read_reply(int fd);

  void send_signal(int signal) const;
  // Waits for the end: exit status, 128 + signal when one ended it.
  int wait_ended();
  void kill_now();  // kill -9, and waits

  std::string log() const;

 private:
  int connect_to() const;

  TempFolder folder_;
  pid_t pid_ = -1;
  uint16_t port_ = 0;
};

std::string oracle_folder(const std::string& name);  // tests/data/oracles/<name>
std::string demo_folder();
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);
Json read_json_file(const std::string& path);
size_t count_of(const std::string& text, const std::string& part);

}  // namespace cairn::testing
