// GET over HTTP(S) for files of any size: libcurl behind a type of our own.
//
// Only http and https; certificates are always checked; proxies are those libcurl finds in the
// environment. Redirects are followed here and not by the library, because each hop decides anew
// whether it may be taken and whether the token goes along.
// Thread: one at a time. The connection is kept for the next request.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn {

struct HttpOptions {
  std::string user_agent = "cairn";
  std::string token;         // goes to the origin of `token_origin` alone; empty: none
  std::string token_origin;  // an address; scheme, host and port count
  std::chrono::milliseconds connect_limit{20'000};
  std::chrono::seconds stall_limit{30};  // without a byte; then the transfer is given up
  // Asked at least once a second; true ends the transfer with kCancelled.
  std::function<bool()> is_stopped = [] { return false; };
};

struct HttpGet {
  std::string url;
  uint64_t begin_byte = 0;  // of the body wanted; 0: all of it, without a Range header
  std::string if_range;     // with begin_byte: the entity tag that the first part had
};

// What an answer says about itself. All of it is untrusted.
struct HttpHead {
  int status = 0;
  std::string url;  // that gave this answer, after redirects
  std::optional<uint64_t> content_length;
  std::optional<uint64_t> range_begin;  // of "Content-Range: bytes 5-9/10"
  std::optional<uint64_t> range_total;
  std::string etag;  // as sent, with quotes
  std::optional<std::chrono::seconds> retry_after;
  std::string error_code;  // X-Error-Code: "GatedRepo" and so on
  std::string error_text;  // front of an error's body, for people; control characters replaced
  // Of any hop, the first that says so: what a hub knows about the file it sends elsewhere for.
  std::string linked_etag;
  std::optional<uint64_t> linked_size;

  bool is_success() const { return status >= 200 && status < 300; }
};

// Takes the body of a successful answer as it comes. An error that it returns ends the transfer and
// comes back from get().
class HttpSink {
 public:
  HttpSink() = default;
  HttpSink(const HttpSink&) = delete;
  HttpSink& operator=(const HttpSink&) = delete;
  HttpSink(HttpSink&&) = delete;
  HttpSink& operator=(HttpSink&&) = delete;
  virtual ~HttpSink() = default;

  virtual Status on_head(const HttpHead& head) = 0;  // once, before the first byte
  virtual Status on_body(std::span<const std::byte> bytes) = 0;
};

class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  HttpClient(HttpClient&&) = delete;
  HttpClient& operator=(HttpClient&&) = delete;
  ~HttpClient();

  // The answer, of whatever status; only a successful one went to `sink`. Errors: kOverloaded
  // (another try may help: time-outs, broken connections), kIo (no connection while nothing was
  // ever reached, so that a machine without network says so at once; a certificate that does not
  // hold), kInvalidArgument (the address), kCorruption (a redirect that is not followed),
  // kCancelled, and those of `sink`.
  Result<HttpHead> get(const HttpGet& request, HttpSink& sink);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr unsigned kRedirectsMax = 10;

// Whether two addresses have the same scheme, host and port.
bool is_same_origin(std::string_view a, std::string_view b);

// Whether a redirect may be followed. Errors: kCorruption (from https to http; to something that is
// neither), naming both.
Status check_redirect(const std::string& from, const std::string& to);

// Whether a secret may be sent there: https, or http on this machine.
bool is_private_channel(std::string_view url);

// "a b/c" -> "a%20b/c": a path's bytes as an address wants them, slashes kept.
std::string escape_path(std::string_view path);

}  // namespace cairn
